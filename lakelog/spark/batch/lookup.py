"""Lookups of old rows for Spark's writes, arranged by the driver program: what tasks get, and what is repeated.

If rows come by bucket, the task that wrote a bucket also looks its old rows up, against a state that was planned before
the job. That saves a second job, and reading the rows back from elsewhere; but every task gets the whole plan, because
the keys are not known yet. A table of many files is therefore planned after the rows are written, only for their
buckets; and so is what another commit has changed meanwhile. Then the driver program looks up small amounts; tasks look
up larger ones, each with only the files of its own buckets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Final, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from lakelog.client.metastore.metastore import Metastore
from lakelog.format.tables.files import FILE_SCHEMA
from lakelog.format.tables.plan import Plan, PlanRequest
from lakelog.format.tables.table import TableInfo
from lakelog.options.values import TableOptions
from lakelog.spark.batch.commit import Attempt
from lakelog.spark.executor.write import LookupBase, LookupTask, emit_buckets
from lakelog.spark.executor_check import mark_version
from lakelog.spark.task_errors import lakelog_errors
from lakelog.storage.lookup.bucket_changelog import (
    BucketChangelogs,
    BucketLookup,
    ChangelogExecutor,
    Outcome,
    emit_in_threads,
)

T = TypeVar("T")

MAX_PLANNED_FILES: Final = 4096
"""Files whose plan travels with each task: about half a megabyte, below what Spark itself sends to each task."""

MAX_DRIVER_ROWS: Final = 100_000
"""Rows that the driver program looks up itself. Seconds there and by a job, measured in a session of two cores: 20,000
rows 0.15 and 0.28, 100,000 rows 0.28 and 0.28, 300,000 rows 1.8 and 0.85."""

SLICES_A_CORE: Final = 4
"""Tasks of a job for each core, so that none waits long for one that has large buckets."""


def to_lookup_task(attempt: Attempt) -> LookupTask:
    """What tasks need for the lookups of an attempt. Pure."""
    info = attempt.info
    return LookupTask(info.table_uuid, info.location, info.schema, TableOptions(info.options), attempt.attempt_id)


def load_base(metastore: Metastore, info: TableInfo) -> LookupBase | None:
    """The newest state of a table, for tasks that look old rows up; None: it has too many files for all tasks."""
    newest = metastore.list_snapshots(info.table_uuid, limit=1, newest=True).snapshots
    if newest and newest[0].total_files > MAX_PLANNED_FILES:
        return None
    return pack_base(metastore.plan(PlanRequest(info.table_uuid)))


def pack_base(plan: Plan) -> LookupBase:
    """Packs a planned state for tasks. Pure."""
    files = plan.files.select(FILE_SCHEMA.names)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, files.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
        stream.write_table(files)
    packed = sink.getvalue().to_pybytes()
    if plan.snapshot is None:
        return LookupBase(0, "", 0, packed)
    snapshot = plan.snapshot
    return LookupBase(snapshot.snapshot_id, snapshot.snapshot_uuid, snapshot.committed_at_ms, packed)


def changelog_executor(spark: SparkSession, task: LookupTask) -> ChangelogExecutor:
    """Looks small amounts up in the driver program, and more by a job; raises the errors of its tasks."""

    def execute(changelogs: BucketChangelogs, lookups: Sequence[BucketLookup]) -> Sequence[Outcome]:
        if sum(each.row_count for each in lookups) <= MAX_DRIVER_ROWS:
            return emit_in_threads(changelogs, lookups)
        context = spark.sparkContext
        mark_version(context)
        shares = deal(lookups, lambda each: each.row_count, context.defaultParallelism * SLICES_A_CORE)
        with lakelog_errors():
            emitted = context.parallelize(shares, len(shares)).map(partial(emit_buckets, task)).collect()
        by_bucket = {each.bucket: each for each in chain.from_iterable(emitted)}
        return [by_bucket[each.bucket] for each in lookups]

    return execute


def deal(works: Sequence[T], to_size: Callable[[T], int], count: int) -> list[list[T]]:
    """Distributes work over at most this many tasks, the largest first, in turns. Pure."""
    ordered = sorted(works, key=to_size, reverse=True)
    return [ordered[place::count] for place in range(min(count, len(ordered)))]
