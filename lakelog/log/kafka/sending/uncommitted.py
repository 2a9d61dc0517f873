"""Sends records before their commit (semantics 4.2, `eventual`): idempotent, without transactions."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from lakelog.errors import LakelogError, Unavailable
from lakelog.log.kafka.connecting import request_partitions
from lakelog.log.kafka.errors import get_cause, is_denied, make_client, to_lakelog_error
from lakelog.log.kafka.offsets import DeliveredOffsets
from lakelog.log.kafka.polling import Poller
from lakelog.log.kafka.sending.duplicate_check import DuplicateSendCheck
from lakelog.log.kafka.sending.producing import flush_records, produce_records
from lakelog.log.kafka.settings import KafkaSettings, to_uncommitted_config
from lakelog.log.protocol import UncommittedSender
from lakelog.log.records import ATTEMPT_HEADER, EncodedRecords

_ALL = 0


class KafkaUncommittedSender(UncommittedSender):
    """See `lakelog.log.protocol.UncommittedSender`."""

    def __init__(self, settings: KafkaSettings, topic: str) -> None:
        self._settings = settings
        self._topic = topic
        self._duplicate_check = DuplicateSendCheck()
        self._offsets = DeliveredOffsets()
        self._failure: KafkaError | None = None
        self._client: Producer | None = None
        self._poller: Poller | None = None

    def send(self, records: EncodedRecords, attempt_id: str) -> None:
        """Sends records; the first call connects."""
        if not len(records):
            return
        client = self._connect()
        owner = ((ATTEMPT_HEADER, attempt_id.encode()),)
        note_last = self._offsets.expect(_ALL, records.partition)

        def on_last(error: KafkaError | None, message: Message) -> None:
            self._note(error, message)
            note_last(error, message)

        try:
            produce_records(client, self._topic, records, owner, self._note, on_last)
        except KafkaException as e:
            self._failure = get_cause(e)
            raise self._to_error(self._failure) from e

    def _connect(self) -> Producer:
        if self._client is None:
            client = make_client(
                Producer, {**to_uncommitted_config(self._settings), "error_cb": self._duplicate_check.on_error}
            )
            poller = Poller(client, self._duplicate_check.on_error)
            try:
                request_partitions(client, self._topic, self._duplicate_check, self._settings.servers)
            except LakelogError:
                _end(client, poller)
                raise
            self._client, self._poller = client, poller
        return self._client

    def _note(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failure = error

    def flush(self, timeout_s: float) -> dict[int, int] | None:
        client = self._client
        if client is None:
            return {}
        try:
            left = flush_records(client, timeout_s)
        except KafkaException as e:
            self._failure = get_cause(e)
            raise self._to_error(self._failure) from e
        if self._failure is not None:
            raise self._to_error(self._failure)
        if left:
            return None
        return self._offsets.wait().get(_ALL, {})

    def close(self) -> None:
        """Closes the sender; records that still wait are not sent."""
        client, self._client = self._client, None
        poller, self._poller = self._poller, None
        if client is None or poller is None:
            return
        client.purge(blocking=False)
        _end(client, poller)

    def _to_error(self, failure: KafkaError) -> LakelogError:
        doing = f"Records could not be sent to the topic {self._topic}"
        error = to_lakelog_error(failure, doing, self._settings.servers)
        last = self._duplicate_check.last_error
        if isinstance(error, Unavailable) and last is not None and is_denied(last):
            return to_lakelog_error(last, doing, self._settings.servers)
        return error


def _end(client: Producer, poller: Poller) -> None:
    # A thread that still waits in the client keeps it; the client ends with its last reference.
    if poller.stop():
        client.close()
