"""Options that users of Apache Paimon know and that this version does not have, each with the reason.

They are refused with that reason, never ignored: an option without effect would be a broken promise.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Final

from lakelog.options.declared.refused_log import REFUSED_LOG_OPTIONS

_NO_CHANGELOG: Final = "changelog files are written as data files are"
_NO_LATE_LOOKUP: Final = "a changelog is made before the commit or after it, as 'lookup-wait' says"
_NO_SORTING: Final = "compactions put files together and do not sort the rows of append tables"
_NO_WAITING: Final = "writers never compact, nor wait for compactions; compactors do them after the commit"
_PLANNED_BY_BUCKET: Final = "compactors plan each bucket by itself, by the options that the page on options lists"
_EXPIRY: Final = (
    "what expires is decided by 'snapshot.time-retained' and 'snapshot.num-retained.*', and compactors do it in small "
    "steps"
)
_NO_STREAM_READS: Final = "subscriptions have options of their own, which the page on options lists"
_NO_ENGINE: Final = "the merge engines are deduplicate and first-row"
_FIRST_ROW: Final = "for the merge engine first-row only 'ignore-delete' can be set"
_NO_BRANCHES: Final = "there are no branches; use tags, snapshot ids or times"
_BY_HAND: Final = "tags are made by hand: table.tags.create(name)"
_BETWEEN_TAGS: Final = "give 'incremental-between' with two tags"
_NO_MANIFESTS: Final = "the metastore keeps the list of files in its database, so there are no manifest files to tune"
_NO_SPILL: Final = "a writer whose buffer is full writes its rows as one more sorted file, so nothing is spilled"
_PARQUET_ONLY: Final = "data files are always Parquet, with settings chosen from the data"
_SPARK_DECIDES: Final = "Spark's own settings decide how many tasks work on a table"
_METASTORE_DECIDES: Final = "the metastore orders all commits and chooses a table's place"
_ALL_STATISTICS: Final = "statistics are written and used by themselves"
_NO_DYNAMIC: Final = "the number of buckets of a primary-key table is fixed; give 'bucket' a number above 0"
_SCHEMA: Final = "give it when the table is made (primary_key=, partition_by=; in SQL PRIMARY KEY and PARTITIONED BY)"
_NO_PARTITION_ACTIONS: Final = (
    "partitions are not marked when they are done; they expire by 'partition.expiration-time'"
)
_NO_EXTERNAL_CATALOG: Final = "lakelog's metastore is the only catalog of its tables"
_BITMAPS: Final = "what a read leaves out is found by the reader itself, without deletion vector files"

REFUSED_OPTIONS: Final[dict[str, str]] = {
    "aggregation.*": _NO_ENGINE,
    "fields.*": _NO_ENGINE,
    "first-row.*": _FIRST_ROW,
    "partial-update.*": _NO_ENGINE,
    "sequence.auto-padding": "the order of arrival decides between equal sequence fields",
    "record-level.*": "rows do not expire by themselves",
    "changelog.*": _NO_CHANGELOG,
    "changelog-file.*": _NO_CHANGELOG,
    "changelog-producer.*": _NO_CHANGELOG,
    "delta.*": _NO_CHANGELOG,
    "lookup.*": "old rows are looked up in sorted local copies, which know three options: lookup.cache-file-retention, "
    "lookup.cache-max-disk-size and lookup.cache-max-memory-size",
    "lookup-*": _NO_LATE_LOOKUP,
    "compaction.*": _PLANNED_BY_BUCKET,
    "append.compaction.*": _PLANNED_BY_BUCKET,
    "sort-compaction.*": _NO_SORTING,
    "unaware-bucket.*": _PLANNED_BY_BUCKET,
    "clustering.*": _NO_SORTING,
    "zorder.*": _NO_SORTING,
    "num-sorted-run.*": _NO_WAITING,
    "commit.force-compact": _NO_WAITING,
    "local-merge-buffer-size": "writers merge in 'write-buffer-size'",
    "snapshot.*": _EXPIRY,
    "tag.*": _BY_HAND,
    "branch": _NO_BRANCHES,
    "scan.version": "give 'scan.snapshot-id' or 'scan.tag-name'",
    "scan.timestamp": "give 'scan.timestamp-millis', in milliseconds since 1970-01-01 UTC",
    "scan.watermark": "give 'scan.snapshot-id' or 'scan.timestamp-millis'",
    "scan.fallback-*": _NO_BRANCHES,
    "scan.primary-branch": _NO_BRANCHES,
    "incremental-between-timestamp": "give 'incremental-between' with two snapshot ids",
    "incremental-between-tag-*": _BETWEEN_TAGS,
    "incremental-to-auto-tag": _BETWEEN_TAGS,
    "scan.creation-time-millis": _NO_STREAM_READS,
    "scan.parallelism": _SPARK_DECIDES,
    "scan.infer-parallelism*": _SPARK_DECIDES,
    "scan.max-splits-per-task": _SPARK_DECIDES,
    "scan.split-enumerator.*": _SPARK_DECIDES,
    "scan.max-snapshot.count": _NO_STREAM_READS,
    "scan.manifest.parallelism": _NO_MANIFESTS,
    "scan.plan-sort-partition": "a plan is always in the order of partitions",
    "source.*": _SPARK_DECIDES,
    "sink.*": _SPARK_DECIDES,
    "partition.sink-strategy": _SPARK_DECIDES,
    "consumer.*": _NO_STREAM_READS,
    "continuous.*": _NO_STREAM_READS,
    "streaming-read-*": _NO_STREAM_READS,
    "streaming-read.*": _NO_STREAM_READS,
    "read.stream.*": _NO_STREAM_READS,
    **REFUSED_LOG_OPTIONS,
    "file.format*": _PARQUET_ONLY,
    "file.compression.*": "zstd runs at level 1, and all files of a table are compressed alike",
    "file.block-size": _PARQUET_ONLY,
    "file.suffix.*": _PARQUET_ONLY,
    "file-index.*": "there are no index files yet; min and max values prune files",
    "global-index.*": "there are no index files yet; min and max values prune files",
    "file-reader-async-threshold": _PARQUET_ONLY,
    "parquet.*": _PARQUET_ONLY,
    "orc.*": _PARQUET_ONLY,
    "avro.*": _PARQUET_ONLY,
    "data-file.*": _METASTORE_DECIDES,
    "path": _METASTORE_DECIDES,
    "auto-create": _METASTORE_DECIDES,
    "object-location": _METASTORE_DECIDES,
    "commit.*": _METASTORE_DECIDES,
    "visibility-callback.*": _METASTORE_DECIDES,
    "manifest.*": _NO_MANIFESTS,
    "write-manifest-cache": _NO_MANIFESTS,
    "metadata.stats-*": _ALL_STATISTICS,
    "metadata.iceberg.*": _NO_EXTERNAL_CATALOG,
    "metastore.*": _NO_EXTERNAL_CATALOG,
    "type": "every table is a lakelog table",
    "primary-key": _SCHEMA,
    "partition": _SCHEMA,
    "upsert-key": _SCHEMA,
    "partition.*": _NO_PARTITION_ACTIONS,
    "end-input.*": _NO_PARTITION_ACTIONS,
    "write-buffer-spillable": _NO_SPILL,
    "write-buffer-spill.*": _NO_SPILL,
    "write-buffer-for-append": _NO_SPILL,
    "write-max-writers-to-spill": _NO_SPILL,
    "write.batch-memory": _NO_SPILL,
    "write.merge-schema*": "a table's schema is not changed by writing to it",
    "sort-spill-*": _NO_SPILL,
    "spill-*": _NO_SPILL,
    "local-sort.*": _NO_SPILL,
    "sort-engine": _NO_SPILL,
    "page-size": _NO_SPILL,
    "cache-page-size": _NO_SPILL,
    "read.batch-size": "readers choose the size of their batches",
    "async-file-write": "writers choose by themselves",
    "deletion-vectors.*": _BITMAPS,
    "deletion-vector.*": _BITMAPS,
    "dynamic-bucket.*": _NO_DYNAMIC,
    "cross-partition-upsert.*": "a primary key contains the partition columns, so a row never changes its partition",
    "postpone.*": _NO_DYNAMIC,
    "bucket-function.type": "the hash is Spark's own, so that Spark can bring rows to their buckets natively",
    "bucket-append-ordered": "rows of a bucket are always read in the order they were committed",
    "row-tracking.enabled": "rows have no identity besides their key",
    "data-evolution.enabled": "rows have no identity besides their key",
    "overwrite-upgrade": _PLANNED_BY_BUCKET,
    "materialized-table.*": "tables are filled by writers only",
}
"""By key, or by a pattern in which `*` stands for any text; only keys that are not declared are looked up here."""


def find_refusal(key: str) -> str | None:
    """Why this version does not have the option `key`; None: no such option is known. Pure."""
    lowered = key.lower()
    exact = REFUSED_OPTIONS.get(lowered)
    if exact is not None:
        return exact
    return next((why for pattern, why in REFUSED_OPTIONS.items() if fnmatchcase(lowered, pattern)), None)
