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
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import Unavailable

from ..store.records import Chunk
from ..store.transaction import Store, Transaction, run_transaction
from .chunk_cache import ChunkCache
from .entries import STATISTICS_FIELD, read_entries, sort_entries
from .file_filter import FileFilter
from .parts import PlanChunkData, slice_entries

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

    async def stream(self, store: Store, cache: ChunkCache) -> AsyncIterator[PlanChunkData]:
        """The parts of the plan.

        Raises:
            Unavailable: A chunk was deleted because the plan was sent too slowly; plan again.
        """
        order = self.extra.column("order_snapshot")
        removed = self.removed
        after = 0
        for parts in self.ranges:
            until = parts[0].order_until
            inside = self.extra.filter(pc.and_(pc.greater(order, after), pc.less_equal(order, until)))
            after = until
            if not self._is_sent_as_it_is(parts, inside):
                for chunk in await self._rebuild(store, cache, parts, inside):
                    yield chunk
                continue
            for first in range(0, len(parts), _LOADED_AT_ONCE):
                batch = parts[first : first + _LOADED_AT_ONCE]
                for part, entries in zip(batch, await _load_entries(store, cache, batch), strict=True):
                    yield PlanChunkData(entries, part.without + removed)
                    removed = ()
        for chunk in slice_entries(sort_entries(self.extra.filter(pc.greater(order, after)))):
            yield chunk

    def _is_sent_as_it_is(self, parts: Sequence[Chunk], inside: pa.Table) -> bool:
        if inside.num_rows or not self.wanted.wants_all:
            return False
        return max(part.max_added for part in parts) <= self.snapshot_id

    async def _rebuild(
        self, store: Store, cache: ChunkCache, parts: Sequence[Chunk], inside: pa.Table
    ) -> list[PlanChunkData]:
        """The parts of a range whose entries are not sent unchanged."""
        wanted = self.wanted
        gone = {file_id for part in parts for file_id in part.without}
        gone.update(self.removed, inside.column("file_id").to_pylist())
        parts = [part for part in parts if _may_hold_keys(part, wanted)]
        tables = [inside]
        if parts:
            entries = pa.concat_tables([read_entries(data) for data in await _load_entries(store, cache, parts)])
            if wanted.needs_statistics:
                entries = entries.append_column(STATISTICS_FIELD, await _load_statistics(store, parts))
            stays = pc.less_equal(entries.column("added_snapshot"), self.snapshot_id)
            if gone:
                known = pa.array(np.fromiter(gone, np.int64, len(gone)))
                stays = pc.and_not(stays, pc.is_in(entries.column("file_id"), value_set=known))
            tables.insert(0, wanted.select_packed(entries.filter(stays)))
        return slice_entries(sort_entries(pa.concat_tables(tables)))


async def prepare_chunks(tx: Transaction, table_id: int, snapshot_id: int, wanted: FileFilter) -> ChunkPlan:
    """A plan of a snapshot without its packed entries."""
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
        extra=wanted.select(extra),
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


async def _load_statistics(store: Store, parts: Sequence[Chunk]) -> pa.ChunkedArray:
    chunk_ids = [part.chunk_id for part in parts]
    found = await run_transaction(store, lambda tx: tx.load_chunk_statistics(chunk_ids))
    tables = [read_entries(_present(found.get(chunk_id))) for chunk_id in chunk_ids]
    return pa.concat_tables(tables).column(0)


def _present(entries: bytes | None) -> bytes:
    if entries is None:
        raise Unavailable(
            "The plan was read so slowly that its files were packed again meanwhile. Plan again, and read it in one "
            "go.",
            reason="PLAN_OVERTAKEN",
        )
    return entries
