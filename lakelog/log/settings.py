"""A log's settings with their types, read from the options of its table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakelog.errors import InvalidArgument
from lakelog.log.records import TopicSpec
from lakelog.options.declared.kafka import KAFKA_TOPIC
from lakelog.options.declared.log import (
    CHANGELOG_CONTENT,
    DEFAULT_RETENTION_MS,
    EVENTUAL,
    KAFKA,
    LOG_CHANGELOG_MODE,
    LOG_CONSISTENCY,
    LOG_CONTENT,
    LOG_FORMAT,
    LOG_KEY_FORMAT,
    LOG_MAX_RECORD_SIZE,
    LOG_PARTITIONS,
    LOG_REPLICATION,
    LOG_RETENTION,
    LOG_SYSTEM,
    READ_FILES,
    READ_LOG,
    STREAM_READ_MODE,
    STREAMING_READ_MODE,
    UPSERT,
)
from lakelog.options.declared.tables import FIRST_ROW, MERGE_ENGINE
from lakelog.options.values import StreamOptions, TableOptions


@dataclass(frozen=True)
class LogSettings:
    """What a table's log should be like.

    Args:
        is_eventual: Records are sent before their commit, too (`log.consistency`).
        is_upsert: Replaced values are left out, deletes are tombstones (`log.changelog-mode`).
        holds_changelog: The log holds the table's changelog instead of its input (`log.content`).
        format: The format of values: `debezium-json`, `json` or `avro`.
        key_format: The format of keys.
        partitions: The number of the topic's partitions.
        replication: The replicas of the topic, when it is made.
        retention_ms: How long records are retained; None: for ever.
        max_record_bytes: The largest record, with key, headers and framing.
        topic: Its name if the user gave one; empty: the name is generated.
        is_first_row: Later rows of a key are in the log, but never shown.
        reads_log: Whether streams read from the log, unless they choose another source (`streaming-read-mode`).
    """

    is_eventual: bool
    is_upsert: bool
    holds_changelog: bool
    format: str
    key_format: str
    partitions: int
    replication: int
    retention_ms: int | None
    max_record_bytes: int
    topic: str
    is_first_row: bool
    reads_log: bool

    def to_topic_spec(self, name: str) -> TopicSpec:
        """What the topic should be like."""
        return TopicSpec(
            name=name,
            partitions=self.partitions,
            replication=self.replication,
            retention_ms=self.retention_ms,
            compact=self.is_upsert,
            max_record_bytes=self.max_record_bytes,
        )


def read_log_settings(options: Mapping[str, str], *, has_primary_key: bool) -> LogSettings | None:
    """A log's settings; None: the table has none. Pure.

    Args:
        options: The table's, valid as they are in the catalog; those that are not about logs count too.
        has_primary_key: Whether the table has one.
    """
    if LOG_SYSTEM.read(options) != KAFKA:
        return None
    mode = LOG_CHANGELOG_MODE.read(options)
    is_upsert = has_primary_key if mode == "auto" else mode == UPSERT
    retention_ms = LOG_RETENTION.read(options)
    if retention_ms is None and not is_upsert:
        retention_ms = DEFAULT_RETENTION_MS
    partitions = LOG_PARTITIONS.read(options)
    if partitions is None:
        partitions = max(TableOptions(options).bucket_count(has_primary_key), 1)
    is_first_row = MERGE_ENGINE.read(options) == FIRST_ROW
    read_mode = STREAMING_READ_MODE.read(options)
    if read_mode is None:
        read_mode = READ_FILES if is_first_row else READ_LOG
    return LogSettings(
        is_eventual=LOG_CONSISTENCY.read(options) == EVENTUAL,
        is_upsert=is_upsert,
        holds_changelog=LOG_CONTENT.read(options) == CHANGELOG_CONTENT,
        format=LOG_FORMAT.read(options),
        key_format=LOG_KEY_FORMAT.read(options),
        partitions=partitions,
        replication=LOG_REPLICATION.read(options),
        retention_ms=retention_ms,
        max_record_bytes=LOG_MAX_RECORD_SIZE.read(options),
        topic=KAFKA_TOPIC.read(options) or "",
        is_first_row=is_first_row,
        reads_log=read_mode == READ_LOG,
    )


def choose_log(options: StreamOptions, settings: LogSettings | None) -> bool:
    """Whether a stream reads from the table's log, else from its files. Pure.

    Args:
        options: The stream's options.
        settings: The settings of the table's log; None: it has none.

    Raises:
        InvalidArgument: The stream needs a log, and the table has none, or one with rows that streams never show.
    """
    requested = options.get(STREAM_READ_MODE)
    if requested is None:
        return settings is not None and settings.reads_log
    if requested == READ_LOG and (settings is None or settings.is_first_row):
        why = "the table has no log" if settings is None else "the log also holds rows that come second to others"
        raise InvalidArgument(
            f"Option '{STREAM_READ_MODE.key}' = '{READ_LOG}' is not possible: {why}. Leave it out: the stream comes "
            "from the table's files.",
            reason="INVALID_OPTION",
            metadata={"option": STREAM_READ_MODE.key, "value": READ_LOG},
        )
    return requested == READ_LOG
