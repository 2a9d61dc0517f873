"""`$files`, `$partitions` and `$buckets`: where the rows of a table lie. No loop over files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.client.job_pages import list_jobs_paged
from lakelog.format.jobs.job import COMPACT, STRATEGY, JobStatus, parse_bucket_scope
from lakelog.format.tables.files import STATISTICS_FIELD
from lakelog.format.tables.plan import Plan, PlanRequest
from lakelog.system_tables.columns import from_ms
from lakelog.system_tables.declaration import NUMBER, SMALL_NUMBER, TEXT, TIME, Column, Derived, OfTable
from lakelog.system_tables.metadata.encoded import decode_partitions, partition_type, to_key_texts
from lakelog.system_tables.metadata.statistics import decode_statistics, statistics_type

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakelog.context import Context
    from lakelog.format.tables.table import TableInfo
    from lakelog.format.types.schema import TableSchema
    from lakelog.system_tables.wanted import Wanted

_PARTITION: Final = Column(
    "partition",
    Derived("STRUCT of the partition columns", partition_type),
    "The partition's values; NULL in a table without partitions.",
)
_OPEN: Final = tuple(status for status in JobStatus if status is not JobStatus.DONE)

_MAX_LISTED: Final = 100
"""Buckets and levels of a condition that a request names; a longer list is only applied afterwards."""


def plan_wanted_files(context: Context, info: TableInfo, wanted: Wanted, *, with_statistics: bool = False) -> Plan:
    """Requests the files that a read wants: by partition, bucket and level, as far as the condition names them."""
    schema = wanted.table_schema
    ids = {name: schema.field_ids[name] for name in schema.partition_by}
    return context.metastore.plan(
        PlanRequest(
            info.table_uuid,
            wanted.state,
            wanted.predicate_on("partition", ids),
            _numbers(wanted, "bucket"),
            levels=_numbers(wanted, "level"),
            with_statistics=with_statistics,
        )
    )


def _numbers(wanted: Wanted, name: str) -> tuple[int, ...]:
    """The only values of a column, for a request; none: it asks for all."""
    values = wanted.values_of(name) if name in wanted.schema.names else None
    possible = [each for each in values or () if isinstance(each, int) and each >= 0]
    return tuple(possible) if len(possible) <= _MAX_LISTED else ()


def _read_files(context: Context, info: TableInfo, wanted: Wanted) -> pa.Table:
    with_statistics = wanted.needs("statistics")
    plan = plan_wanted_files(context, info, wanted, with_statistics=with_statistics)
    files, schema = plan.files, wanted.table_schema
    columns = {
        "path": files.column("path"),
        "bucket": files.column("bucket"),
        "level": files.column("level"),
        "rows": files.column("row_count"),
        "bytes": files.column("size_bytes"),
        "added_snapshot": files.column("added_snapshot"),
        "deletes": files.column("delete_count"),
        "schema_id": files.column("schema_id"),
        "written_at": from_ms(files.column("order_time_ms")),
        "deletion_vector": files.column("deletion_vector_path"),
    }
    if wanted.needs("partition"):
        columns["partition"] = decode_partitions(files.column("partition"), schema)
    if wanted.needs("min_key", "max_key"):
        columns |= {name: to_key_texts(files.column(name), schema) for name in ("min_key", "max_key")}
    if with_statistics:
        encoded = files.column(STATISTICS_FIELD.name).combine_chunks()
        schema_ids = files.column("schema_id").combine_chunks()
        columns["statistics"] = decode_statistics(encoded, schema_ids, schema, _find_schemas(context, plan))
    return pa.table(columns)


def _find_schemas(context: Context, plan: Plan) -> Mapping[int, TableSchema]:
    """At least the schemas that the files of a plan were written with, by id."""
    used = plan.files.column("schema_id").unique().to_pylist()
    if plan.file_schemas.keys() >= set(used):
        return plan.file_schemas
    return {each.schema_id: each for each in context.metastore.list_schemas(plan.table.table_uuid)}


def _read_partitions(context: Context, info: TableInfo, wanted: Wanted) -> pa.Table:
    files = plan_wanted_files(context, info, wanted).files
    grouped = _group(files, ["partition"], [("bucket", "count_distinct")])
    return pa.table(
        {
            "partition": decode_partitions(grouped["partition"], wanted.table_schema),
            "files": grouped["path_count"],
            "buckets": grouped["bucket_count_distinct"],
            "rows": grouped["row_count_sum"],
            "bytes": grouped["size_bytes_sum"],
            "last_snapshot": grouped["added_snapshot_max"],
            "deletes": grouped["delete_count_sum"],
            "written_at": from_ms(grouped["order_time_ms_max"]),
        }
    )


def _read_buckets(context: Context, info: TableInfo, wanted: Wanted) -> pa.Table:
    files = plan_wanted_files(context, info, wanted).files
    grouped = _group(_with_runs(files), ["partition", "bucket"], [("run", "count_distinct"), ("level", "max")])
    columns = {
        "partition": decode_partitions(grouped["partition"], wanted.table_schema),
        "bucket": grouped["bucket"],
        "files": grouped["path_count"],
        "runs": grouped["run_count_distinct"],
        "top_level": grouped["level_max"],
        "rows": grouped["row_count_sum"],
        "deletes": grouped["delete_count_sum"],
        "bytes": grouped["size_bytes_sum"],
        "last_snapshot": grouped["added_snapshot_max"],
        "written_at": from_ms(grouped["order_time_ms_max"]),
    }
    if wanted.needs("due"):
        columns["due"] = _find_due(context, info, grouped)
    return pa.table(columns)


def _group(files: pa.Table, keys: list[str], more: list[tuple[str, str]]) -> pa.Table:
    """Sums over files, a row for each group, in the order of a plan."""
    sums = [(name, "sum") for name in ("row_count", "delete_count", "size_bytes")]
    newest = [(name, "max") for name in ("added_snapshot", "order_time_ms")]
    grouped = files.group_by(keys, use_threads=False).aggregate([("path", "count"), *sums, *newest, *more])
    return grouped.sort_by([(key, "ascending") for key in keys])


def _with_runs(files: pa.Table) -> pa.Table:
    """Adds a number of each file's sorted run: a file of level 0 is a run of its own, a higher level is one."""
    levels = files.column("level").to_numpy()
    runs = np.where(levels == 0, -1 - np.arange(files.num_rows), levels)
    return files.append_column("run", pa.array(runs, NUMBER))


def _find_due(context: Context, info: TableInfo, buckets: pa.Table) -> pa.Array:
    """What a compactor has to do or does in each bucket."""
    work = {
        parse_bucket_scope(job.scope): f"compaction ({job.payload.get(STRATEGY, job.kind)}): {job.state.value}"
        for job in list_jobs_paged(context.metastore, [info.table_uuid], kinds=[COMPACT], statuses=_OPEN)
    }
    if not work:
        return pa.nulls(buckets.num_rows, TEXT)
    jobs = pa.table(
        {
            "partition": pa.array([partition for partition, _ in work], pa.binary()),
            "bucket": pa.array([bucket for _, bucket in work], pa.int32()),
            "due": pa.array(list(work.values()), TEXT),
        }
    )
    places = pa.table({"partition": buckets["partition"], "bucket": buckets["bucket"]})
    numbered = places.append_column("place", pa.array(np.arange(places.num_rows)))
    joined = numbered.join(jobs, ["partition", "bucket"], join_type="left outer")
    return pc.take(joined["due"], pc.sort_indices(joined["place"])).combine_chunks()


FILES: Final = OfTable(
    "files",
    "The live data files of a snapshot, in the order of a read: to find small files, wide key ranges, or "
    "statistics that exclude nothing. Conditions on `partition`, `bucket` and `level` are part of the request.",
    (
        Column("path", TEXT, "Relative to the table's location."),
        _PARTITION,
        Column("bucket", SMALL_NUMBER, "The bucket, from 0; 0 in a table without buckets."),
        Column("level", SMALL_NUMBER, "The level; 0 for files that writers wrote."),
        Column("rows", NUMBER, "All rows."),
        Column("bytes", NUMBER, "The file's size."),
        Column("min_key", TEXT, "The lower bound of the primary key; hexadecimal digits if it was cut."),
        Column("max_key", TEXT, "The upper bound of the primary key."),
        Column("added_snapshot", NUMBER, "The snapshot that added it."),
        Column("deletes", NUMBER, "Rows of it that delete, or that no read shows."),
        Column("schema_id", SMALL_NUMBER, "The schema that it was written with."),
        Column("written_at", TIME, "When its newest rows were committed; a compaction keeps the time."),
        Column("deletion_vector", TEXT, "The file with the positions of rows that no read shows; NULL: not known."),
        Column(
            "statistics",
            Derived("STRUCT of the columns: STRUCT<min, max, nulls>", statistics_type),
            "Bounds and number of NULLs of each single-valued column, by its present name; `…` ends a text that was "
            "cut. Only the first 64 columns have some.",
        ),
    ),
    read=_read_files,
    has_past=True,
)
PARTITIONS: Final = OfTable(
    "partitions",
    "Sums over the live files of each partition. Conditions on `partition` are part of the request.",
    (
        _PARTITION,
        Column("files", NUMBER, "The files."),
        Column("buckets", NUMBER, "The buckets that have files."),
        Column("rows", NUMBER, "The rows in files, including rows that merging hides."),
        Column("bytes", NUMBER, "The size of the files."),
        Column("last_snapshot", NUMBER, "The newest snapshot that added one of the files."),
        Column("deletes", NUMBER, "Rows that delete, or that no read shows."),
        Column("written_at", TIME, "When the newest rows were committed."),
    ),
    read=_read_partitions,
    has_past=True,
)
BUCKETS: Final = OfTable(
    "buckets",
    "Sums over the live files of each bucket, and what compactors have to do: to see why a read merges much. "
    "Conditions on `partition` and `bucket` are part of the request.",
    (
        _PARTITION,
        Column("bucket", SMALL_NUMBER, "The bucket, from 0."),
        Column("files", NUMBER, "The files."),
        Column("runs", NUMBER, "The sorted runs that a read merges: each file of level 0, and each higher level."),
        Column("top_level", SMALL_NUMBER, "The highest level that has files."),
        Column("rows", NUMBER, "The rows in files, including rows that merging hides."),
        Column("deletes", NUMBER, "Rows that delete, or that no read shows."),
        Column("bytes", NUMBER, "The size of the files."),
        Column("last_snapshot", NUMBER, "The newest snapshot that added one of the files."),
        Column("written_at", TIME, "When the newest rows were committed."),
        Column("due", TEXT, "The compaction that is due or runs now, and its state; NULL: none. It shows the present."),
    ),
    read=_read_buckets,
    has_past=True,
)
