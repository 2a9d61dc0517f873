"""Publishes in transactions (reliability R1 to R6).

1. Nothing counts as done until the broker has answered.
2. Any doubt ends the client. Only `start` goes on: it fences the old client, and reads the position after that.
3. The client library repeats sends inside a transaction by itself; this is trusted only within one unbroken connection
   (`lakelog.log.kafka.sending.duplicate_check`).
"""

from __future__ import annotations

import time
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from lakelog.errors import InternalError, LakelogError, OutcomeUnknown, Unavailable
from lakelog.log.kafka.connecting import ANSWER_TIMEOUT_S, request, request_partitions
from lakelog.log.kafka.errors import FENCED_CODES, call_client, get_cause, is_denied, make_client, to_lakelog_error
from lakelog.log.kafka.offsets import DeliveredOffsets
from lakelog.log.kafka.polling import Poller
from lakelog.log.kafka.sending.duplicate_check import DuplicateSendCheck
from lakelog.log.kafka.sending.producing import flush_records, produce_records
from lakelog.log.kafka.sending.retries import retry_for, retry_until_acknowledged
from lakelog.log.kafka.settings import (
    STATISTICS_INTERVAL_MS,
    KafkaSettings,
    to_reader_config,
    to_transactional_config,
)
from lakelog.log.position import from_committed, to_metadata
from lakelog.log.protocol import LogProducer
from lakelog.log.records import (
    REPLACES_HEADER,
    SNAPSHOT_HEADER,
    UUID_HEADER,
    EncodedRecords,
    LogPosition,
    LogSnapshot,
)

_ABORT_TIMEOUT_S: Final = 10.0
_POSITION_TIMEOUT_S: Final = 10.0
"""The limit after the last answered record. A re-initialisation then finds the coordinator by itself; no end of the
transaction was requested by then."""

_CONNECTION_S: Final = 0.5
_REPORTS_S: Final = 2.5 * STATISTICS_INTERVAL_MS / 1000
"""The time within which a report arrives that was begun after an answer."""

_MARKERS_NS: Final = 50_000_000
"""The time after a transaction's end within which its markers are surely written, if the broker answers at all."""

_INIT_TIMEOUT_S: Final = 60.0
"""An open transaction of an earlier producer is ended first; that takes as long as the leaders of its partitions."""


class KafkaProducer(LogProducer):
    """See `lakelog.log.protocol.LogProducer`."""

    def __init__(self, settings: KafkaSettings, topic: str, transactional_id: str, group: str) -> None:
        self._settings = settings
        self._topic = topic
        self._transactional_id = transactional_id
        self._group = group
        self._client: Producer | None = None
        self._poller: Poller | None = None
        self._positions: Consumer | None = None
        self._duplicate_check = DuplicateSendCheck()
        self._offsets = DeliveredOffsets()
        self._in_transaction = False
        self._ended_ns = 0

    def start(self) -> LogPosition | None:
        self._end_client()
        self._duplicate_check = duplicate_check = DuplicateSendCheck()
        client = make_client(
            Producer,
            {
                **to_transactional_config(self._settings, self._transactional_id),
                "stats_cb": duplicate_check.on_statistics,
                "error_cb": duplicate_check.on_error,
            },
        )
        self._client = client
        self._poller = Poller(client, self._duplicate_check.on_error)
        try:
            self._connect(client, duplicate_check)
            self._init_transactions(client)
            # SUBTLE: not earlier. The old producer could have moved the position until it was fenced.
            return self._read_position()
        except BaseException:
            self._end_client()
            raise

    def _connect(self, client: Producer, duplicate_check: DuplicateSendCheck) -> None:
        # The answer does not say yet whether a broker is connected. If none is, the first request for the coordinator
        # fails, and the next one waits for a timer of 500 ms.
        deadline = time.monotonic() + _CONNECTION_S
        while True:
            request_partitions(client, self._topic, duplicate_check, self._settings.servers)
            # SUBTLE: the answer may have come from the bootstrap address, which the client drops once it knows the
            # brokers. It connects to none of them before it has a request (1 of 20 starts did so, and took 1 s).
            if duplicate_check.wait_for_connection(_REPORTS_S) or time.monotonic() > deadline:
                return

    def _init_transactions(self, client: Producer) -> None:
        deadline = time.monotonic() + _INIT_TIMEOUT_S
        while True:
            try:
                call_client(lambda: client.init_transactions(ANSWER_TIMEOUT_S))
                return
            except KafkaException as e:
                if get_cause(e).retriable() and time.monotonic() < deadline:
                    continue
                raise self._to_error(e, "could not begin to publish") from e

    def _read_position(self) -> LogPosition | None:
        if self._positions is None:
            self._positions = make_client(Consumer, to_reader_config(self._settings, self._group))
        positions = self._positions
        try:
            # Readers of committed records also request offsets that no open transaction holds ("require stable").
            offset, metadata = request(lambda: _request_position(positions, self._topic))
        except KafkaException as e:
            doing = f"could not read its position, which the consumer group {self._group} keeps"
            refusal = _find_refusal(positions)
            if refusal is not None:
                raise to_lakelog_error(refusal, self._describe(doing), self._settings.servers) from e
            raise self._to_error(e, doing) from e
        return from_committed(self._group, offset, metadata)

    @property
    def can_go_on(self) -> bool:
        """Blocks for up to 20 ms after a transaction, until a report excludes a repeated send."""
        return not self.find_duplicate_risk()

    def find_duplicate_risk(self) -> str:
        """Why the next transaction needs a re-initialisation; empty: it does not."""
        if self._client is None:
            return "it has not been started"
        if self._in_transaction:
            return "a transaction is open"
        return self._duplicate_check.find_duplicate_risk_since(self._ended_ns) if self._ended_ns else ""

    def begin(self) -> None:
        client = self._get_client()
        try:
            client.begin_transaction()
        except KafkaException as e:
            raise self._give_up(e, "could not begin a transaction") from e
        self._offsets = DeliveredOffsets()
        self._in_transaction = True

    def send(self, records: EncodedRecords, snapshot: LogSnapshot) -> None:
        client = self._get_client()
        if not len(records):
            return
        owner: tuple[tuple[str, bytes], ...] = (
            (SNAPSHOT_HEADER, b"%d" % snapshot.snapshot_id),
            (UUID_HEADER, snapshot.snapshot_uuid.encode()),
        )
        if snapshot.replaces:
            owner = (*owner, (REPLACES_HEADER, snapshot.replaces.encode()))
        on_last = self._offsets.expect(snapshot.snapshot_id, records.partition)
        try:
            produce_records(client, self._topic, records, owner, None, on_last)
        except KafkaException as e:
            raise self._give_up(e, "could not send records") from e

    def commit(self, position: LogPosition) -> dict[int, dict[int, int]]:
        client = self._get_client()
        try:
            if time.monotonic_ns() - self._ended_ns > _MARKERS_NS:
                # Useful while records are on their way.
                self._send_position(client, position)
                flush_records(client)
            else:
                # The records first. Adding partitions waits until the last transaction's markers are written, and does
                # not count as a repeat. Adding the position does, and would be a reason for a re-initialisation.
                flush_records(client)
                self._send_position(client, position)
        except KafkaException as e:
            # The end of the transaction was not requested yet, and this client never will.
            raise self._give_up(e, "could not send its records and position") from e
        try:
            retry_until_acknowledged(client.commit_transaction)
        except KafkaException as e:
            raise self._resolve(client, e) from e
        self._note_end()
        return self._offsets.wait()

    def _send_position(self, client: Producer, position: LogPosition) -> None:
        if self._positions is None:
            raise InternalError("A producer that has started has a reader of positions.")
        mark = TopicPartition(self._topic, 0, position.snapshot_id, metadata=to_metadata(position))
        members = self._positions.consumer_group_metadata()
        # SUBTLE: the group's coordinator may be a broker that records go to, over the same connection. If brokers are
        # slow or hold producers to a quota, the position waits after all of these.
        retry_for(lambda: client.send_offsets_to_transaction([mark], members), _POSITION_TIMEOUT_S, lambda: len(client))

    def _resolve(self, client: Producer, error: KafkaException) -> LakelogError:
        """The meaning of a failed commit; ends the client."""
        cause = get_cause(error)
        doing = "could not commit"
        if cause.code() in FENCED_CODES:
            return self._give_up(error, doing)
        if cause.txn_requires_abort():
            try:
                call_client(lambda: client.abort_transaction(_ABORT_TIMEOUT_S))
            except KafkaException:
                pass
            else:
                # The broker has aborted it, which it would not have done after a commit.
                return self._give_up(error, doing)
        self._end_client()
        return OutcomeUnknown(
            f"{self._describe(doing)}: {cause.str()} ({cause.name()}). It may be committed all the same: start afresh"
            f" and read the position.",
            metadata={"topic": self._topic, "kafka_error": cause.name()},
        )

    def abort(self) -> None:
        """Blocks for up to 10 s; then the next re-initialisation aborts it."""
        client = self._client
        if client is None or not self._in_transaction:
            return
        try:
            call_client(lambda: client.abort_transaction(_ABORT_TIMEOUT_S))
        except KafkaException as e:
            raise self._give_up(e, "could not abort") from e
        self._note_end()

    def close(self) -> None:
        self._end_client()
        if self._positions is not None:
            self._positions.close()
            self._positions = None

    def _note_end(self) -> None:
        self._in_transaction = False
        self._ended_ns = time.monotonic_ns()

    def _get_client(self) -> Producer:
        if self._client is None:
            raise InternalError(f"The producer of the topic {self._topic} has to be started first, or again.")
        return self._client

    def _give_up(self, error: KafkaException, doing: str) -> LakelogError:
        """The caller's error, when the open transaction will certainly never be committed."""
        if self._client is not None and self._in_transaction and get_cause(error).code() == KafkaError._STATE:
            error = _find_failure(self._client) or error
        translated = self._to_error(error, doing)
        self._end_client()
        return translated

    def _end_client(self) -> None:
        self._in_transaction = False
        self._ended_ns = 0
        client, self._client = self._client, None
        poller, self._poller = self._poller, None
        if client is None:
            return
        # SUBTLE: never its `close`, which would request the end of the transaction and wait for unsent records. Those
        # are never sent; the client itself ends with the last reference to it.
        client.purge(blocking=False)
        if poller is not None:
            poller.stop()

    def _to_error(self, error: KafkaException, doing: str) -> LakelogError:
        translated = to_lakelog_error(error, self._describe(doing), self._settings.servers)
        last = self._duplicate_check.last_error
        # A refused login shows as a time-out here, and by its name there.
        if isinstance(translated, Unavailable) and last is not None:
            return to_lakelog_error(last, self._describe(doing), self._settings.servers)
        return translated

    def _describe(self, doing: str) -> str:
        return f"The producer {self._transactional_id} of the topic {self._topic} {doing}"


def _find_failure(client: Producer) -> KafkaException | None:
    """Why the open transaction has failed; None: the client does not know."""
    try:
        # SUBTLE: while a transaction is open this only reports why there cannot be another. The call that found the
        # failure knows only that the transaction has failed.
        client.begin_transaction()
    except KafkaException as e:
        return e if get_cause(e).code() != KafkaError._STATE else None
    return None


def _find_refusal(positions: Consumer) -> KafkaError | None:
    """Why brokers refuse the request for a group's coordinator: a consumer gets it as a record, and nothing else."""
    while (event := positions.poll(0)) is not None:
        error = event.error()
        if error is not None and is_denied(error):
            return error
    return None


def _request_position(positions: Consumer, topic: str) -> tuple[int, str]:
    (found,) = positions.committed([TopicPartition(topic, 0)], ANSWER_TIMEOUT_S)
    if found.error is not None:
        raise KafkaException(found.error)
    return found.offset, found.metadata or ""
