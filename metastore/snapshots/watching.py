"""Watches: every watcher of a table receives each new snapshot, without gaps.

The truth is always `snapshots after n` in the store; everything else only says when to read it. So a lost announcement
costs latency, never correctness. Commits of this process come with their snapshots, those of others are announced
through the store, and a slow poll finds whatever was missed.

Invariants:

1. A watcher's position rises by one snapshot at a time, and each follows the one sent before. If a database loses
   commits in a failover, even under an open watch, the watch of a reader that has seen one of them ends (reliability
   C9), whether or not other commits have come since.
2. Neither the newest snapshot nor the last one without a pending changelog before it ever falls, unless the database
   has lost them. A watcher receives snapshots up to one of the two, as it asked.
3. Memory holds a gapless tail of a table's history, which ends at the newest known snapshot; where that is not
   possible, it is dropped. So a watcher never receives lost snapshots from memory once a head was read after the loss.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Final

from lakelog.client.metastore.metastore import WatchEvent, WatchPosition
from lakelog.errors import LakelogError, ResourceExhausted, SnapshotExpired
from lakelog.format.commit.facts import TableHead
from lakelog.format.tables.snapshot import ChangelogState, Snapshot

from ..metrics import Metrics
from ..store.limits import Limits
from ..store.transaction import Store, Transaction, run_transaction
from ..tables.dropped import explain_gone
from .watch_positions import check_history, check_parent, check_positions, follows, is_loss

log = logging.getLogger(__name__)

_MAX_EVENT: Final = 1000
"""Snapshots of one event."""

_FIRST_LOAD: Final = 4
"""Snapshots of the first event that a watcher loads from the store. Further events have about `_LOAD_BYTES`: a watcher
whose client does not read holds an event, and a snapshot can have 64 KiB of properties."""

_LOAD_BYTES: Final = 64 * 1024

_SNAPSHOT_BYTES: Final = 256
"""Bytes of a snapshot without properties."""

_LOADS_AT_ONCE: Final = 2
"""How many watchers read from the store at once, so that thousands that catch up leave connections to calls."""

QUIET_POLL_S: Final = 10.0
"""Between two polls while nothing is committed. A lost announcement costs a watcher no more. It is lost if another
metastore dies between a commit and its announcement, or while the connection that listens has gone silent."""

_STIRRED_S: Final = 30.0
"""How long after a commit, of this process or announced by another, polls come as often as they may."""

_MAX_TAIL: Final = 2000
"""Snapshots of a watched table kept in memory: twice what one event holds."""


@dataclass(eq=False)
class _WatchedTable:
    """A table with watchers.

    Args:
        table_id: The store's number of it.
        latest: The newest known snapshot.
        latest_uuid: Its uuid; empty if there is none, or it is not known.
        complete: No changelog is pending up to this snapshot.
        tail: The newest snapshots without a gap, at most `_MAX_TAIL`; may be empty.
        first_open_in_tail: The lowest of these whose changelog was pending when they were stored here; 0: none.
        dropped: Whether it was dropped.
        losses: How often its history was found to lack snapshots that were known here.
        watchers: The watchers to wake.
    """

    table_id: int
    latest: int
    latest_uuid: str
    complete: int
    tail: deque[Snapshot] = field(default_factory=lambda: deque(maxlen=_MAX_TAIL))
    first_open_in_tail: int = 0
    dropped: bool = False
    losses: int = 0
    watchers: set[_Watcher] = field(default_factory=set)

    def find_uuid(self, snapshot_id: int) -> str:
        """The uuid of a snapshot, if it is known here; else empty."""
        if snapshot_id == self.latest and self.latest_uuid:
            return self.latest_uuid
        if self.tail and self.tail[0].snapshot_id <= snapshot_id <= self.tail[-1].snapshot_id:
            return self.tail[snapshot_id - self.tail[0].snapshot_id].snapshot_uuid
        return ""

    def forget_tail(self) -> None:
        """Drops the snapshots in memory; watchers read them from the store."""
        self.tail.clear()
        self.first_open_in_tail = 0


@dataclass(eq=False)
class _Watcher:
    """An open watch.

    Args:
        after: The last snapshot sent, by table uuid; a table that was dropped is missing.
        after_uuids: Its uuid, where it is known.
        caught_up: Tables whose newest snapshot the watcher has seen once.
        losses: The losses of each table that were known when its position was last checked.
        wants_complete: It receives a snapshot once no changelog up to and including that one is pending.
        load: How many snapshots its next event from the store can have.
    """

    after: dict[str, int]
    after_uuids: dict[str, str] = field(default_factory=dict)
    caught_up: set[str] = field(default_factory=set)
    losses: dict[str, int] = field(default_factory=dict)
    wants_complete: bool = False
    load: int = _FIRST_LOAD
    woken: asyncio.Event = field(default_factory=asyncio.Event)

    def until(self, table: _WatchedTable) -> int:
        """The last snapshot of a table that it may receive now."""
        return table.complete if self.wants_complete else table.latest


class WatchHub:
    """Wakes watchers. Runs on one event loop.

    Args:
        store: Where everything is stored.
        limits: How far a watcher may fall behind.
        metrics: Gets the number of watchers.
    """

    def __init__(self, store: Store, limits: Limits, metrics: Metrics) -> None:
        self._store = store
        self._limits = limits
        self._metrics = metrics
        self._tables: dict[str, _WatchedTable] = {}
        self._watchers: set[_Watcher] = set()
        self._to_announce: set[str] = set()
        self._stirred = asyncio.Event()
        self._announce_soon = asyncio.Event()
        self._quiet_from_s = 0.0
        self._closed = False
        self._loads = asyncio.Semaphore(_LOADS_AT_ONCE)
        self.listeners: list[Callable[[frozenset[str]], None]] = []
        """Called with each announcement of another metastore; an empty one means that some may have been missed."""

    def committed(self, table_uuid: str, snapshots: Sequence[Snapshot], complete: int) -> None:
        """Adds durable new snapshots of a table, in rising order; no changelog is pending up to `complete`."""
        self._stir()
        self._to_announce.add(table_uuid)
        self._announce_soon.set()
        table = self._tables.get(table_uuid)
        if table is None or not snapshots:
            return
        if not table.tail or not follows(table.tail[-1], snapshots[0]):
            # Another metastore committed in between, or this one never learned of a commit whose answer was lost, or
            # the database has lost the tail.
            table.forget_tail()
        table.tail.extend(snapshots)
        if not table.first_open_in_tail:
            opened = (each.snapshot_id for each in snapshots if each.changelog is ChangelogState.PENDING)
            table.first_open_in_tail = next(opened, 0)
        self._advance(table, snapshots[-1].snapshot_id, snapshots[-1].snapshot_uuid, complete)

    def attached(self, table_uuid: str, complete: int) -> None:
        """Notifies watchers that changelogs were attached; none is pending up to `complete` now."""
        self._stir()
        self._to_announce.add(table_uuid)
        self._announce_soon.set()
        table = self._tables.get(table_uuid)
        if table is not None:
            self._advance(table, table.latest, table.latest_uuid, complete)

    def announce(self, name: str) -> None:
        """Announces a name that is not a table to other metastores on the same store, soon."""
        self._to_announce.add(name)
        self._announce_soon.set()

    def uncertain(self, table_uuid: str) -> None:
        """Notifies watchers, also those of other metastores, that a table may have new snapshots."""
        self._stir()
        self._to_announce.add(table_uuid)
        self._announce_soon.set()

    def dropped(self, table_uuid: str) -> None:
        """Notifies watchers that a table was dropped."""
        self._to_announce.add(table_uuid)
        self._announce_soon.set()
        table = self._tables.get(table_uuid)
        if table is not None:
            self._drop(table)

    async def watch(self, positions: Sequence[WatchPosition], *, complete: bool = False) -> AsyncIterator[WatchEvent]:
        check_positions(positions, self._limits)
        watcher = _Watcher(
            {position.table_uuid: position.after for position in positions},
            {position.table_uuid: position.after_uuid for position in positions if position.after_uuid},
            wants_complete=complete,
        )
        self._watchers.add(watcher)
        self._metrics.set_level("watchers", len(self._watchers))
        try:
            async with self._loads:
                await run_transaction(self._store, lambda tx: self._open(tx, watcher, positions))
            while watcher.after and not self._closed:
                watcher.woken.clear()
                for table_uuid in list(watcher.after):
                    async for event in self._notify(watcher, table_uuid):
                        yield event
                if watcher.after and not self._closed:
                    await watcher.woken.wait()
        finally:
            self._close_watcher(watcher, [position.table_uuid for position in positions])

    async def wait_while_quiet(self) -> None:
        """Returns when it is time for the next poll: soon, unless nothing has been committed for a while."""
        self._stirred.clear()
        if asyncio.get_running_loop().time() >= self._quiet_from_s:
            # SUBTLE: not wait_for, which in Python 3.11 loses a cancellation that comes with the event.
            with suppress(TimeoutError):
                async with asyncio.timeout(QUIET_POLL_S):
                    await self._stirred.wait()

    async def step_poll(self) -> None:
        """Checks once whether heads of watched tables have moved. Runs every few seconds, and after announcements."""
        await self._poll(list(self._tables))

    async def step_announce(self) -> None:
        """Waits for a commit, then notifies other metastores on the same store.

        Raises:
            Unavailable, OutcomeUnknown: The store is lost; the next call notifies of the same.
            Exception: The store refuses it, and would do so again: the others find by polling what has changed.
        """
        await self._announce_soon.wait()
        await self.announce_rest()

    async def announce_rest(self) -> None:
        """Notifies other metastores of what they have not been notified of yet; raises as `step_announce`."""
        self._announce_soon.clear()
        tables, self._to_announce = self._to_announce, set()
        try:
            await self._store.announce(tables)
        except asyncio.CancelledError:
            # Left to the last announcement of a metastore that ends.
            self._to_announce |= tables
            raise
        except LakelogError as error:
            if error.retryable:
                # The others would find it by polling, but that is rare.
                self._to_announce |= tables
                self._announce_soon.set()
            raise

    async def run_listen(self) -> None:
        """Follows the announcements of other metastores, until the store is closed."""
        async with aclosing(self._store.listen()) as announcements:
            async for announced in announcements:
                self._stir()
                for listener in self.listeners:
                    listener(announced)
                try:
                    await self._poll([table for table in announced or self._tables if table in self._tables])
                except LakelogError as error:
                    log.warning("could not look at announced tables: %s", error)

    def close(self) -> None:
        """Ends all watches."""
        self._closed = True
        for watcher in self._watchers:
            watcher.woken.set()

    def _stir(self) -> None:
        self._quiet_from_s = asyncio.get_running_loop().time() + _STIRRED_S
        self._stirred.set()

    async def _poll(self, table_uuids: list[str]) -> None:
        if not table_uuids:
            return
        known = self._list_latest(table_uuids)
        heads = await run_transaction(self._store, lambda tx: tx.find_heads(table_uuids))
        for table_uuid in table_uuids:
            table = self._tables.get(table_uuid)
            if table is None:
                continue
            head = heads.get(table_uuid)
            if head is None:
                self._drop(table)
            else:
                self._compare(table, head, known.get(table_uuid, 0))

    def _list_latest(self, table_uuids: Sequence[str]) -> dict[str, int]:
        """The newest known snapshots. A head that is read after this call and is older shows a loss."""
        return {uuid: self._tables[uuid].latest for uuid in table_uuids if uuid in self._tables}

    def _compare(self, table: _WatchedTable, head: TableHead, known: int) -> None:
        """Follows a head that was read from the store; `known` was the newest known snapshot before that."""
        uuid = table.find_uuid(head.latest_snapshot_id)
        if is_loss(head, known, uuid):
            log.error(
                "the database has lost snapshots of %s: %d was known, and its newest one is %d (%s) now; watchers "
                "that have seen lost ones end",
                *(head.name, known, head.latest_snapshot_id, head.latest_uuid or "none"),
            )
            table.forget_tail()
            table.latest, table.latest_uuid, table.complete = 0, "", 0
            table.losses += 1
            _wake(table)
        elif table.tail and not uuid:
            # Others have committed after the tail. Whether they began at its end is not known here.
            table.forget_tail()
        self._advance(table, head.latest_snapshot_id, head.latest_uuid, head.complete_until)

    def _advance(self, table: _WatchedTable, latest: int, latest_uuid: str, complete: int) -> None:
        if 0 < table.first_open_in_tail <= max(table.complete, complete):
            # The snapshots in memory are from before their changelogs were attached.
            table.forget_tail()
        if latest <= table.latest and complete <= table.complete:
            return
        if latest > table.latest:
            table.latest, table.latest_uuid = latest, latest_uuid
        table.complete = max(table.complete, complete)
        _wake(table)

    def _drop(self, table: _WatchedTable) -> None:
        table.dropped = True
        _wake(table)

    async def _open(self, tx: Transaction, watcher: _Watcher, positions: Sequence[WatchPosition]) -> None:
        heads = await tx.find_heads([position.table_uuid for position in positions])
        for position in positions:
            head = heads.get(position.table_uuid)
            if head is None:
                raise await explain_gone(tx, position.table_uuid)
            await check_history(tx, head, position)
        for table_uuid, head in heads.items():
            table = self._tables.setdefault(
                table_uuid,
                _WatchedTable(head.table_id, head.latest_snapshot_id, head.latest_uuid, head.complete_until),
            )
            # It may have been dropped and restored; watchers that were not notified yet need not be.
            table.dropped = False
            table.watchers.add(watcher)
        # Reading once more finds what was committed between reading a head and registering.
        known = self._list_latest(list(heads))
        for table_uuid, head in (await tx.find_heads(list(heads))).items():
            table = self._tables[table_uuid]
            self._compare(table, head, known[table_uuid])
            watcher.losses[table_uuid] = table.losses

    async def _notify(self, watcher: _Watcher, table_uuid: str) -> AsyncIterator[WatchEvent]:
        table = self._tables[table_uuid]
        await self._check_losses(watcher, table_uuid, table)
        while watcher.after[table_uuid] < watcher.until(table):
            after = watcher.after[table_uuid]
            lag = watcher.until(table) - after
            if table_uuid in watcher.caught_up and lag > self._limits.watch_lag_snapshots:
                raise ResourceExhausted(
                    f"The watcher read too slowly: it is {lag} snapshots behind table {table_uuid}, and "
                    f"{self._limits.watch_lag_snapshots} are allowed. Watch again from snapshot {after}.",
                    reason="WATCHER_TOO_SLOW",
                    metadata={"table_uuid": table_uuid, "after": str(after), "latest": str(table.latest)},
                )
            snapshots = await self._load(table_uuid, table, after, watcher)
            if not snapshots:
                continue
            check_parent(table_uuid, watcher.after_uuids.get(table_uuid, ""), snapshots[0])
            watcher.after[table_uuid] = snapshots[-1].snapshot_id
            watcher.after_uuids[table_uuid] = snapshots[-1].snapshot_uuid
            yield WatchEvent(table_uuid, snapshots)
        watcher.caught_up.add(table_uuid)
        if table.dropped:
            del watcher.after[table_uuid]
            yield WatchEvent(table_uuid, (), dropped=True)

    async def _check_losses(self, watcher: _Watcher, table_uuid: str, table: _WatchedTable) -> None:
        """Checks a watcher's position again after snapshots of the table were lost; raises HistoryDiverged."""
        losses = table.losses
        if watcher.losses.get(table_uuid) == losses or table.dropped:
            return
        position = WatchPosition(table_uuid, watcher.after[table_uuid], watcher.after_uuids.get(table_uuid, ""))

        async def check(tx: Transaction) -> None:
            head = (await tx.find_heads([table_uuid])).get(table_uuid)
            if head is not None:
                await check_history(tx, head, position)

        async with self._loads:
            await run_transaction(self._store, check)
        watcher.losses[table_uuid] = losses

    async def _load(self, table_uuid: str, table: _WatchedTable, after: int, watcher: _Watcher) -> tuple[Snapshot, ...]:
        """The next snapshots for a watcher; none: the known ones are lost."""
        tail, until = table.tail, watcher.until(table)
        # Commits of another metastore after the tail are known to exist, but only the store has them.
        if tail and tail[0].snapshot_id <= after + 1 <= tail[-1].snapshot_id:
            start = after + 1 - tail[0].snapshot_id
            end = min(len(tail), start + _MAX_EVENT, until + 1 - tail[0].snapshot_id)
            return tuple(tail[place] for place in range(start, end))
        load, known = watcher.load, table.latest
        position = WatchPosition(table_uuid, after, watcher.after_uuids.get(table_uuid, ""))

        async def read(tx: Transaction) -> tuple[Sequence[Snapshot], TableHead | None]:
            found, head = await tx.list_snapshots(table.table_id, after, until, load), None
            if not _begins_after(found, after):
                # They have expired, or the database has lost them since they were announced.
                head = (await tx.find_heads([table_uuid])).get(table_uuid)
                if head is not None and after + 1 >= head.earliest_change_id:
                    await check_history(tx, head, position)
                    if head.latest_snapshot_id <= after:
                        return (), head
                    found = await tx.list_snapshots(table.table_id, after, until, load)
            return found, head

        async with self._loads:
            found, head = await run_transaction(self._store, read)
        if head is not None:
            self._compare(table, head, known)
            if head.latest_snapshot_id <= after:
                return ()
        watcher.load = _next_load(load, found)
        if not _begins_after(found, after):
            earliest = found[0].snapshot_id if found else until + 1
            raise SnapshotExpired(
                f"Snapshot {after + 1} expired before the watcher received it; the earliest one kept is {earliest}.",
                metadata={"snapshot_id": str(after + 1), "earliest": str(earliest)},
            )
        # After a snapshot that only a tag retains there is a gap, which the next read finds.
        return tuple(each for place, each in enumerate(found) if each.snapshot_id == after + 1 + place)

    def _close_watcher(self, watcher: _Watcher, table_uuids: Sequence[str]) -> None:
        self._watchers.discard(watcher)
        self._metrics.set_level("watchers", len(self._watchers))
        for table_uuid in table_uuids:
            table = self._tables.get(table_uuid)
            if table is None:
                continue
            table.watchers.discard(watcher)
            if not table.watchers:
                del self._tables[table_uuid]


def _wake(table: _WatchedTable) -> None:
    for watcher in table.watchers:
        watcher.woken.set()


def _begins_after(found: Sequence[Snapshot], after: int) -> bool:
    return bool(found) and found[0].snapshot_id == after + 1


def _next_load(load: int, found: Sequence[Snapshot]) -> int:
    """How many snapshots to load next, from the size of the last ones."""
    size = sum(
        [_SNAPSHOT_BYTES + sum([len(key) + len(text) for key, text in each.properties.items()]) for each in found]
    )
    if size > _LOAD_BYTES:
        return max(1, load // 2)
    return min(2 * load, _MAX_EVENT) if 2 * size <= _LOAD_BYTES else load
