"""What a packing step does, drawn as ranges of order snapshots: `(after, until]` with the number of entries."""

from __future__ import annotations

import asyncio

import pyarrow as pa
import pytest

from lakelog.clock import SystemClock
from lakelog.format.commit.request import Change, CommitRequest, RemoveFiles
from lakelog.format.tables.plan import AtSnapshot, PlanRequest
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.format.tables.table import TableName
from metastore.heavy_work import HeavyWork
from metastore.memory import MemoryStore
from metastore.ownership import EVERYONE
from metastore.plans.entries import read_entries
from metastore.plans.packing import MAX_RANGE_ENTRIES, Packer, plan_packing
from metastore.store.records import Chunk, Packed
from metastore.use_cases import UseCases
from tests.support.metastore.making import make_file


def chunk(chunk_id: int, after: int, until: int, count: int, without: tuple[int, ...] = (), part: int = 0) -> Chunk:
    return Chunk(chunk_id, after, until, part, count, until, None, None, without, 0)


def drawn(packed: list[Chunk], new: list[tuple[int, int]], removed: list[tuple[int, int]], until: int) -> str:
    plan = plan_packing(Packed(packed[-1].order_until if packed else 0, tuple(packed)), new, removed, until)
    ranges = [f"({r.after}, {r.until}] of {[c.chunk_id for c in r.sources]} less {sorted(r.lost)}" for r in plan.ranges]
    return "; ".join([*ranges, *(f"chunk {chunk_id} less {ids}" for chunk_id, ids in plan.without.items())])


def files(first: int, last: int) -> list[tuple[int, int]]:
    """One file a snapshot."""
    return [(number, number) for number in range(first, last + 1)]


def test_the_first_range() -> None:
    assert drawn([], files(1, 5), [], 5) == "(0, 5] of [] less []"


def test_a_new_range_swallows_what_is_not_much_larger() -> None:
    chunks = [chunk(1, 0, 100, 100), chunk(2, 100, 120, 20), chunk(3, 120, 130, 10)]
    assert drawn(chunks, files(131, 135), [], 135) == "(100, 135] of [2, 3] less []"
    assert drawn(chunks, files(131, 134), [], 134) == "(130, 134] of [] less []"
    assert drawn(chunks, files(131, 160), [], 160) == "(0, 160] of [1, 2, 3] less []"


def test_a_full_range_is_never_merged_again() -> None:
    full = chunk(1, 0, 100, MAX_RANGE_ENTRIES)
    assert drawn([full], files(101, 101 + MAX_RANGE_ENTRIES), [], 10**6) == f"(100, {10**6}] of [] less []"


def test_what_was_removed_is_noted_or_packed_again() -> None:
    chunks = [chunk(1, 0, 100, 100), chunk(2, 100, 200, 100, without=(150,))]
    assert drawn(chunks, [], [(7, 7), (8, 8)], 201) == "chunk 1 less (7, 8)"
    assert drawn(chunks, [], [(160, 160)], 201) == "chunk 2 less (150, 160)"
    gone = files(101, 125)
    lost = sorted([150, *(number for number, _ in gone)])
    assert drawn(chunks, [], gone, 201) == f"(100, 200] of [2] less {lost}"


def test_what_belongs_into_an_older_range_is_merged_into_it() -> None:
    chunks = [chunk(1, 0, 100, 60), chunk(2, 0, 100, 60, part=1), chunk(3, 100, 140, 40)]
    assert drawn(chunks, [(500, 50)], [(50, 50), (51, 51)], 141) == "(0, 100] of [1, 2] less [50, 51]"


def test_ranges_stay_gapless_when_one_is_emptied() -> None:
    chunks = [chunk(1, 0, 100, 100), chunk(3, 200, 300, 30)]
    # Order snapshot 150 lies where a range was emptied: it belongs to the next one.
    assert drawn(chunks, [(900, 150)], [], 301) == "(100, 300] of [3] less []"


def test_removed_files_are_left_out_of_ranges_that_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metastore.plans.planning._MAX_ROW_PLAN_FILES", -1)
    monkeypatch.setattr("metastore.plans.packing.MAX_RANGE_ENTRIES", 8)

    async def main() -> None:
        store = MemoryStore(SystemClock())
        use_cases = UseCases(store, "file:///w")
        packer = Packer(store, HeavyWork(), 1)
        await use_cases.catalog.create_database("d")
        table, _ = await use_cases.catalog.create_table(
            TableName("d", "t"), pa.schema([("id", pa.int64())]), by=EVERYONE
        )

        async def commit(identifier: int, count: int, *remove: int) -> None:
            attempt = (await use_cases.staging.stage_attempt([table.table_uuid], "w", by=EVERYONE)).attempt_id
            added = tuple(make_file(attempt, f"f{n}") for n in range(count))
            kind = SnapshotKind.OVERWRITE if remove else SnapshotKind.APPEND
            change = Change(table.table_uuid, kind, 0, -1, added, RemoveFiles(remove) if remove else None)
            await use_cases.gate.commit(CommitRequest("w", identifier, (change,), attempt), by=EVERYONE)

        async def plan(snapshot_id: int) -> tuple[set[int], int]:
            stream = await use_cases.planner.plan(PlanRequest(table.table_uuid, at=AtSnapshot(snapshot_id)))
            listed: set[int] = set()
            without: set[int] = set()
            async for part in stream.chunks:
                listed.update(read_entries(part.entries).column("file_id").to_pylist())
                without.update(part.without_file_ids)
            return listed - without, len(without)

        await commit(1, 8)
        assert await packer.pack(table.table_uuid)
        await commit(2, 8)
        assert await packer.pack(table.table_uuid)
        await commit(3, 1, 3)
        assert await packer.pack(table.table_uuid)
        assert not await packer.pack(table.table_uuid)
        assert await plan(3) == (set(range(1, 18)) - {3}, 1)
        assert (await plan(2))[0] == set(range(1, 17))
        assert (await plan(1))[0] == set(range(1, 9))
        await use_cases.close()

    asyncio.run(main())
