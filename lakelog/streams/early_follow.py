"""Following a table whose rows are told before their commit: what its snapshots tell, and its log in between."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from typing import Final

from lakelog.client.metastore import Watch, WatchEvent
from lakelog.format.snapshot import Snapshot
from lakelog.streams.batch import Progress
from lakelog.streams.early_events import END, EarlyEvents
from lakelog.streams.early_table import EarlyStreamTable
from lakelog.streams.follow import TablesFollower
from lakelog.streams.log_tail import Arrived

_LOOK_S: Final = 1.0
"""Between questions what has become of open attempts: one that was given up is taken back so late."""

_WAIT_S: Final = 1.0
"""So long the log may take to bring what stands there already, before its rows come twice."""


class EarlyFollower(TablesFollower):
    """Follows one table, an `EarlyStreamTable`."""

    def _listen(self, watch: Watch) -> Generator[WatchEvent | Progress]:
        ((uuid, table),) = self._tables.items()
        assert isinstance(table, EarlyStreamTable), "it is the only kind that is followed so"
        table.begin()
        with EarlyEvents(watch, table.tail) as events:
            looked_at_s = time.monotonic()
            while (event := events.take(_LOOK_S if table.has_open else None)) is not END:
                if isinstance(event, Arrived):
                    yield from self._tell(uuid, table, event)
                elif event is not None:
                    for snapshot in event.snapshots:
                        yield from self._await_log(uuid, table, snapshot, events)
                    yield event
                if table.has_open and time.monotonic() - looked_at_s >= _LOOK_S:
                    looked_at_s = time.monotonic()
                    yield from (Progress(batch, None) for batch in table.look(self._shown[uuid].snapshot_id))

    def _tell(self, uuid: str, table: EarlyStreamTable, arrived: Arrived) -> Iterator[Progress]:
        start, base = self._starts[uuid], self._shown[uuid].snapshot_id
        if base + 1 < start.first_snapshot:
            return
        if start.first_time_ms is not None and table.clock.now_ms() < start.first_time_ms:
            return
        for batch in table.tell(arrived, base):
            yield Progress(batch, None)

    def _await_log(
        self, uuid: str, table: EarlyStreamTable, snapshot: Snapshot, events: EarlyEvents
    ) -> Iterator[Progress]:
        """Tells what stands in the log of a snapshot some rows of which were told."""
        end_s = time.monotonic() + _WAIT_S
        ends = snapshot.sent_offsets or {}
        while table.awaits_log(snapshot) and any(events.positions.get(p, 0) < end for p, end in ends.items()):
            arrived = events.take_arrived(max(end_s - time.monotonic(), 0.0))
            if arrived is None:
                return
            yield from self._tell(uuid, table, arrived)
