"""Packing file entries into immutable Arrow chunks, so that full plans of large tables are fast.

Objectives, which pull against each other: a full plan sends few, large chunks unchanged; packing writes each entry a
bounded number of times; chunks hold few removed entries. So ranges of order snapshots merge like the carries of a
binary counter: a new range absorbs those before it as long as they are not much larger, up to a size that is never
merged again. A range of which much was removed is packed again.

Packing never changes an answer: files that are not packed are planned from rows, and one transaction replaces all
chunks that change.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.clock import Clock, SystemClock
from lakelog.format.tables.files import FILE_SCHEMA, STATISTICS_FIELD

from ..alarm import Alarm
from ..heavy_work import HeavyWork, WorkThreads
from ..store.records import Chunk, FileQuery, NewChunk, Packed
from ..store.transaction import Store, Transaction, run_transaction
from .entries import read_entries, sort_entries, write_entries
from .parts import MAX_ENTRIES

MIN_UNPACKED: Final = 1024
"""Unpacked files from which packing pays; this many rows are loaded in a few milliseconds."""

MAX_RANGE_ENTRIES: Final = 4 * MAX_ENTRIES
"""Entries from which a range is never merged again. A range is rebuilt as a whole when a compaction's output belongs
into it, so it must not be too large either."""

MAX_STEP_FILES: Final = 50_000
"""Files that one step packs; with their statistics they take some ten MB of memory."""

_REMOVED_FRACTION: Final = 4
"""A range is packed again once one file in this many was removed."""

_TABLES_A_STEP: Final = 16

RECOVER_EVERY_S: Final = 30.0
"""How late a table is packed at worst if the metastore that got its commits died; the search reads all heads."""


@dataclass(frozen=True)
class RangePlan:
    """A range of order snapshots to be written, from the entries of some chunks and the files that came since.

    Args:
        after: The range begins after this order snapshot.
        until: It ends with this one.
        sources: Chunks whose entries it takes over, in order.
        lost: Ids of entries of the sources that were removed.
    """

    after: int
    until: int
    sources: tuple[Chunk, ...]
    lost: tuple[int, ...]


@dataclass(frozen=True)
class PackingPlan:
    """The changes of a step to the chunks of one table.

    Args:
        ranges: The ranges to be written, in order.
        without: Ids of removed files, for chunks that stay, by chunk id.
    """

    ranges: tuple[RangePlan, ...]
    without: dict[int, tuple[int, ...]]


class Packer:
    """Packs the files that came since the last time.

    Args:
        store: Where everything is stored.
        work: Its threads sort and write the chunks.
        min_unpacked: Unpacked files from which a table is packed.
        clock: Measures the time between two searches for which there is no cause.
    """

    def __init__(
        self, store: Store, work: HeavyWork, min_unpacked: int = MIN_UNPACKED, clock: Clock | None = None
    ) -> None:
        self._store = store
        self._threads = work.plans
        self._min_unpacked = min_unpacked
        self._alarm = Alarm(clock or SystemClock())

    def touch(self) -> None:
        """Notes that files were committed, so that the next `step_if_touched` packs."""
        self._alarm.notify()

    async def wait(self) -> None:
        """Returns once there may be something to pack."""
        await self._alarm.wait()

    async def step_if_touched(self) -> int:
        """`step`, if there may be something to pack: a metastore without commits does not search all heads each second.

        Raises:
            Unavailable, OutcomeUnknown: The store is lost; the next call tries again.
        """
        if not self._alarm.is_due:
            return 0
        self._alarm.set(RECOVER_EVERY_S)
        try:
            packed = await self.step()
        except BaseException:
            self._alarm.notify()
            raise
        if packed:
            # Of more tables than one step packs, the rest is left.
            self._alarm.notify()
        return packed

    async def step(self) -> int:
        """Packs the tables with the most unpacked files, each by itself; returns how many it packed."""
        tables = await run_transaction(self._store, lambda tx: tx.list_unpacked(self._min_unpacked, _TABLES_A_STEP))
        packed = 0
        for table_uuid in tables:
            packed += await self.pack(table_uuid)
        return packed

    async def pack(self, table_uuid: str) -> bool:
        """Packs one table; False when there is nothing to pack, or another metastore is packing it."""
        return await run_transaction(self._store, lambda tx: _pack(tx, table_uuid, self._threads))


async def _pack(tx: Transaction, table_uuid: str, threads: WorkThreads) -> bool:
    head = (await tx.find_heads([table_uuid])).get(table_uuid)
    if head is None or not await tx.lock_packing(head.table_id):
        return False
    # SUBTLE: read the head again: snapshots that the first one knew may have expired before the lock was held.
    head = (await tx.find_heads([table_uuid])).get(table_uuid)
    if head is None:
        return False
    table_id = head.table_id
    packed = await tx.find_chunks(table_id)
    if head.latest_snapshot_id <= packed.packed_until:
        return False
    # Of what expired snapshots added, all that is still live is also in the first retained one.
    after = max(packed.packed_until, head.earliest_change_id - 1)
    until = await _pick_until(tx, table_id, after, head.latest_snapshot_id)
    new = await tx.load_files(FileQuery(table_id, live_at=until, added_after=packed.packed_until, with_statistics=True))
    removed = await tx.load_files(
        FileQuery(table_id, removed_after=packed.packed_until, removed_until=until, added_until=packed.packed_until)
    )
    plan = await threads.run(new.num_rows + removed.num_rows, _plan_packing, packed, new, removed, until)
    insert: list[NewChunk] = []
    for range_plan in plan.ranges:
        insert += await _write_range(tx, range_plan, new, threads)
    delete = [chunk.chunk_id for range_plan in plan.ranges for chunk in range_plan.sources]
    await tx.replace_chunks(table_id, until, delete, insert, plan.without)
    return True


async def _pick_until(tx: Transaction, table_id: int, after: int, latest: int) -> int:
    """The newest snapshot that a step may reach, at least one further."""
    files = 0
    while after < latest:
        for snapshot in await tx.list_snapshots(table_id, after, latest, 10_000):
            files += snapshot.added_files + snapshot.removed_files
            if files > MAX_STEP_FILES and snapshot.snapshot_id > after + 1:
                return snapshot.snapshot_id - 1
            after = snapshot.snapshot_id
            if files > MAX_STEP_FILES:
                return after
    return latest


def _plan_packing(packed: Packed, new: pa.Table, removed: pa.Table, until: int) -> PackingPlan:
    return plan_packing(packed, _places(new), _places(removed), until)


def _places(entries: pa.Table) -> list[tuple[int, int]]:
    return list(zip(entries.column("file_id").to_pylist(), entries.column("order_snapshot").to_pylist(), strict=True))


def plan_packing(
    packed: Packed, new: Sequence[tuple[int, int]], removed: Sequence[tuple[int, int]], until: int
) -> PackingPlan:
    """Which ranges to write. Pure.

    Args:
        packed: The chunks so far.
        new: Files added after `packed.packed_until` that are live at `until`: id and order snapshot.
        removed: Files of the chunks that were removed after it, up to `until`: id and order snapshot.
        until: The snapshot that the chunks will describe.
    """
    groups: dict[int, list[Chunk]] = {}
    for chunk in packed.chunks:
        groups.setdefault(chunk.order_until, []).append(chunk)
    bounds = sorted(groups)
    last = bounds[-1] if bounds else 0

    orders = sorted(order for _, order in new)

    def incoming(after: int, through: int) -> int:
        return bisect_right(orders, through) - bisect_right(orders, after)

    # The new range absorbs the newest ones, as long as they are not much larger than it has become.
    count, first = incoming(last, until), len(bounds)
    while first > 0:
        live = sum(chunk.file_count for chunk in groups[bounds[first - 1]])
        if live > 2 * count or live + count > MAX_RANGE_ENTRIES:
            break
        first -= 1
        count += live
    ranges: list[RangePlan] = []
    without: dict[int, tuple[int, ...]] = {}
    after = 0
    for bound in bounds[:first]:
        parts = groups[bound]
        fresh = [file_id for file_id, order in removed if after < order <= bound]
        lost = (*(file_id for part in parts for file_id in part.without), *fresh)
        live = sum(part.file_count for part in parts)
        if incoming(after, bound) or len(lost) * _REMOVED_FRACTION > live:
            ranges.append(RangePlan(after, bound, tuple(parts), lost))
        elif fresh:
            without[parts[0].chunk_id] = (*parts[0].without, *fresh)
        after = bound
    sources = tuple(chunk for bound in bounds[first:] for chunk in groups[bound])
    lost = (
        *(file_id for chunk in sources for file_id in chunk.without),
        *(file_id for file_id, order in removed if order > after),
    )
    if sources or incoming(after, until):
        ranges.append(RangePlan(after, until, sources, lost))
    return PackingPlan(tuple(ranges), without)


async def _write_range(tx: Transaction, plan: RangePlan, new: pa.Table, threads: WorkThreads) -> list[NewChunk]:
    chunk_ids = [chunk.chunk_id for chunk in plan.sources]
    entries = await tx.load_entries(chunk_ids) if chunk_ids else {}
    statistics = await tx.load_chunk_statistics(chunk_ids) if chunk_ids else {}
    size = new.num_rows + sum(chunk.file_count for chunk in plan.sources)
    merged = await threads.run(size, _merge_range, plan, new, entries, statistics)
    chunks = []
    for part, start in enumerate(range(0, merged.num_rows, MAX_ENTRIES)):
        piece = merged.slice(start, MAX_ENTRIES)
        chunks.append(await threads.run(piece.num_rows, _new_chunk, piece, plan, part))
    return chunks


def _merge_range(
    plan: RangePlan, new: pa.Table, entries: Mapping[int, bytes], statistics: Mapping[int, bytes]
) -> pa.Table:
    """The entries of a range in the order of a plan, with their statistics."""
    order = new.column("order_snapshot")
    # A filter copies, so there is none for what stays whole: entries with statistics can be tens of megabytes.
    inside = pc.and_(pc.greater(order, plan.after), pc.less_equal(order, plan.until))
    tables = [new if pc.all(inside).as_py() else new.filter(inside)]
    for chunk in plan.sources:
        column = read_entries(statistics[chunk.chunk_id]).column(0)
        tables.append(read_entries(entries[chunk.chunk_id]).append_column(STATISTICS_FIELD, column))
    merged = pa.concat_tables(tables)
    if plan.lost:
        lost = pa.array(plan.lost, pa.int64())
        merged = merged.filter(pc.invert(pc.is_in(merged.column("file_id"), value_set=lost)))
    return sort_entries(merged)


def _new_chunk(entries: pa.Table, plan: RangePlan, part: int) -> NewChunk:
    lowest, highest = entries.column("min_key"), entries.column("max_key")
    return NewChunk(
        order_after=plan.after,
        order_until=plan.until,
        part=part,
        file_count=entries.num_rows,
        max_added=pc.max(entries.column("added_snapshot")).as_py(),
        # A file with an unknown bound may contain any key.
        first_key=None if lowest.null_count else pc.min(lowest).as_py(),
        last_key=None if highest.null_count else pc.max(highest).as_py(),
        entries=write_entries(entries.select(FILE_SCHEMA.names)),
        statistics=write_entries(entries.select(["statistics"])),
    )
