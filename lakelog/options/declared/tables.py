"""The options of tables. Names and defaults follow Apache Paimon; docs/semantics.md describes their effect on rows."""

from __future__ import annotations

from typing import Final

from lakelog.options.option import Option
from lakelog.options.value_types import Choice, ColumnNames, Duration, Flag, MemorySize, Text, Whole

MAX_BUCKETS: Final = 65_536
"""More buckets make the plans and commits of a table slow, and are always a mistake."""

MAX_LEVELS: Final = 128
"""The metastore stores a file's level in few bits; as many sorted runs would make reads far too slow."""

BUCKET: Final = Option[int | None](
    "bucket",
    Whole(1, MAX_BUCKETS, special=(-1,)),
    None,
    "How many buckets each partition has; rows go to a bucket by the hash of the bucket key. "
    "-1: no buckets, for append tables only.",
    fixed_because="existing files lie in buckets by this number; make a new table and copy the rows",
    default_text="1 with a primary key, -1 without",
)
BUCKET_KEY: Final = Option[tuple[str, ...]](
    "bucket-key",
    ColumnNames(),
    (),
    "The columns whose hash gives a row's bucket. With a primary key they must be part of the key without its "
    "partition columns; an append table with buckets must name them.",
    fixed_because="existing files lie in buckets by its hash; make a new table and copy the rows",
    default_text="the primary key without partition columns",
)
DEDUPLICATE: Final = "deduplicate"
FIRST_ROW: Final = "first-row"

MERGE_ENGINE: Final = Option[str](
    "merge-engine",
    Choice(
        (DEDUPLICATE, FIRST_ROW),
        refused=dict.fromkeys(
            ("partial-update", "aggregation"), "tables keep one row of a key and do not combine rows"
        ),
    ),
    DEDUPLICATE,
    "How rows of one primary key become one: `deduplicate` keeps the last row, and a delete removes it. `first-row` "
    "keeps the first and takes no deletes, so that streams show `+I` only.",
    fixed_because="what was merged with one engine cannot be merged again with another",
)
SEQUENCE_FIELD: Final = Option[tuple[str, ...]](
    "sequence.field",
    ColumnNames(),
    (),
    "Columns that decide which row of a key is the last. They are compared one after the other; NULL loses. If all "
    "are equal, or if no column is given, the order of arrival decides.",
    fixed_because="rows that lost by it may be gone, so that another order cannot be restored",
)
SEQUENCE_SORT_ORDER: Final = Option[str](
    "sequence.field.sort-order",
    Choice(("asc", "desc"), synonyms={"ascending": "asc", "descending": "desc"}),
    "asc",
    "Whether the row with the greatest (`asc`) or the least (`desc`) `sequence.field` is the last. NULL loses in both.",
    fixed_because="rows that lost by it may be gone, so that another order cannot be restored",
)
SEQUENCE_DELETE_RETENTION: Final = Option[int](
    "sequence.delete-retention",
    Duration(),
    86_400_000,
    "How long after its commit a delete still wins over late rows with a lower `sequence.field`.",
    fixed_because="reads of earlier snapshots would return other rows than before",
)
ROWKIND_FIELD: Final = Option[str | None](
    "rowkind.field",
    Text(),
    None,
    "A string column of the input that holds each row's kind: `+I`, `-U`, `+U` or `-D`.",
    fixed_because="it decided the kinds of the existing rows",
)
IGNORE_DELETE: Final = Option[bool](
    "ignore-delete",
    Flag(),
    False,
    "Drop rows of the kinds `-D` and `-U` before anything else happens to them. Holds for later commits when changed.",
)
IGNORE_UPDATE_BEFORE: Final = Option[bool](
    "ignore-update-before",
    Flag(),
    False,
    "Drop rows of the kind `-U` before anything else happens to them. Holds for later commits when changed.",
)
FULL_COMPACTION: Final = "full-compaction"
"""The value of `changelog-producer` with which full compactions emit the changes."""

CHANGELOG_PRODUCER: Final = Option[str](
    "changelog-producer",
    Choice(
        ("none", "input", "lookup", FULL_COMPACTION),
    ),
    "none",
    "What a commit's changelog files hold. `none`: there are none, and readers look up what was there before. `input`: "
    "every record as it was written. `lookup`: each key's change with the row that was there before, looked up by the "
    "writer before it commits, or by a compactor afterwards (`lookup-wait`). `full-compaction`: commits bring none; "
    "each full compaction of a bucket emits what has changed since the one before. Needs a primary key. Holds for "
    "later commits when changed.",
)
ROW_DEDUPLICATE: Final = Option[bool](
    "changelog-producer.row-deduplicate",
    Flag(),
    False,
    "Whether the changelog by `lookup` or `full-compaction` leaves out updates that replace a row by an equal one.",
)
ROW_DEDUPLICATE_IGNORE_FIELDS: Final = Option[tuple[str, ...]](
    "changelog-producer.row-deduplicate-ignore-fields",
    ColumnNames(),
    (),
    "Columns in which rows may differ and still count as equal for `changelog-producer.row-deduplicate`; they are "
    "stored all the same.",
    default_text="none",
)
LOOKUP_WAIT: Final = Option[bool](
    "lookup-wait",
    Flag(),
    True,
    "Whether a commit to a table with the changelog producer `lookup` waits for its changelog. If not, a compactor "
    "looks up the old rows after the commit, and streams show the snapshot once it has. Holds for later commits when "
    "changed.",
)
WRITE_ONLY: Final = Option[bool](
    "write-only",
    Flag(),
    False,
    "Whether writers only write: a compactor makes the changelog by `lookup` after the commit, whatever `lookup-wait` "
    "says. Holds for later commits when changed.",
)
LOOKUP_CACHE_FILE_RETENTION: Final = Option[int](
    "lookup.cache-file-retention",
    Duration(),
    3_600_000,
    "How long an unused local copy of a data file stays on a host.",
)
LOOKUP_CACHE_MAX_DISK_SIZE: Final = Option[int | None](
    "lookup.cache-max-disk-size",
    MemorySize(),
    None,
    "How much disk the local copies of the table's data files may use on one host. The newest copy may exceed it, and "
    "so may the copies for a running commit, until it has looked up its old rows. What other processes make counts a "
    "minute later at most.",
    default_text="unlimited",
)
LOOKUP_CACHE_MAX_MEMORY_SIZE: Final = Option[int](
    "lookup.cache-max-memory-size",
    MemorySize(),
    256 << 20,
    "How many bytes of local copies one process keeps mapped into its memory.",
)
CONSUMER_EXPIRATION_TIME: Final = Option[int](
    "consumer.expiration-time",
    Duration(),
    7 * 86_400_000,
    "How long an unused consumer keeps the snapshots that it still needs from expiring. Its position stays stored. If "
    "the next change has expired by the time it comes back, `scan.expired-position` says how it goes on. A reader that "
    "only waits uses its consumer.",
)
STREAMING_READ_OVERWRITE: Final = Option[bool](
    "streaming-read-overwrite",
    Flag(),
    False,
    "Whether subscriptions show the changes of overwrites: with a primary key the difference between the rows before "
    "and after, else the new rows.",
)
TARGET_FILE_SIZE: Final = Option[int | None](
    "target-file-size",
    MemorySize(first=1 << 10, last=1 << 40),
    None,
    "The approximate size at which a data file ends and the next begins.",
    default_text="128 mb with a primary key, 256 mb without",
)
WRITE_BUFFER_SIZE: Final = Option[int](
    "write-buffer-size",
    MemorySize(first=1 << 10, last=1 << 40),
    256 << 20,
    "How many bytes of rows one writer keeps in memory before it writes them to files. Smaller values make more files.",
)
FILE_COMPRESSION: Final = Option[str](
    "file.compression",
    Choice(("zstd", "snappy", "lz4", "none")),
    "zstd",
    "How data files are compressed. zstd runs at level 1.",
)
PRECOMMIT_COMPACT: Final = Option[bool](
    "precommit-compact",
    Flag(),
    False,
    "Whether a commit's small files, those below 0.7 times `target-file-size`, are merged before it is made: of each "
    "bucket of a primary-key table, of each partition of other tables. The write takes longer, and its snapshot has "
    "fewer files. Useful where many tasks or partitions write a little each.",
)
COMPACTION_TRIGGER: Final = Option[int](
    "num-sorted-run.compaction-trigger",
    Whole(1, 1000),
    5,
    "From how many sorted runs of a bucket on (files of level 0, and higher levels that hold files) a compaction is "
    "considered, by their sizes; with more runs, some are always compacted. Fewer runs make reads cheaper and "
    "compactions more frequent.",
)
NUM_LEVELS: Final = Option[int | None](
    "num-levels",
    Whole(2, MAX_LEVELS),
    None,
    "How many levels a bucket of a primary-key table has, level 0 included. Files in higher levels stay there until "
    "they are compacted.",
    default_text="`num-sorted-run.compaction-trigger` + 1, at most 128",
)
MAX_SIZE_AMPLIFICATION: Final = Option[int](
    "compaction.max-size-amplification-percent",
    Whole(0, 1_000_000),
    200,
    "A bucket is compacted as a whole when all its sorted runs but the oldest are together larger than this percentage "
    "of the oldest.",
)
SIZE_RATIO: Final = Option[int](
    "compaction.size-ratio",
    Whole(0, 1_000_000),
    1,
    "A compaction goes on to the next older sorted run while that is at most this percentage larger than those taken "
    "so far.",
)
TOTAL_SIZE_THRESHOLD: Final = Option[int | None](
    "compaction.total-size-threshold",
    MemorySize(),
    None,
    "A bucket that is smaller than this is always compacted as a whole.",
    default_text="none",
)
INCREMENTAL_SIZE_THRESHOLD: Final = Option[int | None](
    "compaction.incremental-size-threshold",
    MemorySize(),
    None,
    "A bucket is compacted as a whole when its files outside the highest level are larger than this.",
    default_text="none",
)
OPTIMIZATION_INTERVAL: Final = Option[int | None](
    "compaction.optimization-interval",
    Duration(),
    None,
    "How long after a commit of data all buckets written since the last such compaction are compacted as a whole, if "
    "the number of commits has not made that due sooner.",
    default_text="never by time",
)
DELTA_COMMITS: Final = Option[int | None](
    "full-compaction.delta-commits",
    Whole(1, 1_000_000),
    None,
    "After how many commits of data all buckets written since are compacted as a whole.",
    default_text="1 with the changelog producer full-compaction, else never by commits",
)
MAX_JOBS: Final = Option[int](
    "compaction.max-jobs",
    Whole(1, 1_000_000),
    8,
    "How many compactions of the table are done at once; more wait, so that one large table does not keep all "
    "compactors from the others.",
)
MIN_FILE_NUM: Final = Option[int](
    "compaction.min.file-num",
    # Otherwise a single file would be rewritten again and again.
    Whole(2, 1_000_000),
    5,
    "How many small files of an append table are compacted even if they do not fill a file together.",
)
OPEN_FILE_COST: Final = Option[int](
    "source.split.open-file-cost",
    MemorySize(last=1 << 40),
    4 << 20,
    "How many bytes the opening of a file counts as, when small files of an append table are put together.",
)
