"""Commits and plans of many files: the same results as small ones, and the event loop goes on meanwhile.

How long the loop stands still is not measured. A ticker counts how often it came to its turn while the request ran; the
control is the same request with nothing handed to threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lakelog.errors import InvalidArgument, LakelogError
from lakelog.format.commit.request import BucketRef, CommitRequest, RemoveFiles
from lakelog.format.keys.encoding import encode_key
from lakelog.format.tables.files import ColumnStatistics, DataFile
from lakelog.format.tables.plan import InRange, PlanRequest
from lakelog.format.tables.predicate import MAX_COMPARISONS, MAX_VALUES, AllOf, AnyOf, Comparison, Operator, Predicate
from lakelog.format.tables.snapshot import ChangelogState, SnapshotKind
from lakelog.format.tables.table import TableInfo
from metastore.heavy_work import WorkThreads
from metastore.ownership import EVERYONE
from metastore.testing import InProcessMetastore
from tests.contract.metastore.planning import quiet
from tests.support.metastore.making import compaction, day, empty, make_change, make_file, make_table, snapshot_ids

MANY = 2500
"""Files that take several slices, and are more than what is done at once."""

ID = 2


@pytest.fixture(params=["memory", "postgres"])
def metastore(request: pytest.FixtureRequest) -> Iterator[InProcessMetastore]:
    with quiet(request, request.param) as opened:
        yield opened


@pytest.fixture
def in_memory(request: pytest.FixtureRequest) -> Iterator[InProcessMetastore]:
    with quiet(request, "memory") as opened:
        yield opened


def number(value: int) -> bytes:
    return encode_key([pa.scalar(value, pa.int64())])


def stage(metastore: InProcessMetastore, table: TableInfo) -> str:
    return metastore.stage_attempt([table.table_uuid], "w").attempt_id


def many_files(attempt: str, count: int = MANY, **fields: Any) -> list[DataFile]:
    """Files of ten ids each, from 0 on."""
    return [
        make_file(
            attempt,
            f"{place:06}",
            **{
                "bucket": place % 4,
                "statistics": (ColumnStatistics(ID, 0, number(10 * place), number(10 * place + 9)),),
                **fields,
            },
        )
        for place in range(count)
    ]


def commit_many(metastore: InProcessMetastore, table: TableInfo, identifier: int = 0, **fields: Any) -> CommitRequest:
    attempt = stage(metastore, table)
    request = CommitRequest("w", identifier, (make_change(table, many_files(attempt, **fields)),), attempt)
    metastore.commit(request)
    return request


def planned_names(metastore: InProcessMetastore, table: TableInfo, **request: Any) -> list[str]:
    paths = metastore.plan(PlanRequest(table.table_uuid, **request)).files.column("path").to_pylist()
    return sorted(path.split("/")[-1].removesuffix(".parquet") for path in paths)


def names_from(places: Iterator[int] | range) -> list[str]:
    return [f"{place:06}" for place in places]


def test_all_files_of_a_large_commit_are_planned_and_its_repeat_changes_nothing(metastore: InProcessMetastore) -> None:
    table = make_table(metastore)
    request = commit_many(metastore, table)
    again = metastore.commit(request)
    assert again.results[0].snapshot_id == 1
    plan = metastore.plan(PlanRequest(table.table_uuid))
    assert planned_names(metastore, table) == names_from(range(MANY))
    assert plan.snapshot is not None
    assert (plan.snapshot.total_files, plan.snapshot.total_rows) == (MANY, 10 * MANY)
    # Their ids and places are those of the commit's order.
    by_id = plan.files.sort_by("file_id")
    assert by_id.column("order_ordinal").to_pylist() == [*range(MANY)]
    assert [path[-14:-8] for path in by_id.column("path").to_pylist()] == names_from(range(MANY))


def test_a_large_commit_into_many_partitions_with_a_changelog(metastore: InProcessMetastore) -> None:
    table = make_table(metastore, partitioned=True, options={"bucket": "4", "changelog-producer": "input"})
    attempt = stage(metastore, table)
    files = [replace(file, partition=day(f"d{place % 700}")) for place, file in enumerate(many_files(attempt))]
    changelog = [replace(file, path=file.path.replace(".parquet", "-c.parquet")) for file in files[:1200]]
    change = make_change(table, files, changelog=ChangelogState.ATTACHED, changelog_files=tuple(changelog))
    metastore.commit(CommitRequest("w", 0, (change,), attempt))
    wanted = Comparison(1, Operator.IN, tuple(day(f"d{number}") for number in (3, 650)))
    expected = [f"{place:06}" for place in range(MANY) if place % 700 in (3, 650)]
    assert planned_names(metastore, table, predicate=wanted) == expected
    assert len(planned_names(metastore, table, at=InRange(0, 1), changelog=True)) == len(changelog)


def test_a_large_commit_can_remove_many_files(metastore: InProcessMetastore) -> None:
    table = make_table(metastore, keyed=False)
    commit_many(metastore, table, bucket=0)
    ids = metastore.plan(PlanRequest(table.table_uuid)).files.column("file_id").to_pylist()
    removed = tuple(sorted(ids)[: MANY - 3])
    change = make_change(table, kind=SnapshotKind.OVERWRITE, remove=RemoveFiles(removed))
    metastore.commit(CommitRequest("w", 1, (change,)))
    assert planned_names(metastore, table) == names_from(range(MANY - 3, MANY))
    with pytest.raises(LakelogError, match="not live any more"):
        metastore.commit(CommitRequest("w", 2, (change,)))


def test_a_large_compaction_moves_many_files(metastore: InProcessMetastore) -> None:
    table = make_table(metastore)
    attempt = stage(metastore, table)
    files = [
        replace(file, bucket=0, min_key=number(10 * place), max_key=number(10 * place + 9))
        for place, file in enumerate(many_files(attempt))
    ]
    metastore.commit(CommitRequest("w", 0, (make_change(table, files),), attempt))
    ids = metastore.plan(PlanRequest(table.table_uuid)).files.column("file_id").to_pylist()
    result = metastore.commit(CommitRequest("c", 0, (compaction(table, moves=ids, level=2),)))
    assert not result.results[0].dropped
    plan = metastore.plan(PlanRequest(table.table_uuid))
    assert planned_names(metastore, table) == names_from(range(MANY))
    assert set(plan.files.column("level").to_pylist()) == {2}


def test_a_large_commit_whose_buckets_must_be_unchanged(metastore: InProcessMetastore) -> None:
    table = make_table(metastore)
    commit_many(metastore, table)
    attempt = stage(metastore, table)
    buckets = tuple(BucketRef(b"", bucket) for bucket in range(4))
    change = make_change(table, many_files(attempt), base_snapshot_id=0, unchanged_buckets=buckets)
    with pytest.raises(LakelogError, match="changed or compacted buckets 0, 1, 2, 3"):
        metastore.commit(CommitRequest("other", 0, (change,), attempt))
    metastore.commit(CommitRequest("other", 0, (replace(change, base_snapshot_id=1),), attempt))
    assert snapshot_ids(metastore, table) == [1, 2]


def test_a_refused_large_commit_leaves_nothing_and_lets_the_next_one_go(metastore: InProcessMetastore) -> None:
    table = make_table(metastore)
    attempt = stage(metastore, table)
    files = many_files(attempt)
    for bad, message in (
        (replace(files[-1], size_bytes=0), "size_bytes is 0"),
        (replace(files[-1], path="elsewhere/x.parquet"), "is not allowed"),
        (files[0], "Name each file once"),
    ):
        request = CommitRequest("w", 0, (make_change(table, [*files[:-1], bad]),), attempt)
        with pytest.raises(InvalidArgument, match=message):
            metastore.commit(request)
    assert planned_names(metastore, table) == []
    metastore.commit(empty(table, 1))
    assert snapshot_ids(metastore, table) == [1]


def test_a_large_commit_keeps_its_place_before_a_small_one_that_comes_later(metastore: InProcessMetastore) -> None:
    table = make_table(metastore)
    attempt = stage(metastore, table)
    gate = metastore.use_cases.gate

    async def commit_all() -> list[int | None]:
        large = CommitRequest("w", 0, (make_change(table, many_files(attempt)),), attempt)
        requests = [empty(table, 0, writer="a"), large, *(empty(table, place, writer="b") for place in range(5))]
        tasks = [asyncio.ensure_future(gate.commit(request, by=EVERYONE)) for request in requests]
        return [result.results[0].snapshot_id for result in await asyncio.gather(*tasks)]

    assert metastore.run(commit_all()) == [1, 2, 3, 4, 5, 6, 7]


def test_a_large_commit_that_is_cancelled_while_it_is_checked_lets_the_next_one_go(
    metastore: InProcessMetastore,
) -> None:
    table = make_table(metastore)
    attempt = stage(metastore, table)
    gate = metastore.use_cases.gate

    async def cancel_first() -> int | None:
        large = CommitRequest("w", 0, (make_change(table, many_files(attempt)),), attempt)
        first = asyncio.ensure_future(gate.commit(large, by=EVERYONE))
        second = asyncio.ensure_future(gate.commit(empty(table, 0, writer="b"), by=EVERYONE))
        await asyncio.sleep(0)
        first.cancel()
        return (await second).results[0].snapshot_id

    assert metastore.run(cancel_first()) == 1
    assert planned_names(metastore, table) == []


@pytest.mark.parametrize("is_packed", [False, True], ids=["rows", "chunks"])
def test_plans_with_many_values_list_the_files_that_hold_one(metastore: InProcessMetastore, is_packed: bool) -> None:
    table = make_table(metastore, keyed=False)
    commit_many(metastore, table, bucket=0)
    if is_packed:
        assert metastore.run(metastore.use_cases.packer.pack(table.table_uuid))
    wanted = [number(10 * place + place % 10) for place in range(0, MANY, 3)]
    in_list = Comparison(ID, Operator.IN, tuple(wanted))
    expected = names_from(range(0, MANY, 3))
    assert planned_names(metastore, table, predicate=in_list) == expected
    either = AnyOf(tuple(Comparison(ID, Operator.IN, (value,)) for value in wanted))
    assert planned_names(metastore, table, predicate=either) == expected
    pairs = AnyOf(
        tuple(
            AllOf(
                (Comparison(ID, Operator.GREATER_OR_EQUAL, (value,)), Comparison(ID, Operator.LESS_OR_EQUAL, (value,)))
            )
            for value in wanted[:100]
        )
    )
    assert planned_names(metastore, table, predicate=pairs) == expected[:100]


def test_predicates_on_many_partitions(metastore: InProcessMetastore) -> None:
    table = make_table(metastore, partitioned=True)
    attempt = stage(metastore, table)
    files = [replace(file, partition=day(f"{place:05}")) for place, file in enumerate(many_files(attempt))]
    metastore.commit(CommitRequest("w", 0, (make_change(table, files),), attempt))
    wanted = tuple(day(f"{place:05}") for place in range(0, MANY, 2))
    assert planned_names(metastore, table, predicate=Comparison(1, Operator.IN, wanted)) == names_from(
        range(0, MANY, 2)
    )
    later = Comparison(1, Operator.GREATER, (day(f"{MANY - 11:05}"),))
    assert planned_names(metastore, table, predicate=later) == names_from(range(MANY - 10, MANY))


def test_predicates_are_bounded_and_say_what_to_do(metastore: InProcessMetastore) -> None:
    table = make_table(metastore, keyed=False)
    metastore.commit(empty(table, 0))

    def below(place: int) -> Predicate:
        return AllOf((Comparison(1, Operator.LESS, (number(place),)), Comparison(ID, Operator.LESS, (number(-place),))))

    half = MAX_COMPARISONS // 2
    assert planned_names(metastore, table, predicate=AnyOf(tuple(below(place) for place in range(half)))) == []
    with pytest.raises(
        InvalidArgument, match=f"{MAX_COMPARISONS + 2} comparisons.*in one IN, or leave comparisons out"
    ):
        metastore.plan(PlanRequest(table.table_uuid, predicate=AnyOf(tuple(below(place) for place in range(half + 1)))))
    too_many = Comparison(ID, Operator.IN, tuple(number(place) for place in range(MAX_VALUES + 1)))
    with pytest.raises(InvalidArgument, match=f"{MAX_VALUES + 1} values.*the least and the greatest"):
        metastore.plan(PlanRequest(table.table_uuid, predicate=too_many))
    deep: Predicate = Comparison(ID, Operator.IS_NULL)
    for _ in range(70):
        deep = AllOf((deep, deep))
        deep = AnyOf((deep.operands[0],))
    with pytest.raises(InvalidArgument, match="levels are possible; flatten it"):
        metastore.plan(PlanRequest(table.table_uuid, predicate=deep))


async def do_at_once(_threads: WorkThreads, _size: int, function: Callable[..., Any], *args: Any) -> Any:
    """Nothing is handed to a thread."""
    return function(*args)


async def count_turns(work: Coroutine[Any, Any, object]) -> int:
    """How often the event loop comes to another task while one does its work."""
    task, turns = asyncio.ensure_future(work), 0
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
    await task
    return turns


def turns_during_a_commit(metastore: InProcessMetastore, table: TableInfo, identifier: int) -> int:
    attempt = stage(metastore, table)
    change = make_change(table, many_files(attempt, 10_000))
    commit = metastore.use_cases.gate.commit(CommitRequest("w", identifier, (change,), attempt), by=EVERYONE)
    return metastore.run(count_turns(commit))


def test_the_loop_goes_on_during_a_large_commit(in_memory: InProcessMetastore, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(in_memory)
    beside = turns_during_a_commit(in_memory, table, 0)
    monkeypatch.setattr(WorkThreads, "run", do_at_once)
    control = turns_during_a_commit(in_memory, table, 1)
    assert control < 50, "all of it was one step, or a few"
    assert beside > 10 * control


def test_the_loop_goes_on_during_a_large_plan(in_memory: InProcessMetastore, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(in_memory, keyed=False)
    commit_many(in_memory, table, count=10_000, bucket=0)
    assert in_memory.run(in_memory.use_cases.packer.pack(table.table_uuid))
    wanted = Comparison(ID, Operator.IN, tuple(number(place) for place in range(0, 90_000, 2)))

    async def plan() -> None:
        stream = await in_memory.use_cases.planner.plan(PlanRequest(table.table_uuid, predicate=wanted))
        async for _ in stream.chunks:
            pass

    beside = in_memory.run(count_turns(plan()))
    monkeypatch.setattr(WorkThreads, "run", do_at_once)
    control = in_memory.run(count_turns(plan()))
    assert control < 50, "all of it was one step, or a few"
    assert beside > 10 * control
