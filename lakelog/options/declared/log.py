"""The options of tables with an external log (semantics 4)."""

from __future__ import annotations

from typing import Final

from lakelog.options.option import Option, Scope
from lakelog.options.value_types import Choice, Duration, MemorySize, Whole

KAFKA: Final = "kafka"
UPSERT: Final = "upsert"
CHANGELOG_CONTENT: Final = "changelog"
EVENTUAL: Final = "eventual"
READ_FILES: Final = "file"
READ_LOG: Final = "log"

MAX_PARTITIONS: Final = 65_536
"""As many as the buckets that a table may have."""

LARGEST_RECORD_BYTES: Final = 64 << 20
"""Brokers accept requests of 100 MiB by default, and clients hold several records of this size."""

DEFAULT_RETENTION_MS: Final = 7 * 86_400_000
"""For logs that hold all changes; Kafka's own default."""

_OLD_RECORDS: Final = "records that are in the log already have another form; make a new table and copy the rows"

LOG_SYSTEM: Final = Option[str](
    "log.system",
    Choice(("none", KAFKA)),
    "none",
    "The external log that also receives a table's changes: `kafka`, or `none`.",
    fixed_because="a log holds a table's changes from its beginning on; make a new table and copy the rows",
)
LOG_CONSISTENCY: Final = Option[str](
    "log.consistency",
    Choice(("transactional", EVENTUAL)),
    "transactional",
    "When readers see a record in the log. `transactional`: once its snapshot exists, exactly once for consumers that "
    "read committed records. `eventual`: as soon as it is written, at least once. After failures there may be "
    "duplicates, and records of writes that were given up. Records of several writers are in the order in which they "
    "were sent, not in that of the commits.",
    fixed_because="consumers read the two kinds of logs in different ways; make a new table",
)
LOG_PARTITIONS: Final = Option[int | None](
    "log.system.partitions",
    Whole(1, MAX_PARTITIONS),
    None,
    "The number of the topic's partitions: at least that of the table's buckets, since a bucket's records are in the "
    "partition with its number. It can only grow.",
    default_text="the number of buckets, 1 without buckets",
)
LOG_REPLICATION: Final = Option[int](
    "log.system.replication",
    Whole(1, 32_767),
    1,
    "How many brokers hold each partition of the topic when it is made.",
    fixed_because="replicas are moved by the brokers' own tool, kafka-reassign-partitions",
)
LOG_RETENTION: Final = Option[int | None](
    "log.retention",
    Duration(),
    None,
    "How long the topic keeps records, `1 s` at least. Streams whose position is older go on from the files.",
    default_text="`7 d`; for ever with the changelog mode `upsert`, where the last record of each key is kept",
)
LOG_CHANGELOG_MODE: Final = Option[str](
    "log.changelog-mode",
    Choice(("auto", "all", UPSERT)),
    "auto",
    "`all`: each change is a record. `upsert`: rows of old values are left out, a delete is a record without a value, "
    "and the topic keeps the last record of each key; needs a primary key. `auto`: `upsert` with a primary key, else "
    "`all`.",
    fixed_because=_OLD_RECORDS,
)
LOG_CONTENT: Final = Option[str](
    "log.content",
    Choice(("input", CHANGELOG_CONTENT)),
    "input",
    "What the log holds. `input`: the rows as they were written. `changelog`: each key's change with the row that was "
    "there before; needs the changelog producer `lookup`.",
    fixed_because=_OLD_RECORDS,
)
LOG_FORMAT: Final = Option[str](
    "log.format",
    Choice(("debezium-json", "json", "avro")),
    "debezium-json",
    "How rows are written in the log.",
    fixed_because=_OLD_RECORDS,
)
LOG_KEY_FORMAT: Final = Option[str](
    "log.key.format",
    Choice(("json", "avro")),
    "json",
    "How primary keys are written in the log. Records of tables without a primary key have no key.",
    fixed_because=_OLD_RECORDS,
)
LOG_MAX_RECORD_SIZE: Final = Option[int](
    "log.max-record-size",
    MemorySize(first=1 << 10, last=LARGEST_RECORD_BYTES),
    # With its framing it is as large as topics allow by default (1,048,588 bytes), so that a default topic will do.
    1000 << 10,
    "The largest record, with its key and headers. A row that makes a larger one is refused when it is written to the "
    "table; with `debezium-json` and a primary key it counts twice, since a record may hold the old row as well. The "
    "topic accepts records of this size.",
)
STREAMING_READ_MODE: Final = Option[str | None](
    "streaming-read-mode",
    Choice((READ_FILES, READ_LOG)),
    None,
    "Where streams of the table get its changes from: its files, or its log.",
    default_text="`log` if the table has a log, else `file`; always `file` with the merge engine `first-row`",
)
STREAM_READ_MODE: Final = Option[str | None](
    "streaming-read-mode",
    Choice((READ_FILES, READ_LOG)),
    None,
    "Where this stream gets the table's changes from: its files, or its log.",
    Scope.STREAM,
    default_text="as the table's option of this name says",
)
