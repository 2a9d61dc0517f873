"""Small makers of requests, shared by the tests of the metastore."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from lakelog.client.metastore.metastore import Metastore
from lakelog.format.commit.log_content import find_log_content, to_log_files
from lakelog.format.commit.request import BucketRef, Change, CommitRequest, CommitResult, CompactionGroup, RemoveFiles
from lakelog.format.keys.encoding import encode_key, encode_partition
from lakelog.format.tables.files import DataFile
from lakelog.format.tables.snapshot import ChangelogState, LogContent, SnapshotKind
from lakelog.format.tables.table import TableInfo, TableName
from lakelog.options.values import TableOptions

SCHEMA = pa.schema([("day", pa.string()), ("id", pa.int64()), ("v", pa.float64())])

_names = itertools.count(1)


def make_table(
    metastore: Metastore,
    *,
    partitioned: bool = False,
    buckets: int = 4,
    keyed: bool = True,
    options: Mapping[str, str] | None = None,
) -> TableInfo:
    """A table of its own, in the database `shop`."""
    metastore.create_database("shop", if_not_exists=True)
    options = options or ({"bucket": str(buckets)} if keyed else {})
    key = ["day", "id"] if partitioned else ["id"]
    table, created = metastore.create_table(
        TableName("shop", f"orders_{next(_names)}"),
        SCHEMA,
        primary_key=key if keyed else [],
        partition_by=["day"] if partitioned else [],
        options=options,
    )
    assert created
    return table


def day(value: str | None) -> bytes:
    return encode_partition([pa.scalar(value, pa.string())])


def key(value: int) -> bytes:
    return encode_key([pa.scalar(value, pa.int64())])


def make_file(attempt: str, name: str = "a", **changes: Any) -> DataFile:
    fields: dict[str, Any] = {
        "path": f"data/{attempt}/{name}.parquet",
        "partition": b"",
        "bucket": 0,
        "level": 0,
        "row_count": 10,
        "delete_count": 0,
        "size_bytes": 1000,
        "min_key": None,
        "max_key": None,
        "schema_id": 0,
    }
    return DataFile(**{**fields, **changes})


def make_change(table: TableInfo, files: Sequence[DataFile] = (), **changes: Any) -> Change:
    buckets = int(table.options.get("bucket", "-1"))
    fields: dict[str, Any] = {
        "table_uuid": table.table_uuid,
        "kind": SnapshotKind.APPEND,
        "schema_id": table.schema.schema_id,
        "bucket_count": buckets,
        "add_files": tuple(files),
    }
    content = find_log_content(TableOptions(table.options), has_key=bool(table.schema.primary_key))
    if files and changes.get("kind", SnapshotKind.APPEND) is SnapshotKind.APPEND and content is not LogContent.NONE:
        # Of a table with an external log: what a writer brings to it in whose commit each key came once.
        fields["log"] = content
        fields["log_files"] = to_log_files(content, files)
    return Change(**{**fields, **changes})


def append(
    metastore: Metastore,
    table: TableInfo,
    identifier: int,
    *,
    writer: str = "w",
    names: str = "a",
    changelog: ChangelogState = ChangelogState.NONE,
    **changes: Any,
) -> CommitResult:
    """Stages an attempt and appends a file for each letter of `names`."""
    attempt = metastore.stage_attempt([table.table_uuid], writer).attempt_id
    changes = {"schema_id": table.schema.schema_id, **changes}
    files = [make_file(attempt, name, **changes) for name in names]
    change = make_change(table, files, changelog=changelog)
    return metastore.commit(CommitRequest(writer, identifier, (change,), attempt))


def empty(table: TableInfo, identifier: int, *, writer: str = "w", **fields: Any) -> CommitRequest:
    """A commit that makes a snapshot without files."""
    return CommitRequest(writer, identifier, (make_change(table, allow_empty=True),), **fields)


def snapshot_ids(metastore: Metastore, table: TableInfo) -> list[int]:
    return [snapshot.snapshot_id for snapshot in metastore.list_snapshots(table.table_uuid).snapshots]


def compaction(
    table: TableInfo,
    files: Sequence[DataFile] = (),
    inputs: Sequence[int] = (),
    *,
    moves: Sequence[int] = (),
    level: int | None = None,
    **changes: Any,
) -> Change:
    """A compaction of one group: of the bucket of its first output, or of the first bucket."""
    level = (1 if table.schema.primary_key else 0) if level is None else level
    bucket = BucketRef(files[0].partition, files[0].bucket) if files else BucketRef(b"", 0)
    group = CompactionGroup(bucket, tuple(inputs), len(files), tuple(moves), level)
    outputs = [replace(file, level=level) for file in files]
    return make_change(table, outputs, **{"kind": SnapshotKind.COMPACT, "groups": (group,), **changes})


def rewrite(
    metastore: Metastore,
    table: TableInfo,
    identifier: int,
    *file_ids: int,
    writer: str = "compactor",
    names: str = "z",
    kind: SnapshotKind = SnapshotKind.COMPACT,
    file: dict[str, Any] | None = None,
    **change: Any,
) -> CommitResult:
    """Puts new files in the place of others, as a compaction of one group or as an overwrite."""
    attempt = metastore.stage_attempt([table.table_uuid], writer).attempt_id
    files = [make_file(attempt, name, **(file or {})) for name in names]
    if kind is SnapshotKind.COMPACT:
        made = compaction(table, files, file_ids, **change)
    else:
        made = make_change(table, files, **{"kind": kind, "remove": RemoveFiles(file_ids), **change})
    return metastore.commit(CommitRequest(writer, identifier, (made,), attempt))
