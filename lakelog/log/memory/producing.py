"""Producers of a log in memory."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from lakelog.errors import InternalError, InvalidArgument
from lakelog.format.types.rowkind import RowKind
from lakelog.log.memory.cluster import EndRequest, MemoryCluster
from lakelog.log.memory.faults import Fault, Step, to_outcome_unknown, to_unavailable
from lakelog.log.position import from_committed, to_metadata
from lakelog.log.protocol import LogProducer, UncommittedSender
from lakelog.log.records import EncodedRecords, FetchedRecords, LogPosition, LogSnapshot

_KINDS: Final = [kind.text.encode() for kind in RowKind]


class MemoryProducer(LogProducer):
    """See `lakelog.log.protocol.LogProducer`.

    As with the real one, a caller can use it without a re-initialisation although `can_go_on` returns False. The
    publisher decides that, and tests with controls show the consequences.
    """

    def __init__(self, cluster: MemoryCluster, topic: str, transactional_id: str, group: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._transactional_id = transactional_id
        self._group = group
        self._epoch: int | None = None
        self._duplicate_risk = ""
        self._in_transaction = False
        self._offsets: dict[int, dict[int, int]] = {}

    def start(self) -> LogPosition | None:
        self._epoch, self._in_transaction = None, False
        fault = self._cluster.faults.take(Step.START)
        if fault in (Fault.REFUSED, Fault.LOST_REQUEST):
            raise to_unavailable(Step.START)
        self._cluster.get_topic(self._topic)
        epoch = self._cluster.fence(self._transactional_id)
        if fault is not None or self._cluster.faults.take(Step.POSITION) is not None:
            raise to_unavailable(Step.POSITION)
        position = from_committed(self._group, *self._cluster.find_position(self._group, self._topic))
        self._epoch, self._duplicate_risk = epoch, ""
        return position

    @property
    def can_go_on(self) -> bool:
        return self._epoch is not None and not self._in_transaction and not self._duplicate_risk

    def begin(self) -> None:
        self._get_epoch()
        if self._in_transaction:
            raise InternalError("A transaction is open already.")
        self._in_transaction, self._offsets = True, {}

    def send(self, records: EncodedRecords, snapshot: LogSnapshot) -> None:
        """The real one reports some failures only with the commit; this one at once."""
        writer = self._get_writer()
        if not len(records):
            return
        fault = self._cluster.faults.take(Step.SEND)
        if fault is Fault.TOO_LARGE:
            self._give_up()
            raise _to_too_large(self._topic)
        if fault in (Fault.REFUSED, Fault.LOST_REQUEST):
            self._give_up()
            raise to_unavailable(Step.SEND)
        owner = (snapshot.snapshot_id, snapshot.snapshot_uuid.encode(), None)
        fetched = _to_fetched(records, owner, self._cluster.clock.now_ms())
        try:
            end = self._cluster.append(self._topic, records.partition, fetched, writer)
        except Exception:
            self._give_up()
            raise
        if fault is not None:
            # Idempotence: a repeated record is in the topic once, but the connection was lost.
            self._duplicate_risk = "a request was sent twice"
        self._offsets.setdefault(snapshot.snapshot_id, {})[records.partition] = end

    def commit(self, position: LogPosition) -> dict[int, dict[int, int]]:
        writer = self._get_writer()
        request = EndRequest(*writer, commits=True)
        fault = self._cluster.faults.take(Step.COMMIT)
        try:
            if fault is Fault.REFUSED:
                raise to_unavailable(Step.COMMIT)
            key = (self._group, self._topic)
            self._cluster.add_position(writer, key, position.snapshot_id, to_metadata(position))
            if fault is Fault.LOST_REQUEST:
                self._cluster.send_late(request)
                raise to_outcome_unknown()
            self._cluster.end_transaction(request)
            if fault is Fault.LOST_ANSWER:
                raise to_outcome_unknown()
        except Exception:
            self._give_up()
            raise
        if fault is Fault.DOUBLED:
            self._cluster.send_late(request)
            self._duplicate_risk = "a connection was lost"
        self._in_transaction = False
        return {snapshot: dict(sorted(ends.items())) for snapshot, ends in sorted(self._offsets.items())}

    def abort(self) -> None:
        if self._epoch is None or not self._in_transaction:
            return
        fault = self._cluster.faults.take(Step.ABORT)
        request = EndRequest(*self._get_writer(), commits=False)
        try:
            if fault in (Fault.REFUSED, Fault.LOST_REQUEST):
                raise to_unavailable(Step.ABORT)
            self._cluster.end_transaction(request)
            if fault is Fault.LOST_ANSWER:
                raise to_unavailable(Step.ABORT)
        except Exception:
            self._give_up()
            raise
        if fault is Fault.DOUBLED:
            self._cluster.send_late(request)
            self._duplicate_risk = "a connection was lost"
        self._in_transaction = False

    def close(self) -> None:
        """Leaves an open transaction as it is, until it is fenced or expires."""
        self._give_up()

    def _give_up(self) -> None:
        self._epoch, self._in_transaction = None, False

    def _get_epoch(self) -> int:
        if self._epoch is None:
            raise InternalError(f"The producer of the topic {self._topic} has to be started first, or again.")
        return self._epoch

    def _get_writer(self) -> tuple[str, int]:
        epoch = self._get_epoch()
        if not self._in_transaction:
            raise InternalError("No transaction is open.")
        return self._transactional_id, epoch


class MemoryUncommittedSender(UncommittedSender):
    """See `lakelog.log.protocol.UncommittedSender`."""

    def __init__(self, cluster: MemoryCluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._ends: dict[int, int] = {}
        self._is_whole = True

    def send(self, records: EncodedRecords, attempt_id: str) -> None:
        self._cluster.get_topic(self._topic)
        if not len(records):
            return
        fault = self._cluster.faults.take(Step.SEND)
        if fault is Fault.TOO_LARGE:
            self._is_whole = False
            raise _to_too_large(self._topic)
        if fault in (Fault.REFUSED, Fault.LOST_REQUEST):
            self._is_whole = False
            return
        fetched = _to_fetched(records, (None, None, attempt_id.encode()), self._cluster.clock.now_ms())
        self._ends[records.partition] = self._cluster.append(self._topic, records.partition, fetched, None)

    def flush(self, timeout_s: float) -> dict[int, int] | None:
        if self._cluster.faults.take(Step.FLUSH) is not None or not self._is_whole:
            return None
        return dict(sorted(self._ends.items()))

    def close(self) -> None:
        pass


def _to_too_large(topic: str) -> InvalidArgument:
    return InvalidArgument(f"A record is larger than the topic {topic} takes.", reason="RECORD_TOO_LARGE")


def _to_fetched(
    records: EncodedRecords, owner: tuple[int | None, bytes | None, bytes | None], now_ms: int
) -> FetchedRecords:
    size = len(records)
    snapshot_id, uuid, attempt = owner
    return FetchedRecords(
        np.full(size, records.partition, np.int32),
        np.zeros(size, np.int64),
        np.full(size, now_ms, np.int64),
        pa.nulls(size, pa.binary()) if records.keys is None else records.keys.cast(pa.binary()),
        records.values.cast(pa.binary()),
        pa.array(_KINDS, pa.binary()).take(pa.array(records.kinds)),
        pa.repeat(pa.scalar(snapshot_id, pa.int64()), size),
        pa.repeat(pa.scalar(uuid, pa.binary()), size),
        pa.repeat(pa.scalar(attempt, pa.binary()), size),
        pa.array(records.indexes, pa.int64()),
        pa.nulls(size, pa.binary()) if records.sequences is None else records.sequences.cast(pa.binary()),
    )
