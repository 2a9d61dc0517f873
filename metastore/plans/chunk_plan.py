"""Plans from packed entries.

The chunks of a table describe its state at snapshot P (`packed_until`). Each holds a range of order snapshots, in
parts; its entries were live when they were packed, and those removed until P are listed. A plan at snapshot n consists
of them:

- n >= P: less what was removed in (P, n]; plus what was added in (P, n] and is live at n.
- n < P: less what was added after n; plus what was removed in (n, P] and is live at n.

An added file comes after all chunks, unless a compaction wrote it into the place of its inputs, or it was removed
again: such a file is merged into the range it belongs to, so that the order of each bucket holds across chunks. All
other ranges are sent as they are.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import Unavailable
from lakelog.format.tables.files import STATISTICS_FIELD
from lakelog.recently_used import RecentlyUsed

from ..heavy_work import WorkThreads
from ..store.records import Chunk
from ..store.transaction import Store, Transaction, run_transaction
from .entries import read_entries, sort_entries
from .file_filter import FileFilter
from .parts import PlanChunkData, slice_entries, stream_sorted

ChunkCache: TypeAlias = RecentlyUsed[int, bytes]
"""Packed entries in memory. They never change, so an entry here is never wrong, only absent."""

_LOADED_AT_ONCE: Final = 16
"""Chunks fetched by one statement while a plan is sent: a few MB."""


@dataclass(frozen=True)
class ChunkPlan:
    """A plan whose packed entries are still to be loaded.

    Args:
        snapshot_id: The snapshot that is read.
        packed_until: The snapshot that the chunks describe; 0: there are none.
        wanted: Which files the plan wants.
        ranges: The chunks in order, the parts of one range together.
        removed: Ids of files that were removed between packing and the snapshot.
        extra: Entries that the chunks lack, or list as removed though the snapshot has them.
    """

    snapshot_id: int
    packed_until: int
    wanted: FileFilter
    ranges: tuple[tuple[Chunk, ...], ...]
    removed: tuple[int, ...]
    extra: pa.Table

    async def judged(self, threads: WorkThreads) -> ChunkPlan:
        """The plan without rows that it does not want."""
        size = self.wanted.weigh(self.extra.num_rows)
        return replace(self, extra=await threads.run(size, self.wanted.select, self.extra))

    async def stream(self, store: Store, cache: ChunkCache, threads: WorkThreads) -> AsyncIterator[PlanChunkData]:
        """The parts of the plan.

        Raises:
            Unavailable: A chunk was deleted because the plan was sent too slowly; plan again.
        """
        removed = self.removed
        bounds = [0, *(parts[0].order_until for parts in self.ranges)]
        extras = await threads.run(self.extra.num_rows, _split, self.extra, bounds)
        for parts, inside in zip(self.ranges, extras, strict=False):
            if not self._is_sent_as_it_is(parts, inside):
                for chunk in await self._rebuild(store, cache, threads, parts, inside):
                    yield chunk
                continue
            for first in range(0, len(parts), _LOADED_AT_ONCE):
                batch = parts[first : first + _LOADED_AT_ONCE]
                for part, entries in zip(batch, await _load_entries(store, cache, batch), strict=True):
                    yield PlanChunkData(entries, part.without + removed)
                    removed = ()
        async for chunk in stream_sorted(extras[-1], threads, with_statistics=self.wanted.with_statistics):
            yield chunk

    def _is_sent_as_it_is(self, parts: Sequence[Chunk], inside: pa.Table) -> bool:
        # Statistics are stored apart from the entries.
        if inside.num_rows or not self.wanted.wants_all or self.wanted.with_statistics:
            return False
        return max(part.max_added for part in parts) <= self.snapshot_id

    async def _rebuild(
        self, store: Store, cache: ChunkCache, threads: WorkThreads, parts: Sequence[Chunk], inside: pa.Table
    ) -> list[PlanChunkData]:
        """The parts of a range whose entries are not sent unchanged."""
        gone = [part.without for part in parts]
        parts = [part for part in parts if _may_hold_keys(part, self.wanted)]
        entries = await _load_entries(store, cache, parts)
        statistics = await _load_statistics(store, parts) if parts and self.wanted.needs_statistics else None
        size = self.wanted.weigh(sum(part.file_count for part in parts) + inside.num_rows)
        return await threads.run(size, self._select_range, entries, statistics, gone, inside)

    def _select_range(
        self,
        packed: Sequence[bytes],
        statistics: Sequence[bytes] | None,
        without: Sequence[Sequence[int]],
        inside: pa.Table,
    ) -> list[PlanChunkData]:
        """Takes the wanted entries from the chunks of a range, and inserts the rows that belong between them."""
        gone = [np.asarray(ids, np.int64) for ids in (*without, self.removed)]
        gone.append(inside.column("file_id").to_numpy())
        known = pa.array(np.concatenate(gone))
        tables = [inside]
        if packed:
            entries = pa.concat_tables([read_entries(data) for data in packed])
            if statistics is not None:
                column = pa.concat_tables([read_entries(data) for data in statistics]).column(0)
                entries = entries.append_column(STATISTICS_FIELD, column)
            stays = pc.less_equal(entries.column("added_snapshot"), self.snapshot_id)
            if len(known):
                stays = pc.and_not(stays, pc.is_in(entries.column("file_id"), value_set=known))
            tables.insert(0, self.wanted.select_packed(entries.filter(stays)))
        ordered = sort_entries(pa.concat_tables(tables))
        return slice_entries(ordered, with_statistics=self.wanted.with_statistics)


def _split(extra: pa.Table, bounds: Sequence[int]) -> list[pa.Table]:
    """The entries of each range of order snapshots, from after a bound up to the next; the last range has no end."""
    order = extra.column("order_snapshot").to_numpy()
    places = np.searchsorted(np.asarray(bounds), order, side="left") - 1
    rising = np.argsort(places, kind="stable")
    taken = extra.take(pa.array(rising)) if extra.num_rows else extra
    ends = np.searchsorted(places[rising], np.arange(len(bounds) + 1))
    return [taken.slice(start, stop - start) for start, stop in pairwise(ends)]


async def prepare_chunks(tx: Transaction, table_id: int, snapshot_id: int, wanted: FileFilter) -> ChunkPlan:
    """A plan of a snapshot without its packed entries; its rows are still to be tested (`ChunkPlan.judged`)."""
    packed = await tx.find_chunks(table_id)
    removed: list[int] = []
    if not packed.chunks:
        extra = await tx.load_files(wanted.query(live_at=snapshot_id))
    elif snapshot_id >= packed.packed_until:
        removed = await tx.list_removed(table_id, packed.packed_until, snapshot_id)
        extra = await tx.load_files(wanted.query(live_at=snapshot_id, added_after=packed.packed_until))
    else:
        extra = await tx.load_files(
            wanted.query(live_at=snapshot_id, removed_after=snapshot_id, removed_until=packed.packed_until)
        )
    ranges: dict[int, list[Chunk]] = {}
    for chunk in packed.chunks:
        # A file is never added before its place in the order, so these chunks hold no file that old.
        if chunk.order_after < snapshot_id:
            ranges.setdefault(chunk.order_until, []).append(chunk)
    return ChunkPlan(
        snapshot_id=snapshot_id,
        packed_until=packed.packed_until if packed.chunks else 0,
        wanted=wanted,
        ranges=tuple(tuple(parts) for parts in ranges.values()),
        removed=tuple(removed),
        extra=extra,
    )


def _may_hold_keys(part: Chunk, wanted: FileFilter) -> bool:
    if wanted.first_key is not None and part.last_key is not None and part.last_key < wanted.first_key:
        return False
    return not (wanted.last_key is not None and part.first_key is not None and part.first_key > wanted.last_key)


async def _load_entries(store: Store, cache: ChunkCache, parts: Sequence[Chunk]) -> list[bytes]:
    found = {part.chunk_id: cache.get(part.chunk_id) for part in parts}
    absent = [chunk_id for chunk_id, entries in found.items() if entries is None]
    if absent:
        for chunk_id, entries in (await run_transaction(store, lambda tx: tx.load_entries(absent))).items():
            found[chunk_id] = entries
            cache.put(chunk_id, entries)
    return [_present(found[part.chunk_id]) for part in parts]


async def _load_statistics(store: Store, parts: Sequence[Chunk]) -> list[bytes]:
    chunk_ids = [part.chunk_id for part in parts]
    found = await run_transaction(store, lambda tx: tx.load_chunk_statistics(chunk_ids))
    return [_present(found.get(chunk_id)) for chunk_id in chunk_ids]


def _present(entries: bytes | None) -> bytes:
    if entries is None:
        raise Unavailable(
            "The plan was read so slowly that its files were packed again meanwhile. Plan again, and read it in one "
            "go.",
            reason="PLAN_OVERTAKEN",
        )
    return entries
