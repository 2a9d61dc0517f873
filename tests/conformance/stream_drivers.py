"""The ways to read a stream that every case goes through: a subscription, Spark's reader, and a query of Spark."""

from __future__ import annotations

import itertools
import json
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from lakelog.embedded.stack import EmbeddedStack
from lakelog.format.commit.request import BucketRef, Change, CommitRequest, CompactionGroup
from lakelog.format.tables.files import DataFile
from lakelog.format.tables.plan import PlanRequest
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.options.values import TableOptions
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.storage.write.table_writer import TableWriter
from metastore.postgres.connection.connections import libpq_url
from tests.conformance.drivers import SdkDriver
from tests.conformance.language import Step, TableSpec
from tests.conformance.stream_language import (
    Act,
    Alter,
    Compact,
    Forget,
    Shown,
    Stream,
    StreamCase,
    Wait,
    resolve_time,
    to_line,
)
from tests.support.spark.driven_stream import DrivenStream
from tests.support.spark.driven_stream import Row as DrivenRow
from tests.support.spark.stream_query import StreamQuery

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POLL_S = 0.05
_WAIT_S = 30.0
_numbers = itertools.count(1)


class SubscriptionDriver:
    """Streams are subscriptions of the SDK; those that stop have a consumer."""

    def __init__(self, catalog: Catalog, stack: EmbeddedStack) -> None:
        self.catalog = catalog
        self.stack = stack
        self._tables = SdkDriver(catalog)

    def create(self, table: TableSpec) -> str:
        return self._tables.create(table)

    def act(self, name: str, table: TableSpec, act: Act) -> None:
        if isinstance(act, Step):
            self._tables.apply(name, table, act)
        elif isinstance(act, Compact):
            compact(self.catalog.table(name))
        elif isinstance(act, Forget):
            forget(self.stack, self.catalog.table(name), act.earliest)
        elif isinstance(act, Alter):
            self.catalog.table(name).alter(set=dict(act.options))
        elif isinstance(act, Wait):
            time.sleep(act.seconds)
        else:
            raise AssertionError(f"{act} is for the stream")

    def resolve(self, name: str, options: Mapping[str, str]) -> dict[str, str]:
        committed = self.catalog.table(name).snapshots().column("committed_at").to_pylist()
        times_ms = [round(each.timestamp() * 1000) for each in committed]
        return {key: resolve_time(value, times_ms) for key, value in options.items()}

    def open(self, name: str, case: StreamCase, options: Mapping[str, str]) -> Stream:
        return _Subscribed(self.catalog.table(name), case, options)


class _Subscribed:
    def __init__(self, table: Table, case: StreamCase, options: Mapping[str, str]) -> None:
        self._table, self._case = table, case
        self._begin(options)

    def _begin(self, options: Mapping[str, str]) -> None:
        consumer = "conformance" if self._case.stops else None
        self._stream = self._table.subscribe(
            consumer_id=consumer, columns=self._case.columns, filter=self._case.filter, options=options
        )

    def take(self) -> list[list[Shown]]:
        shown: list[Shown] = []
        latest = max(self._table.snapshots(1).column("id").to_pylist(), default=0)
        end_s = time.monotonic() + _WAIT_S
        while not self._stream.ended and self._stream.position != latest:
            assert time.monotonic() < end_s, f"{self._case.rule}: at {self._stream.position}, never at {latest}"
            batch = self._stream.read(_POLL_S)
            if batch is not None:
                shown += [(batch.snapshot_id, to_line(row)) for row in batch.data.to_pylist()]
        return [shown]

    def stop(self) -> None:
        self._stream.close()

    def go_on(self, options: Mapping[str, str]) -> None:
        self._begin(options)

    def close(self) -> None:
        self._stream.close()


class ReaderDriver(SubscriptionDriver):
    """Spark's stream reader, asked what Spark asks it; it begins anew from its checkpoint each time it is looked at."""

    def open(self, name: str, case: StreamCase, options: Mapping[str, str]) -> Stream:
        return DrivenReader(self.stack.target, name, case, options)


class DrivenReader(DrivenStream):
    """A stream that runs in Spark's stream reader."""

    def __init__(self, target: str, name: str, case: StreamCase, options: Mapping[str, str]) -> None:
        super().__init__(target, name, _spark_options(case, options))
        self._case = case
        self._writer_threads: list[list[DrivenRow]] = []

    def take(self) -> list[list[Shown]]:
        self._writer_threads = []
        self.run()
        return [[(row["_snapshot_id"], to_line(row)) for row in shard] for shard in self._writer_threads]

    def show(self, batch: int) -> list[DrivenRow]:
        tasks = self.show_tasks(batch)
        before = max((row["_snapshot_id"] for shard in self._writer_threads for row in shard), default=0)
        assert all(row["_snapshot_id"] > before for task in tasks for row in task), "batches hold whole snapshots"
        self._writer_threads += tasks
        return [row for task in tasks for row in task]

    def stop(self) -> None:
        """Each look at it is a run of its own."""

    def go_on(self, options: Mapping[str, str]) -> None:
        self.options = _spark_options(self._case, options)

    def close(self) -> None:
        if self.reader is not None:
            self.reader.stop()


class QueryDriver(SubscriptionDriver):
    """Queries of Spark, each time with AvailableNow and the checkpoint of the time before."""

    def __init__(self, catalog: Catalog, stack: EmbeddedStack, spark: SparkSession) -> None:
        super().__init__(catalog, stack)
        self._spark = spark

    def open(self, name: str, case: StreamCase, options: Mapping[str, str]) -> Stream:
        return _Queried(self._spark, name, case, options)


class _Queried:
    def __init__(self, spark: SparkSession, name: str, case: StreamCase, options: Mapping[str, str]) -> None:
        self._case = case
        self._folder = tempfile.TemporaryDirectory(prefix="ll-query-", ignore_cleanup_errors=True)
        self._query = StreamQuery(spark, name, Path(self._folder.name))
        self._query.options = _spark_options(case, options)

    def take(self) -> list[list[Shown]]:
        # What tasks gathered comes to the sink in the order of the tasks, whose rows are those of some buckets.
        batches = [sorted(batch, key=lambda row: row["_snapshot_id"]) for batch in self._query.run()]
        return [[(row["_snapshot_id"], to_line(row)) for row in batch] for batch in batches]

    def stop(self) -> None:
        """Each look at it is a run of its own."""

    def go_on(self, options: Mapping[str, str]) -> None:
        self._query.options = _spark_options(self._case, options)

    def close(self) -> None:
        self._folder.cleanup()


def _spark_options(case: StreamCase, options: Mapping[str, str]) -> dict[str, Any]:
    more = {"metadata-columns": "_snapshot_id"}
    if case.columns is not None:
        more["columns"] = json.dumps(case.columns)
    if case.filter is not None:
        more["filter"] = case.filter
    return dict(options) | more


def compact(table: Table) -> None:
    """Puts merged files into the place of all live ones, bucket by bucket, as a full compaction does."""
    metastore = table._context.metastore
    plan = metastore.plan(PlanRequest(table.uuid))
    info, options = plan.table, TableOptions(plan.table.options)
    keyed = bool(info.schema.primary_key)
    attempt_id = metastore.stage_attempt([table.uuid], "compactor").attempt_id
    writer = TableWriter(table._context.open_store(info), info.schema, options, attempt_id)
    writer.write(table.scan().to_arrow())
    outputs: dict[BucketRef, list[DataFile]] = {}
    for file in writer.finish():
        outputs.setdefault(BucketRef(file.partition, file.bucket), []).append(replace(file, level=5 if keyed else 0))
    inputs: dict[BucketRef, list[int]] = {}
    for live in plan.files.select(["file_id", "partition", "bucket"]).to_pylist():
        inputs.setdefault(BucketRef(live["partition"], live["bucket"]), []).append(live["file_id"])
    groups = [
        CompactionGroup(ref, tuple(ids), len(outputs.get(ref, ())), level=5 if keyed else 0)
        for ref, ids in inputs.items()
    ]
    change = Change(
        table.uuid,
        SnapshotKind.COMPACT,
        info.schema.schema_id,
        options.bucket_count(keyed),
        tuple(file for ref in inputs for file in outputs.get(ref, ())),
        groups=tuple(groups),
    )
    (result,) = metastore.commit(CommitRequest("compactor", next(_numbers), (change,), attempt_id)).results
    assert not result.dropped, result.dropped


def forget(stack: EmbeddedStack, table: Table, earliest: int) -> None:
    """Forgets the snapshots before one, as an expiry does."""
    with psycopg.connect(libpq_url(stack.database_url), autocommit=True) as connection:
        where = "(SELECT table_id FROM table_head WHERE table_uuid = %s)"
        connection.execute(
            f"UPDATE table_head SET earliest_snapshot_id = %s WHERE table_id = {where}", [earliest, table.uuid]
        )
        connection.execute(
            f"DELETE FROM snapshot WHERE snapshot_id < %s AND table_id = {where}", [earliest, table.uuid]
        )
