"""What a Spark workload runs on: one session, a metastore process on a real Postgres, and Spark's own way to write."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

import lakelog
import lakelog.spark
from bench.context import Bench
from lakelog.sdk.catalog import Catalog
from lakelog.storage.objects.durable import synchronise
from lakelog.testing import embedded_stack

Q1_DDL: Final = "id bigint, name string, " + ", ".join(f"v{i} bigint" for i in range(8)) + ", ts timestamp"
DATABASE: Final = "b"
WARM_UPS: Final = 2
"""Pairs that are not counted: Java compiles what it runs often, which one run does not yet do."""
_CORES: Final = 2
_SYNCED_AT_ONCE: Final = 4
"""Two tasks with two writer threads each do so in ours."""


@dataclass(frozen=True)
class SparkBench:
    """A session in which lakelog is installed.

    Args:
        spark: The session.
        catalog: The SDK's view of the same tables, with the database `b`.
        folder: For what the reference writes and both read.
    """

    spark: SparkSession
    catalog: Catalog
    folder: Path

    def read(self, *paths: Path | str) -> DataFrame:
        """Q1 rows of Parquet files by Spark alone."""
        return self.spark.read.schema(Q1_DDL).parquet(*map(str, paths))


@contextlib.contextmanager
def open_spark(bench: Bench) -> Iterator[SparkBench]:
    """One session for the run.

    SUBTLE: it comes first: Java is started by a fork, which gRPC does not like where a channel is open already.
    """
    conf = {
        "spark.driver.memory": "5g",
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        # What lakelog writes as well; Spark's default of 96 bits is another amount of bytes.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.warehouse.dir": str(bench.folder / "spark-warehouse"),
        "spark.local.dir": str(bench.folder / "spark-local"),
    }
    spark = lakelog.spark.build_session("lakelog-bench", f"local[{_CORES}]", conf)
    try:
        with (
            embedded_stack(bench.folder / "stack", services=["metastore"]) as stack,
            lakelog.connect(stack.target) as catalog,
        ):
            catalog.create_database(DATABASE)
            lakelog.spark.install(spark, stack.target)
            plain = bench.folder / "plain"
            plain.mkdir()
            yield SparkBench(spark, catalog, plain)
    finally:
        spark.stop()


def plain_writer(rows: DataFrame, *, dictionary: bool) -> DataFrameWriter:
    """Spark's Parquet writer with the codec that lakelog uses."""
    return (
        rows.write.option("compression", "zstd")
        .option("parquet.compression.codec.zstd.level", "1")
        .option("parquet.enable.dictionary", str(dictionary).lower())
    )


def write_plain(rows: DataFrame, folder: Path, *, dictionary: bool) -> None:
    """The reference of a write: `df.write.parquet`, as durable as ours."""
    plain_writer(rows, dictionary=dictionary).parquet(str(folder))
    synchronise_folder(folder)


def synchronise_folder(folder: Path) -> None:
    """Makes the files of a folder durable, several at once as ours are, and then their names."""
    with ThreadPoolExecutor(_SYNCED_AT_ONCE) as threads:
        list(threads.map(synchronise, folder.glob("*.parquet")))
    synchronise(folder)
