"""Sends rows to the log at once, before their commit (`log.consistency` = `eventual`, semantics 4.2).

Objectives, which conflict: a row is in the log milliseconds after it was written; brokers that are slow or away make no
write fail or wait for long. So:

1. A thread for each table sends, beside the thread that writes files. Rows that it cannot send in time all count as not
   sent, and the publisher sends them after the commit.
2. Records carry the attempt, not a snapshot: readers ask the metastore what became of it. Records of an aborted attempt
   stay in the topic, and readers take them back.
3. A writer reports that it is alive as long as it can commit, so that readers take back rows of a dead writer.
4. A commit says that all was sent only if brokers have acknowledged each record, and for which generation of the log.
   So records in a topic that is gone are never taken for published.
"""

from __future__ import annotations

import logging
import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.client.metastore.metastore import Metastore
from lakelog.clock import Clock
from lakelog.errors import LakelogError
from lakelog.format.log.heartbeat import HEARTBEAT_S
from lakelog.format.log.state import LogInfo
from lakelog.format.tables.table import TableInfo
from lakelog.format.types.rowkind import RowKind
from lakelog.log.codecs import LogCodec
from lakelog.log.opening import LogOpener
from lakelog.log.protocol import UncommittedSender
from lakelog.log.records import EncodedRecords
from lakelog.log.settings import LogSettings, read_log_settings
from lakelog.log.table_codec import make_codec
from lakelog.options.values import TableOptions
from lakelog.storage.write.routing import Routing, route_rows, to_routing
from lakelog.writes.heartbeats import Heartbeat, Heartbeats
from lakelog.writes.ordered_work import OrderedWork

log = logging.getLogger(__name__)

_WAIT_S: Final = 2.0
"""How long to wait for brokers to acknowledge a commit's records; the files of a large commit take longer to write."""

_NO_ANSWER: Final = "brokers have not answered for all of them in time"

_PAUSE_S: Final = 10.0
"""Pause after a failure: each try costs a connection, and the publisher sends meanwhile."""

_POLL_S: Final = 30.0
"""Time between polls for a restart of the log."""

_MAX_PENDING_BYTES: Final = 64 << 20
"""Rows that wait to be sent; with more, memory would grow with what is written, not with what brokers accept."""

Kinds = npt.NDArray[np.int8]


@dataclass(frozen=True)
class SentUncommitted:
    """All rows of an attempt at a table are in its topic.

    Args:
        generation: The generation of the log to which they were sent.
        offsets: By partition, the offset after the last record.
    """

    generation: int
    offsets: Mapping[int, int]


@dataclass(frozen=True)
class UncommittedPlace:
    """The attempt of one sender's rows, and their place among all rows of this attempt.

    Args:
        attempt_id: The attempt.
        first_index: The index of the first row; other senders of the attempt begin far from it.
        part: The sender's number in the attempt.
    """

    attempt_id: str
    first_index: int = 0
    part: int = 0

    @property
    def spread(self) -> int:
        """Without buckets, rows of one sender stay together, and senders are spread over the partitions."""
        return int(self.attempt_id[:8], 16) + self.part


@dataclass(frozen=True)
class RowForm:
    """How rows of a table become records. Picklable; pure."""

    codec: LogCodec
    settings: LogSettings
    routing: Routing

    @staticmethod
    def of(info: TableInfo, settings: LogSettings) -> RowForm:
        """The form by a table's options."""
        return RowForm(make_codec(info, info.schema), settings, to_routing(info.schema, TableOptions(info.options)))

    def send(
        self,
        rows: pa.Table,
        kinds: Kinds | None,
        first_index: int,
        place: UncommittedPlace,
        ts_ms: int,
        sender: UncommittedSender,
    ) -> None:
        """Sends rows, those of each bucket in order; blocks while too many wait."""
        for routed in route_rows(rows, self.routing):
            part = rows if routed.indices is None else rows.take(pa.array(routed.indices))
            codes = np.zeros(part.num_rows, np.int8)
            if kinds is not None:
                codes = kinds if routed.indices is None else kinds[routed.indices]
            has_buckets = self.routing.bucket_count > 0
            partition = routed.bucket if has_buckets else place.spread % self.settings.partitions
            bucket = routed.bucket if has_buckets else None
            for records in self._encode(part, codes, first_index, partition, bucket, ts_ms):
                sender.send(records, place.attempt_id)
            first_index += part.num_rows

    def _encode(
        self, rows: pa.Table, kinds: Kinds, first_index: int, partition: int, bucket: int | None, ts_ms: int
    ) -> Iterator[EncodedRecords]:
        followed = None
        if self.codec.needs_followed and (kinds == RowKind.UPDATE_BEFORE).any():
            followed = self.codec.find_followed(rows.select(list(self.codec.schema.primary_key)))
        done = 0
        while done < rows.num_rows:
            chunk = self.codec.encode(
                rows.slice(done),
                kinds[done:],
                first_index + done,
                partition=partition,
                # The snapshot is not known yet.
                snapshot_id=0,
                ts_ms=ts_ms,
                bucket=bucket,
                is_last=True,
                followed=None if followed is None else followed[done:],
            )
            yield chunk.records
            done += chunk.consumed


class UncommittedSenders:
    """The senders of a process's writes; they live as long as the process may write. For many threads."""

    def __init__(self, metastore: Metastore, open_log: LogOpener, clock: Clock) -> None:
        self._metastore = metastore
        self._open_log = open_log
        self._clock = clock
        self._heartbeats = Heartbeats(metastore)
        self._pid = os.getpid()
        self._channels: dict[str, UncommittedChannel] = {}
        self._of_parent: dict[str, UncommittedChannel] = {}
        self._lock = threading.Lock()
        self._is_closed = False

    def begin(self, info: TableInfo, attempt_id: str, age_s: float = 0.0) -> UncommittedRows | None:
        """Begins to send an attempt's rows; None: they are never sent before their commit.

        Args:
            info: The table.
            attempt_id: The attempt.
            age_s: The time since it was opened.
        """
        settings = read_log_settings(info.options, has_primary_key=bool(info.schema.primary_key))
        if settings is None or not settings.is_eventual:
            return None
        table_uuid = info.table_uuid
        with self._mine():
            if self._is_closed:
                return None
            channel = self._channels.get(table_uuid)
            if channel is None:
                channel = UncommittedChannel(
                    str(info.name), lambda: self._metastore.get_log(table_uuid), self._open_log, self._clock
                )
                self._channels[table_uuid] = channel
        if not channel.is_open:
            return None
        if age_s > HEARTBEAT_S:
            # This comes before its first rows, else readers would take their writer for dead.
            channel.call(lambda: self._heartbeats.renew([attempt_id]))
        heartbeat = self._heartbeats.begin(attempt_id)
        return UncommittedRows(channel, RowForm.of(info, settings), UncommittedPlace(attempt_id), heartbeat)

    def close(self) -> None:
        """Ends all connections; does not wait. Nothing is sent before its commit afterwards. Idempotent."""
        with self._mine():
            self._is_closed = True
            channels, self._channels = self._channels, {}
        self._heartbeats.close()
        for each in channels.values():
            each.close()

    def _mine(self) -> threading.Lock:
        if self._pid != os.getpid():
            # In a forked child the lock may have been held at that moment, and the threads that send belong to the
            # parent.
            # SUBTLE: its connections are kept, because closing one waits for threads that do not exist here.
            self._of_parent |= self._channels
            self._pid, self._lock, self._channels = os.getpid(), threading.Lock(), {}
        return self._lock


class UncommittedRows:
    """The rows of one attempt at one table that are sent before the commit. For one thread.

    Args:
        channel: Sends them.
        form: How they become records.
        place: Their attempt, and their place in it.
        heartbeat: Reports that their writer is alive; None: another process reports it.
    """

    def __init__(
        self, channel: UncommittedChannel, form: RowForm, place: UncommittedPlace, heartbeat: Heartbeat | None = None
    ) -> None:
        self._channel = channel
        self._form = form
        self._place = place
        self._heartbeat = heartbeat
        self._count = 0
        self._is_whole = True
        self._failures: Final = channel.failures

    def send(self, rows: pa.Table, kinds: Kinds | None) -> None:
        """Queues rows for sending; does not wait, and never fails."""
        if not rows.num_rows or not self._is_whole:
            return
        first_index = self._place.first_index + self._count
        self._count += rows.num_rows
        form, place, clock = self._form, self._place, self._channel.clock
        self._is_whole = self._channel.submit(
            lambda sender: form.send(rows, kinds, first_index, place, clock.now_ms(), sender), rows.nbytes
        )

    def finish(self) -> SentUncommitted | None:
        """Waits briefly until all rows are in the topic; None: some may be missing, so all count as not sent."""
        return self._channel.flush(self._failures) if self._is_whole and self._count else None

    def close(self) -> None:
        """Ends the sending when the attempt is over or left alone; idempotent, and does not wait."""
        if self._heartbeat is not None:
            self._heartbeat.end()


class UncommittedChannel:
    """Sends to one table's topic, in its own thread.

    Args:
        table: For messages.
        find_log: Returns the table's log as it is now; called now and then.
        open_log: Opens the log.
        clock: For the time.
        wait_s: How long to wait for acknowledgements.
    """

    def __init__(
        self,
        table: str,
        find_log: Callable[[], LogInfo],
        open_log: LogOpener,
        clock: Clock,
        wait_s: float = _WAIT_S,
    ) -> None:
        self.clock: Final = clock
        # After a failure it is unknown which of the records sent before are in the topic. The thread counts failures.
        self.failures = 0
        self._table = table
        self._find_log = find_log
        self._open_log = open_log
        self._wait_s = wait_s
        self._thread = OrderedWork("lakelog-uncommitted")
        self._lock = threading.Lock()
        self._pending_bytes = 0
        self._closed_until_s = 0.0
        # The thread owns the following attributes.
        self._sender: UncommittedSender | None = None
        self._info: LogInfo | None = None
        self._looked_at_s = 0.0

    @property
    def is_open(self) -> bool:
        """Whether a try is worthwhile now."""
        with self._lock:
            return self.clock.monotonic_s() >= self._closed_until_s

    def submit(self, work: Callable[[UncommittedSender], None], size_bytes: int) -> bool:
        """Queues work; False: too much waits, and it is dropped."""
        with self._lock:
            if self._pending_bytes and self._pending_bytes + size_bytes > _MAX_PENDING_BYTES:
                return False
            self._pending_bytes += size_bytes
        self._thread.submit(lambda: self._send(work, size_bytes))
        return True

    def call(self, work: Callable[[], object]) -> None:
        """Queues work before all later work; does not wait, and its errors are lost."""
        self._thread.submit(work)

    def flush(self, failures: int) -> SentUncommitted | None:
        """Waits for acknowledgements of all that was sent since the given failure count; None: not all arrived."""
        done: Future[SentUncommitted | None] = self._thread.submit(lambda: self._flush(failures))
        try:
            return done.result(self._wait_s)
        except TimeoutError:
            # The thread may get its answers a moment later, with nothing to warn of. So the warning is given here.
            self._warn(_NO_ANSWER)
            self._pause()
            return None

    def close(self) -> None:
        """Ends the connection; does not wait. Callers that still send get the answer that not all was sent."""
        with self._lock:
            self._closed_until_s = math.inf
        self._thread.submit(self._close)

    def _send(self, work: Callable[[UncommittedSender], None], size_bytes: int) -> None:
        try:
            if self.is_open:
                work(self._find_sender())
            else:
                self.failures += 1
        except LakelogError as error:
            self._fail(error)
        except Exception:
            # A bug, and nothing sees what this thread raises; but records that it left out must never count as sent.
            log.exception("rows of table %s could not be sent before their commit", self._table)
            self.failures += 1
        finally:
            with self._lock:
                self._pending_bytes -= size_bytes

    def _flush(self, failures: int) -> SentUncommitted | None:
        sender, info = self._sender, self._info
        if failures != self.failures or sender is None or info is None:
            return None
        try:
            offsets = sender.flush(self._wait_s)
        except LakelogError as error:
            self._fail(error)
            return None
        if offsets is None:
            self._fail(None)
            return None
        return SentUncommitted(info.generation, offsets)

    def _find_sender(self) -> UncommittedSender:
        now_s = self.clock.monotonic_s()
        if self._sender is None or now_s - self._looked_at_s > _POLL_S:
            info = self._find_log()
            self._looked_at_s = now_s
            if self._sender is None or info != self._info:
                self._close()
                # Records that wait in it are lost.
                self.failures += self._info is not None
                self._sender = self._open_log(info.options).open_uncommitted_sender(info.topic)
                self._info = info
        return self._sender

    def _fail(self, error: LakelogError | None) -> None:
        if error is not None:
            self._warn(error.message)
        elif self.is_open:
            # Otherwise the writer was warned already.
            self._warn(_NO_ANSWER)
        self.failures += 1
        self._close()
        self._pause()

    def _warn(self, said: str) -> None:
        log.warning("rows of table %s are not sent before their commit for a while: %s", self._table, said)

    def _pause(self) -> None:
        with self._lock:
            self._closed_until_s = max(self._closed_until_s, self.clock.monotonic_s() + _PAUSE_S)

    def _close(self) -> None:
        sender, self._sender = self._sender, None
        if sender is not None:
            sender.close()
