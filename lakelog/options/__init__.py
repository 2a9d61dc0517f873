"""Every option of lakelog, declared once: key, type, default, meaning, where it is given, whether it may change."""

from lakelog.options.call_options import (
    COMMIT_USER,
    DYNAMIC_PARTITION_OVERWRITE,
    INCREMENTAL_BETWEEN,
    INCREMENTAL_BETWEEN_SCAN_MODE,
    SCAN_SNAPSHOT_ID,
    SCAN_TIMESTAMP_MILLIS,
)
from lakelog.options.option import Option, Scope
from lakelog.options.refused import REFUSED_OPTIONS, find_refusal
from lakelog.options.registry import ALL_OPTIONS, check_options, list_options
from lakelog.options.spark_options import (
    MAX_BYTES_PER_TRIGGER,
    MAX_FILES_PER_TRIGGER,
    MAX_ROWS_PER_TRIGGER,
    METADATA_COLUMNS,
)
from lakelog.options.table_options import (
    BUCKET,
    BUCKET_KEY,
    CHANGELOG_PRODUCER,
    FILE_COMPRESSION,
    IGNORE_DELETE,
    IGNORE_UPDATE_BEFORE,
    LOG_SYSTEM,
    MAX_BUCKETS,
    MERGE_ENGINE,
    ROWKIND_FIELD,
    SEQUENCE_DELETE_RETENTION,
    SEQUENCE_FIELD,
    SEQUENCE_SORT_ORDER,
    TARGET_FILE_SIZE,
    WRITE_BUFFER_SIZE,
)
from lakelog.options.validate import RESERVED_COLUMNS, check_alter, validate_table_options
from lakelog.options.values import ScanOptions, StreamOptions, TableOptions, WriteOptions

__all__ = [
    "ALL_OPTIONS",
    "BUCKET",
    "BUCKET_KEY",
    "CHANGELOG_PRODUCER",
    "COMMIT_USER",
    "DYNAMIC_PARTITION_OVERWRITE",
    "FILE_COMPRESSION",
    "IGNORE_DELETE",
    "IGNORE_UPDATE_BEFORE",
    "INCREMENTAL_BETWEEN",
    "INCREMENTAL_BETWEEN_SCAN_MODE",
    "LOG_SYSTEM",
    "MAX_BUCKETS",
    "MAX_BYTES_PER_TRIGGER",
    "MAX_FILES_PER_TRIGGER",
    "MAX_ROWS_PER_TRIGGER",
    "MERGE_ENGINE",
    "METADATA_COLUMNS",
    "REFUSED_OPTIONS",
    "RESERVED_COLUMNS",
    "ROWKIND_FIELD",
    "SCAN_SNAPSHOT_ID",
    "SCAN_TIMESTAMP_MILLIS",
    "SEQUENCE_DELETE_RETENTION",
    "SEQUENCE_FIELD",
    "SEQUENCE_SORT_ORDER",
    "TARGET_FILE_SIZE",
    "WRITE_BUFFER_SIZE",
    "Option",
    "ScanOptions",
    "Scope",
    "StreamOptions",
    "TableOptions",
    "WriteOptions",
    "check_alter",
    "check_options",
    "find_refusal",
    "list_options",
    "validate_table_options",
]
