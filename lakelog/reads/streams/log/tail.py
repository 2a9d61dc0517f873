"""The end of a table's log, for readers of uncommitted rows (`log.consistency` = `eventual`).

The records are only a hint: every row of them that becomes part of the table also comes with its snapshot. So a log
that is too short, gone, restarted or without brokers is skipped until it can be read again, and nothing is lost.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import InvalidArgument, LakelogError, PermissionDenied, SnapshotExpired
from lakelog.format.log.state import LogInfo
from lakelog.log.columns import take_fetched
from lakelog.log.protocol import Log, LogReader
from lakelog.log.records import FetchedRecords

_log = logging.getLogger(__name__)

_FETCHED: Final = 20_000
"""Records per fetch."""

_FETCH_S: Final = 0.2
"""How long one fetch waits; it also takes this long to notice that the reader is closed."""

_REST_S: Final = 10.0
"""How long a log that could not be read is left alone."""

_POLL_S: Final = 30.0
"""Time between checks whether the log was restarted, or has more partitions."""


@dataclass(frozen=True)
class Arrived:
    """Records that were sent before their commit.

    Args:
        records: In the order of the log, partition by partition.
        topic: Their topic.
        positions: By partition: how far the log was read when they arrived.
        begun_at: By partition: the log's end when reading began, or began again after a break. Records before it were
            there earlier, perhaps long before they arrived.
        received_s: When they were received, on the monotonic clock.
    """

    records: FetchedRecords
    topic: str
    positions: Mapping[int, int]
    begun_at: Mapping[int, int] = field(default_factory=dict)
    received_s: float = math.inf


class LogTail:
    """Reads new records at the end of one table's log. One thread runs it.

    Args:
        metastore: Knows the log and how far it is published.
        table_uuid: The table.
        name: The table's name, for people.
        open_log: Opens the brokers of a log, by its options.
        requires_log: Whether the user requested the log: it is an error if it may not be read at all.
    """

    def __init__(
        self,
        metastore: Metastore,
        table_uuid: str,
        name: str,
        open_log: Callable[[Mapping[str, str]], Log],
        *,
        requires_log: bool,
    ) -> None:
        self._metastore = metastore
        self._table_uuid = table_uuid
        self._name = name
        self._open_log = open_log
        self._requires_log = requires_log
        self._info: LogInfo | None = None
        self._positions: Mapping[int, int] = {}
        self._reported = ""

    def run(self, put: Callable[[Arrived], object], closed: threading.Event) -> None:
        """Passes on records as they arrive, until closed; blocks.

        Raises:
            PermissionDenied: The user requested the log, and this process may not read it.
            InvalidArgument: The user requested the log, and this process cannot read it.
        """
        while not closed.is_set():
            try:
                self._read(put, closed)
                continue
            except LakelogError as error:
                if self._requires_log and isinstance(error, PermissionDenied | InvalidArgument):
                    raise
                if isinstance(error, SnapshotExpired):
                    # Records in between are committed or aborted by now.
                    self._positions = {}
                if str(error) != self._reported:
                    # Warn once, not every ten seconds.
                    self._reported = str(error)
                    _log.warning("%s: rows come with their commits for a while: %s", self._name, error)
            closed.wait(_REST_S)

    def _read(self, put: Callable[[Arrived], object], closed: threading.Event) -> None:
        """Reads until closed, or until the log must be looked up again."""
        info = self._metastore.get_log(self._table_uuid)
        if self._info is None or (info.topic, info.topic_id) != (self._info.topic, self._info.topic_id):
            self._info, self._positions = info, {}
        reader = self._open_log(info.options).open_reader(info.topic)
        try:
            starts, begun_at = self._find_start(reader)
            reader.assign(starts)
            until_s = time.monotonic() + _POLL_S
            while not closed.is_set() and time.monotonic() < until_s:
                records = reader.fetch(_FETCHED, _FETCH_S)
                received_s = time.monotonic()
                self._positions = reader.positions()
                self._reported = ""
                uncommitted = np.asarray(records.attempts.is_valid()) & np.asarray(records.snapshot_ids.is_null())
                if uncommitted.any():
                    own = take_fetched(records, uncommitted)
                    put(Arrived(own, info.topic, self._positions, begun_at, received_s))
        finally:
            reader.close()

    def _find_start(self, reader: LogReader) -> tuple[dict[int, int], dict[int, int]]:
        """Returns where to begin, and the ends now, by partition.

        Reading begins at its last place; else after the newest snapshot known to be in the log, because older rows
        come from files.
        """
        earliest, ends = reader.list_offsets(earliest=True), reader.list_offsets()
        starts: Mapping[int, int] = self._positions
        if not starts:
            known = self._metastore.find_log_offsets(self._table_uuid)
            starts = {} if known is None else dict(enumerate(known.offsets))
        # The known place may belong to an older topic of this name: then its end is good enough.
        bounds = dict(enumerate(zip(earliest, ends, strict=False)))
        places = {p: min(max(starts.get(p, 0), first), max(first, end)) for p, (first, end) in bounds.items()}
        return places, {p: end for p, (_, end) in bounds.items()}
