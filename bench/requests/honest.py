"""The calls of an honest client to all existing tables, after any requests of other clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

import lakelog
from bench.requests.values import SCHEMA
from lakelog.cli.output.text import format_time
from lakelog.client.metastore.metastore import Metastore
from lakelog.clock import show_time
from lakelog.errors import InternalError
from lakelog.format.commit.request import CommitRequest
from lakelog.format.keys.encoding import encode_partition
from lakelog.format.tables.files import DataFile
from lakelog.format.tables.paths import is_path
from lakelog.format.tables.plan import PlanRequest
from lakelog.format.tables.table import TableInfo, TableName
from lakelog.system_tables.metadata.listings import to_snapshots_table
from lakelog.writes.change import to_change
from lakelog.writes.commit_metadata import CommitMetadata
from lakelog.writes.commit_options import Guards

ROWS: Final = pa.table(
    {"day": ["a", "b", "b"], "id": pa.array([1, 2, 3], pa.int64()), "v": ["x", "y", None]}, schema=SCHEMA
)
"""Rows with keys of their own in any order of columns."""

_SAMPLES: Final[dict[pa.DataType, Any]] = {pa.string(): "a", pa.int64(): 1}
_EXPIRIES: Final = 50
"""Steps of expiry that a table may need."""


def use_all_tables(target: str) -> int:
    """Uses each table of a metastore; returns how many there are.

    Raises:
        LakelogError: Something of it failed.
    """
    count = 0
    with lakelog.connect(target) as catalog:
        metastore = catalog.metastore
        metastore.list_pipelines()
        metastore.list_jobs()
        metastore.list_services()
        metastore.list_overdue_snapshots()
        for database in metastore.list_databases():
            for name in metastore.list_tables(database.name):
                _use_table(metastore, metastore.get_table(TableName(database.name, name)))
                count += 1
    return count


def use_own_tables(target: str, database: str) -> None:
    """Makes tables, writes, reads and expires them, and drops them.

    Raises:
        LakelogError: Something of it failed.
    """
    with lakelog.connect(target) as catalog:
        catalog.drop_database(database, if_exists=True, cascade=True)
        catalog.create_database(database)
        keyed = catalog.create_table(f"{database}.keyed", SCHEMA, primary_key=["id"], options={"bucket": "2"})
        log = catalog.create_table(f"{database}.log", SCHEMA)
        for _ in range(3):
            keyed.upsert(ROWS)
            log.append(ROWS)
        for table, rows in ((keyed, ROWS.num_rows), (log, 3 * ROWS.num_rows)):
            if table.scan().count() != rows or table.snapshots().num_rows != 3:
                raise InternalError(f"{table.name} lacks rows or snapshots")
            table.expire_snapshots(retain_last=1)
        catalog.drop_database(database, cascade=True)


def _use_table(metastore: Metastore, info: TableInfo) -> None:
    """Commits to a table, reads, lists and expires it as an honest client does.

    Raises:
        LakelogError: Something of it failed.
    """
    staged = metastore.stage_attempt([info.table_uuid], "honest")
    info = staged.tables[0]
    prefix = f"data/{staged.attempt_id}"
    columns = info.schema.arrow
    values = [
        pa.scalar(_SAMPLES.get(columns.field(name).type), columns.field(name).type) for name in info.schema.partition_by
    ]
    file = DataFile(
        path=f"{prefix}/a.parquet",
        partition=encode_partition(values) if values else b"",
        bucket=0,
        level=0,
        row_count=3,
        delete_count=0,
        size_bytes=1000,
        min_key=None,
        max_key=None,
        schema_id=info.schema.schema_id,
    )
    change = to_change(
        info,
        [file],
        [replace(file, path=f"{prefix}/b.parquet")],
        removal=None,
        lookup=None,
        sent=None,
        guards=Guards(),
        commit_metadata=CommitMetadata(),
    )
    before = metastore.list_snapshots(info.table_uuid, limit=1).latest_snapshot_id
    result = metastore.commit(CommitRequest("honest", before + 1, (change,), staged.attempt_id))
    snapshot_id = result.results[0].snapshot_id
    if snapshot_id != before + 1:
        raise InternalError(f"{info.name} got snapshot {snapshot_id} after {before}")
    plan = metastore.plan(PlanRequest(info.table_uuid))
    paths = plan.files.column("path").to_pylist()
    if file.path not in paths:
        raise InternalError(f"a plan of {info.name} lacks what was committed")
    _check_paths(info, paths)
    listed = metastore.list_snapshots(info.table_uuid)
    to_snapshots_table(listed.snapshots, {})
    for each in listed.snapshots:
        format_time(each.watermark_ms)
        show_time(each.committed_at_ms)
    metastore.list_latest([info.table_uuid])
    metastore.list_schemas(info.table_uuid)
    metastore.list_tags(info.table_uuid)
    metastore.list_consumers(info.table_uuid)
    metastore.list_snapshot_leases(info.table_uuid)
    metastore.list_jobs([info.table_uuid])
    metastore.list_used_files(info.table_uuid)
    metastore.plan_compactions(info.table_uuid)
    if info.schema.partition_by:
        metastore.list_partition_files(info.table_uuid)
    for _ in range(_EXPIRIES):
        if metastore.expire_snapshots(info.table_uuid, older_than_ms=2**62, retain_last=1).is_done:
            break
    expired = metastore.list_expired_files(info.table_uuid, 1000)
    _check_paths(info, expired)
    if expired:
        metastore.forget_expired_files(info.table_uuid, expired)


def _check_paths(info: TableInfo, paths: Sequence[str]) -> None:
    refused = [path for path in paths if not is_path(path)]
    if refused:
        raise InternalError(f"{info.name} has a file that no store takes: {refused[0]!r}")
