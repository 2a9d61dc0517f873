"""Follows a topic like any consumer that reads `read_committed`, and reports its offsets."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import cast

import numpy as np
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    Message,
    TopicPartition,
)

from lakelog.errors import InternalError, LakelogError, NotFound, SnapshotExpired
from lakelog.log.columns import NO_RECORDS, RawRecords, to_fetched
from lakelog.log.kafka.errors import is_denied, make_client, to_lakelog_error
from lakelog.log.kafka.offset_requests import READER_GROUP, OffsetQuestions, to_headers
from lakelog.log.kafka.settings import KafkaSettings, to_reader_config
from lakelog.log.protocol import LogReader
from lakelog.log.records import FetchedRecords, TailRecord


class KafkaReader(LogReader):
    """See `lakelog.log.protocol.LogReader`."""

    def __init__(self, settings: KafkaSettings, topic: str) -> None:
        self._settings = settings
        self._topic = topic
        self._questions: OffsetQuestions | None = None
        self._client: Consumer | None = None
        self._positions: dict[int, int] = {}
        self._away: KafkaError | None = None
        self._failure: LakelogError | None = None

    def list_offsets(self, *, timestamp_ms: int | None = None, earliest: bool = False) -> tuple[int, ...]:
        questions = self._request()
        if earliest:
            return questions.request_offsets(OFFSET_BEGINNING)
        if timestamp_ms is None:
            return questions.request_offsets(OFFSET_END)
        # The ends first: records that are appended in between must not be skipped.
        ends, found = questions.request_offsets(OFFSET_END), questions.request_offsets(max(0, timestamp_ms))
        return tuple(end if offset < 0 else offset for offset, end in zip(found, ends, strict=False))

    def read_tail(self) -> list[TailRecord]:
        return self._request().read_tail()

    def _request(self) -> OffsetQuestions:
        if self._questions is None:
            self._questions = OffsetQuestions(self._settings, self._topic)
        return self._questions

    def assign(self, offsets: Mapping[int, int]) -> None:
        """Raises NotFound if the topic has no such partition: the offsets belong to an earlier topic of its name."""
        count = len(self._request().request_offsets(OFFSET_END))
        foreign = sorted(partition for partition in offsets if not 0 <= partition < count)
        if foreign:
            raise NotFound(
                f"The topic {self._topic} has the partitions 0 to {count - 1}, and none of number {foreign[0]}.",
                metadata={"topic": self._topic, "partition": str(foreign[0])},
            )
        if self._client is None:
            config = {**to_reader_config(self._settings, READER_GROUP), "error_cb": self._on_error}
            self._client = make_client(Consumer, config)
        self._failure = self._away = None
        self._positions = dict(offsets)
        self._client.assign([TopicPartition(self._topic, p, offset) for p, offset in offsets.items()])

    def _on_error(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN or (is_denied(error) and not _is_of_group(error)):
            self._away = error

    def fetch(self, max_records: int, timeout_s: float) -> FetchedRecords:
        """The failure of a partition is raised after the records that came before it."""
        if self._client is None:
            raise InternalError(f"The reader of the topic {self._topic} has no partitions yet.")
        deadline = time.monotonic() + timeout_s
        while True:
            if self._failure is not None:
                raise self._failure
            # SUBTLE: a call for more than one record waits for all of them until the time is over.
            events = self._client.consume(1, max(0.0, deadline - time.monotonic()))
            if events and max_records > 1:
                events += self._client.consume(max_records - 1, 0)
            messages = [event for event in events if event.error() is None]
            if len(messages) < len(events):
                self._take_errors(events)
            if messages:
                self._away = None
                return self._take(messages)
            if not events and time.monotonic() >= deadline:
                if self._away is not None and self._failure is None:
                    error, self._away = self._away, None
                    raise to_lakelog_error(error, self._describe(), self._settings.servers)
                return NO_RECORDS

    def _take(self, messages: list[Message]) -> FetchedRecords:
        records = to_fetched(
            RawRecords(
                cast("list[int]", [m.partition() for m in messages]),
                cast("list[int]", [m.offset() for m in messages]),
                [m.timestamp()[1] for m in messages],
                [m.key() for m in messages],
                [m.value() for m in messages],
                [to_headers(m) for m in messages],
            )
        )
        for partition in np.unique(records.partitions).tolist():
            next_offset = int(records.offsets[records.partitions == partition].max()) + 1
            # The same batch may have passed its end, after ends of transactions.
            self._positions[partition] = max(self._positions.get(partition, 0), next_offset)
        return records

    def _take_errors(self, events: list[Message]) -> None:
        for event in events:
            error, partition, offset = event.error(), event.partition(), event.offset()
            if error is None:
                continue
            if error.code() == KafkaError._PARTITION_EOF and partition is not None and offset is not None:
                # After aborted records and ends of transactions, which are never handed out.
                self._positions[partition] = max(self._positions.get(partition, 0), offset)
                self._away = None
            elif error.code() == KafkaError._AUTO_OFFSET_RESET and partition is not None:
                self._failure = self._failure or self._to_too_short(partition)
            elif not error.retriable() and not _is_of_group(error):
                self._failure = self._failure or to_lakelog_error(error, self._describe(), self._settings.servers)

    def _to_too_short(self, partition: int) -> LakelogError:
        offset = self._positions[partition]
        try:
            earliest, latest = self._request().request_range(partition)
        except (NotFound, IndexError) as e:
            return NotFound(f"{self._describe()}: it was deleted. {e}", metadata={"topic": self._topic})
        return SnapshotExpired(
            f"Partition {partition} of the topic {self._topic} is to be read from offset {offset} on, but it holds"
            f" offsets {earliest} to {latest}. "
            + (
                "The records in between were deleted by the topic's retention."
                if offset < earliest
                else "It was cut or made anew."
            ),
            reason="LOG_TOO_SHORT",
            metadata={
                "topic": self._topic,
                "partition": str(partition),
                "offset": str(offset),
                "earliest": str(earliest),
                "latest": str(latest),
            },
        )

    def positions(self) -> dict[int, int]:
        return dict(self._positions)

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()
        questions, self._questions = self._questions, None
        if questions is not None:
            questions.close()

    def _describe(self) -> str:
        return f"The topic {self._topic} could not be read"


def _is_of_group(error: KafkaError) -> bool:
    """Whether an error is about the group. Consumers must name one; no consumer joins it, and it stores nothing."""
    return error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
