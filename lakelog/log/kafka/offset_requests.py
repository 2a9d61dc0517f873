"""What a reader requests from a topic without following it: first and last offsets, offsets of times, and its tail."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import Final, cast

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, KafkaException, Message, TopicPartition

from lakelog.errors import Unavailable
from lakelog.log.kafka.connecting import ANSWER_TIMEOUT_S, request, request_partitions
from lakelog.log.kafka.errors import get_cause, make_client, to_lakelog_error
from lakelog.log.kafka.sending.duplicate_check import DuplicateSendCheck
from lakelog.log.kafka.settings import KafkaSettings, to_reader_config
from lakelog.log.records import INDEX_HEADER, SNAPSHOT_HEADER, UUID_HEADER, LogSnapshot, TailRecord

READER_GROUP: Final = "lakelog-reader"
"""Consumers must have a group. No consumer joins this one, and nothing is ever committed in it."""

_FIRST_WINDOW: Final = 2
"""Offsets: the last record of a transaction, and the end of the transaction."""

_WINDOW_GROWTH: Final = 16
_ATTEMPTS: Final = 5
_BATCH: Final = 1000
_DIGITS: Final = re.compile(rb"[0-9]{1,18}")
_UUID: Final = re.compile(rb"[0-9a-f]{32}")


class OffsetQuestions:
    """Sends requests with a consumer of its own, so that a reader of the topic loses nothing meanwhile."""

    def __init__(self, settings: KafkaSettings, topic: str) -> None:
        self._servers = settings.servers
        self._topic = topic
        self._duplicate_check = DuplicateSendCheck()
        config = {**to_reader_config(settings, READER_GROUP), "error_cb": self._duplicate_check.on_error}
        self._client = make_client(Consumer, config)

    def request_offsets(self, at: int) -> tuple[int, ...]:
        """For each partition the offset at a time (ms), or at `OFFSET_BEGINNING` or `OFFSET_END`.

        -1: nothing was appended then or later.
        """
        count = request_partitions(self._client, self._topic, self._duplicate_check, self._servers, self._serve)
        # For the broker both names are times, too; "committed" is what readers of committed records see.
        wanted = [TopicPartition(self._topic, partition, at) for partition in range(count)]
        doing = f"Offsets of the topic {self._topic} could not be found"

        def request_all() -> list[TopicPartition]:
            answers = self._client.offsets_for_times(wanted, ANSWER_TIMEOUT_S)
            for answer in answers:
                if answer.error is not None:
                    raise KafkaException(answer.error)
            return answers

        try:
            found = request(request_all)
        except KafkaException as e:
            raise to_lakelog_error(e, doing, self._servers) from e
        return tuple(partition.offset for partition in sorted(found, key=lambda p: p.partition))

    def request_range(self, partition: int) -> tuple[int, int]:
        """The first retained offset, and the end of the committed records."""
        return self.request_offsets(OFFSET_BEGINNING)[partition], self.request_offsets(OFFSET_END)[partition]

    def read_tail(self) -> list[TailRecord]:
        """The last committed record of each partition that has one.

        The last offsets may belong to aborted records and ends of transactions, or be compacted away. So it reads
        windows that grow towards the beginning, until one has a record.
        """
        for _ in range(_ATTEMPTS):
            try:
                return self._read_tail_once()
            except KafkaException as e:
                # The broker deleted the beginning during the search.
                if get_cause(e).code() != KafkaError._AUTO_OFFSET_RESET:
                    raise to_lakelog_error(e, self._describe_tail(), self._servers) from e
            finally:
                self._client.unassign()
        raise Unavailable(f"{self._describe_tail()}: its beginning is deleted faster than it can be read.")

    def _read_tail_once(self) -> list[TailRecord]:
        firsts, ends = self.request_offsets(OFFSET_BEGINNING), self.request_offsets(OFFSET_END)
        missing = [p for p, (first, end) in enumerate(zip(firsts, ends, strict=True)) if first < end]
        window, found = _FIRST_WINDOW, dict[int, Message]()
        while missing:
            starts = {p: max(firsts[p], ends[p] - window) for p in missing}
            found |= self._read_last(_WindowRead(starts, {p: ends[p] for p in missing}))
            missing = [p for p in missing if p not in found and starts[p] > firsts[p]]
            window *= _WINDOW_GROWTH
        return [_to_tail(message) for _, message in sorted(found.items())]

    def _read_last(self, reading: _WindowRead) -> dict[int, Message]:
        self._client.assign([TopicPartition(self._topic, p, start) for p, start in reading.starts.items()])
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        while not reading.is_done:
            messages = self._client.consume(_BATCH, 0.02)
            for message in messages:
                reading.take(message)
            if messages:
                deadline = time.monotonic() + ANSWER_TIMEOUT_S
            elif time.monotonic() > deadline:
                raise Unavailable(f"{self._describe_tail()}: no broker of {self._servers} hands it out.")
        return reading.last

    def _serve(self) -> None:
        # Nothing is assigned between requests, so no record can be lost here.
        self._client.poll(0)

    def _describe_tail(self) -> str:
        return f"The end of the topic {self._topic} could not be read"

    def close(self) -> None:
        """Closes its connections."""
        self._client.close()


@dataclass
class _WindowRead:
    """Reads windows of partitions, each up to the end of the committed records."""

    starts: dict[int, int]
    ends: dict[int, int]
    last: dict[int, Message] = field(default_factory=dict)
    _done: set[int] = field(default_factory=set)

    @property
    def is_done(self) -> bool:
        return len(self._done) == len(self.starts)

    def take(self, message: Message) -> None:
        error, partition, offset = message.error(), message.partition(), message.offset()
        if partition is None or offset is None:
            return
        if error is None:
            self.last[partition] = message
            # After it there may still be ends of transactions; no one waits for those.
            if offset >= self.ends[partition] - 1:
                self._done.add(partition)
        elif error.code() == KafkaError._PARTITION_EOF:
            self._done.add(partition)
        else:
            raise KafkaException(error)


def to_headers(message: Message) -> dict[str, bytes]:
    """A record's headers by name. Only other programs write several of one name; then the last counts."""
    # Values that were read are bytes; text occurs only in values to write.
    return dict(cast("list[tuple[str, bytes]]", message.headers() or []))


def _to_tail(message: Message) -> TailRecord:
    headers = to_headers(message)
    snapshot, uuid = headers.get(SNAPSHOT_HEADER) or b"", headers.get(UUID_HEADER) or b""
    index = headers.get(INDEX_HEADER) or b""
    partition, offset = message.partition() or 0, message.offset() or 0
    if not (_DIGITS.fullmatch(snapshot) and _UUID.fullmatch(uuid) and _DIGITS.fullmatch(index)):
        return TailRecord(partition, offset, None)
    return TailRecord(partition, offset, LogSnapshot(int(snapshot), uuid.decode()), int(index) + 1)
