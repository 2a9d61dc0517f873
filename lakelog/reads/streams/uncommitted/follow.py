"""Follows a table whose rows are shown before their commit: the changes of snapshots, and its log in between."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from typing import Final

from lakelog.client.metastore.metastore import Watch, WatchEvent
from lakelog.format.tables.snapshot import Snapshot
from lakelog.reads.streams.batch import Progress
from lakelog.reads.streams.follow import TablesFollower
from lakelog.reads.streams.log.tail import Arrived
from lakelog.reads.streams.uncommitted.events import END, UncommittedEvents
from lakelog.reads.streams.uncommitted.table import UncommittedStreamTable

_POLL_S: Final = 1.0
"""Time between polls for the state of open attempts; rows of an aborted one are taken back with this delay."""

_WAIT_S: Final = 1.0
"""How long to wait for records that are in the log already, before their rows come a second time."""


class UncommittedFollower(TablesFollower):
    """Follows one table, an `UncommittedStreamTable`."""

    def _listen(self, watch: Watch) -> Generator[WatchEvent | Progress]:
        ((uuid, table),) = self._tables.items()
        assert isinstance(table, UncommittedStreamTable), "it is the only kind that is followed so"
        table.begin()
        with UncommittedEvents(watch, table.tail) as events:
            looked_at_s = time.monotonic()
            while (event := events.take(_POLL_S if table.has_open else None)) is not END:
                if isinstance(event, Arrived):
                    yield from self._emit(uuid, table, event)
                elif event is not None:
                    table.snapshots_received_s = events.received_s
                    for snapshot in event.snapshots:
                        yield from self._await_log(uuid, table, snapshot, events)
                    yield event
                if table.has_open and time.monotonic() - looked_at_s >= _POLL_S:
                    looked_at_s = time.monotonic()
                    yield from (Progress(batch, None) for batch in table.look(self._shown[uuid].snapshot_id))

    def _emit(self, uuid: str, table: UncommittedStreamTable, arrived: Arrived) -> Iterator[Progress]:
        start, base = self._starts[uuid], self._shown[uuid].snapshot_id
        if base + 1 < start.first_snapshot:
            return
        if start.first_time_ms is not None and table.clock.now_ms() < start.first_time_ms:
            return
        for batch in table.emit(arrived, base):
            yield Progress(batch, None)

    def _await_log(
        self, uuid: str, table: UncommittedStreamTable, snapshot: Snapshot, events: UncommittedEvents
    ) -> Iterator[Progress]:
        """Shows the log's records of a snapshot some rows of which were shown."""
        end_s = time.monotonic() + _WAIT_S
        ends = snapshot.sent_offsets or {}
        while table.awaits_log(snapshot) and any(events.positions.get(p, 0) < end for p, end in ends.items()):
            arrived = events.take_arrived(max(end_s - time.monotonic(), 0.0))
            if arrived is None:
                return
            yield from self._emit(uuid, table, arrived)
