"""The present state of a topic, and whether it is still the one that the pipeline reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lakelog.errors import HistoryDiverged, NotFound, SnapshotExpired
from lakelog.log.kafka import open_kafka_log
from lakelog.log.protocol import Log, LogReader, TopicAdmin
from lakelog.log.secrets import read_secrets

from ..config import read_environment
from ..pipeline.kafka_spec import KafkaSource, Start
from .offset_log import TopicStart

TOPIC_CHANGED = "TOPIC_CHANGED"
"""The reason of the error when the topic is not the one with which the pipeline began, or lost unread records."""

_REMEDY = (
    "Give the pipeline a new name, an empty checkpoint, and in source.starting where it shall begin; what is in the "
    "table already stays there."
)


@dataclass(frozen=True)
class TopicOffsets:
    """The records of a topic, by offsets.

    Args:
        topic_id: The broker's own id of it.
        earliest: The first retained offset of each partition.
        ends: For each partition, the offset after the last committed record.
    """

    topic_id: str
    earliest: tuple[int, ...]
    ends: tuple[int, ...]


def open_log(source: KafkaSource) -> Log:
    """Opens the cluster of a source; secrets are read from the environment of this process, now."""
    return open_kafka_log(source.options, read_secrets(read_environment()))


class Topic:
    """Reads the state of a topic; connects with its first request. One thread.

    Args:
        source: How its brokers are reached, and where to begin.
        name: The topic.
    """

    def __init__(self, source: KafkaSource, name: str) -> None:
        self.name: Final = name
        self._source = source
        self._admin: TopicAdmin | None = None
        self._reader: LogReader | None = None

    def read_offsets(self) -> TopicOffsets:
        """The topic's offsets now; blocks for some 10 ms.

        Raises:
            NotFound: There is no such topic.
            Unavailable: No broker answers.
            PermissionDenied: Wrong credentials.
        """
        topic_id = self.find_id()
        reader = self._open_reader()
        # The beginning last: a deletion meanwhile is then noticed, not skipped.
        ends = reader.list_offsets()
        earliest = reader.list_offsets(earliest=True)
        count = min(len(ends), len(earliest))
        return TopicOffsets(topic_id, earliest[:count], ends[:count])

    def find_id(self) -> str:
        """The broker's own id of the topic; raises the errors of `read_offsets`."""
        if self._admin is None:
            self._admin = open_log(self._source).open_admin()
        found = self._admin.find_topic(self.name)
        if found is None:
            raise NotFound(
                f"There is no topic '{self.name}' at {self._source.servers}: make it, or correct source.topic.",
                reason="SOURCE_NOT_FOUND",
                metadata={"topic": self.name},
            )
        return found.topic_id

    def find_start(self, offsets: TopicOffsets) -> TopicStart:
        """Where a pipeline that has read nothing begins; raises the errors of `read_offsets`."""
        starting = self._source.starting
        if starting is Start.EARLIEST:
            found = offsets.earliest
        elif starting is Start.LATEST:
            found = offsets.ends
        else:
            found = self._open_reader().list_offsets(timestamp_ms=starting)[: len(offsets.ends)]
        return TopicStart(self.name, offsets.topic_id, tuple(found))

    def close(self) -> None:
        """Ends all connections; idempotent."""
        for opened in (self._admin, self._reader):
            if opened is not None:
                opened.close()
        self._admin = self._reader = None

    def _open_reader(self) -> LogReader:
        if self._reader is None:
            self._reader = open_log(self._source).open_reader(self.name)
        return self._reader


def check_id(topic: str, known_id: str, now_id: str) -> None:
    """Checks that a topic is the one with which a pipeline began. Pure.

    Raises:
        HistoryDiverged: It was deleted and made again (reason `TOPIC_CHANGED`).
    """
    if known_id != now_id:
        raise HistoryDiverged(
            f"Topic '{topic}' was deleted and made anew (its id was {known_id} and is {now_id}): the offsets that the "
            f"pipeline has read mean other records there, and what the old one still held is lost. {_REMEDY}",
            reason=TOPIC_CHANGED,
            metadata={"topic": topic, "known_id": known_id, "topic_id": now_id},
        )


def find_starts(topic: str, read_to: Sequence[int], offsets: TopicOffsets) -> tuple[int, ...]:
    """Where the next batch begins in each partition: new partitions begin with their first record. Pure.

    Args:
        topic: For messages.
        read_to: For each known partition, the offset after the last record that was taken.
        offsets: The topic's offsets.

    Raises:
        SnapshotExpired: Unread records are no longer retained (reason `TOPIC_CHANGED`).
        HistoryDiverged: The topic ends before the last record that was read: it was cut (reason `TOPIC_CHANGED`).
    """
    if len(read_to) > len(offsets.ends):
        raise _cut(topic, f"it has {len(offsets.ends)} partitions, of which {len(read_to)} were read")
    for partition, offset in enumerate(read_to):
        if offsets.earliest[partition] > offset:
            raise SnapshotExpired(
                f"Partition {partition} of topic '{topic}' was read up to offset {offset}, and the first record that "
                f"it still keeps is {offsets.earliest[partition]}: the records between were deleted before they were "
                f"read. {_REMEDY} With `starting: earliest` it goes on with all that is kept. Let the topic keep "
                "records for longer than the pipeline may stand still.",
                reason=TOPIC_CHANGED,
                metadata={"topic": topic, "partition": str(partition), "offset": str(offset)},
            )
        if offsets.ends[partition] < offset:
            raise _cut(
                topic, f"partition {partition} was read up to offset {offset} and ends at {offsets.ends[partition]}"
            )
    return (*read_to, *offsets.earliest[len(read_to) :])


def _cut(topic: str, what: str) -> HistoryDiverged:
    return HistoryDiverged(
        f"Topic '{topic}' has lost records that are in the table: {what}. It was restored, or lost a broker. {_REMEDY}",
        reason=TOPIC_CHANGED,
        metadata={"topic": topic},
    )
