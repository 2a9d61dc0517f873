"""Spark and changelogs that are made after the commit: its commits leave them open, its reads wait for them."""

from __future__ import annotations

import threading
import time

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

import lakelog.spark
from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.embedded.stack import EmbeddedStack
from lakelog.errors import Unavailable
from lakelog.format.tables.snapshot import ChangelogState
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from tests.integration.spark.spark_tables import MakeTable
from tests.support.spark.driven_stream import STREAMED, emitted, flat, put, stream_of
from tests.support.tables.attaching import attach_all

FIRST = [(1, "+I", 1, "a")]
SECOND = [(2, "-U", 1, "a"), (2, "+U", 1, "b")]


@pytest.fixture
def table(make_table: MakeTable) -> Table:
    options = {"changelog-producer": "lookup", "lookup-wait": "false"}
    return make_table(STREAMED, ("k",), options=options)


def attach(stack: EmbeddedStack, table: Table) -> None:
    metastore = GrpcMetastore(stack.target)
    attach_all(metastore, find_tables=lambda: [table.uuid])
    metastore.close()


def test_a_commit_of_spark_leaves_its_changelog_open(
    spark: SparkSession, stack: EmbeddedStack, catalog: Catalog, table: Table
) -> None:
    rows = spark.createDataFrame([(1, "a")], "k long, v string")
    lakelog.spark.write(rows, table.name)
    rows.write.format("lakelog").option("table", table.name).mode("append").save()
    lakelog.spark.write(rows, table.name, mode="overwrite")
    snapshots = catalog.metastore.list_snapshots(table.uuid).snapshots
    assert [each.changelog for each in snapshots] == [
        ChangelogState.PENDING,
        ChangelogState.PENDING,
        ChangelogState.NONE,
    ]
    with pytest.raises(Unavailable, match=r"Snapshot 1 of .* still waits for a compactor"):
        lakelog.spark.changes(spark, table.name, timeout=0)
    attach(stack, table)
    found = [tuple(row) for row in lakelog.spark.changes(spark, table.name).collect()]
    assert found == [(1, "a", "+I", 1), (1, "a", "-U", 2), (1, "a", "+U", 2)]


def test_a_stream_stops_before_the_first_open_one(stack: EmbeddedStack, table: Table) -> None:
    table.upsert(put((1, "a")))
    attach(stack, table)
    table.upsert(put((1, "b")))
    stream = stream_of(stack, table, scan__snapshot_id="1")
    assert flat(stream.run()) == FIRST
    assert stream.run() == []
    attach(stack, table)
    assert flat(stream.run()) == SECOND


def test_rows_are_those_of_the_newest_snapshot_and_changes_come_after_it(stack: EmbeddedStack, table: Table) -> None:
    table.upsert(put((1, "a")))
    table.upsert(put((1, "b")))
    stream = stream_of(stack, table)
    assert flat(stream.run()) == [(2, "+I", 1, "b")]
    assert stream.run() == []
    table.upsert(put((1, "c")))
    assert stream.run() == []
    attach(stack, table)
    assert flat(stream.run()) == [(3, "-U", 1, "b"), (3, "+U", 1, "c")]


def test_rows_as_they_were_written_do_not_wait(stack: EmbeddedStack, table: Table) -> None:
    table.upsert(put((1, "a")))
    stream = stream_of(stack, table, **{"scan.snapshot-id": "1", "scan.remove-normalize": "true"})
    assert flat(stream.run()) == FIRST


def test_an_idle_stream_is_notified_when_a_changelog_is_attached(stack: EmbeddedStack, table: Table) -> None:
    table.upsert(put((1, "a")))
    stream = stream_of(stack, table, scan__snapshot_id="1")
    stream.start()
    assert stream.reader is not None
    stream.offsets.append(stream.reader.initialOffset())
    began = time.monotonic()
    # Without anything to show it waits for a while, instead of being asked again and again.
    assert not stream.advance(ReadAllAvailable())
    assert time.monotonic() - began > 0.5
    later = threading.Timer(0.2, lambda: attach(stack, table))
    later.start()
    while not stream.advance(ReadAllAvailable()):
        assert time.monotonic() - began < 20
    assert emitted(stream.show(0)) == FIRST
    later.join()
    stream.reader.stop()
