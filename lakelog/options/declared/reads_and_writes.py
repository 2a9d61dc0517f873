"""The options of one read or one write."""

from __future__ import annotations

from typing import Final

from lakelog.options.option import Option, Scope
from lakelog.options.value_types import Choice, Flag, SnapshotRange, TagName, Text, Time, Whole

SCAN_SNAPSHOT_ID: Final = Option[int | None](
    "scan.snapshot-id",
    Whole(1, 10**18 - 1),
    None,
    "Read the table as it was at this snapshot.",
    Scope.SCAN,
    default_text="the newest snapshot",
)
SCAN_TIMESTAMP_MILLIS: Final = Option[int | None](
    "scan.timestamp-millis",
    Time(10**18 - 1),
    None,
    "Read the table as it was at the newest snapshot that was committed at or before this time, in milliseconds since "
    "1970-01-01 UTC, or as text such as 2024-05-01T12:00:00Z (UTC unless it says otherwise).",
    Scope.SCAN,
)
SCAN_TAG_NAME: Final = Option[str | None](
    "scan.tag-name",
    TagName(),
    None,
    "Read the table as it was at the snapshot that has this tag.",
    Scope.SCAN,
)
INCREMENTAL_BETWEEN: Final = Option[tuple[int | str, int | str] | None](
    "incremental-between",
    SnapshotRange(),
    None,
    "Read the rows that the snapshots after the first one, up to and with the second one, added. With tags of a table "
    "with a primary key: read the differences between the two states, unless `incremental-between-scan-mode` says "
    "otherwise.",
    Scope.SCAN,
)
INCREMENTAL_BETWEEN_SCAN_MODE: Final = Option[str](
    "incremental-between-scan-mode",
    Choice(
        ("delta", "changelog", "diff", "auto"),
    ),
    "delta",
    "What `incremental-between` returns. `delta`: the rows as they were written, without deletes. `changelog`: the "
    "changes of each snapshot. `diff`: the differences between the two states. `changelog` and `diff` need a primary "
    "key and have a last column `_row_kind`. `auto`: as `diff` between tags of a table with a primary key, else as "
    "`changelog` for a table with a changelog producer, else as `delta`.",
    Scope.SCAN,
)

COMMIT_USER: Final = Option[str | None](
    "commit-user",
    Text(last_length=256),
    None,
    "The writer's name. A commit is applied once for each writer and identifier, so a stream that continues another "
    "one must have the same name.",
    Scope.WRITE,
    default_text="derived from a stream's checkpoint, else a new name for each write",
)
IF_SNAPSHOT: Final = Option[int | None](
    "if-snapshot",
    Whole(0, 10**18 - 1),
    None,
    "Refuse the write when any row of the table was written since this snapshot; 0: the table had none. Not for "
    "streams.",
    Scope.WRITE,
    default_text="written whatever came before",
)
IF_UNCHANGED: Final = Option[int | None](
    "if-unchanged",
    Whole(0, 10**18 - 1),
    None,
    "Refuse the write when rows were written since this snapshot to the buckets (partitions, where the table has no "
    "buckets) that it writes to or replaces. Not for streams.",
    Scope.WRITE,
    default_text="written whatever came before",
)
FILL_MISSING: Final = Option[bool](
    "fill-missing",
    Flag(),
    False,
    "Whether nullable columns that are missing in the rows become NULL, even where a row had a value before. If not, "
    "missing columns are an error that names them.",
    Scope.WRITE,
)
MERGE_SCHEMA: Final = Option[bool](
    "merge-schema",
    Flag(),
    False,
    "Whether columns that the rows have and the table lacks are added to it, and types that the rows' types hold "
    "without loss become those (Spark; there also `mergeSchema`). Columns that the rows lack get their default or NULL "
    "then. If not, such rows are an error that names the columns.",
    Scope.WRITE,
)
DYNAMIC_PARTITION_OVERWRITE: Final = Option[bool](
    "dynamic-partition-overwrite",
    Flag(),
    True,
    "Whether an overwrite of a partitioned table that names no partition replaces only the partitions that the new "
    "rows belong to (`true`), or the whole table (`false`).",
    Scope.WRITE,
)
