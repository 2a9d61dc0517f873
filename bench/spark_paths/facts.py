"""Facts about Spark that lakelog leans on, printed one a line: `python -m bench.spark_paths.facts`."""

from __future__ import annotations

import functools
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import LongType, StringType, StructField, StructType

from .measure import session


@dataclass
class Written(WriterCommitMessage):
    """What a task tells the commit."""

    pid: int
    rows: int


class Writer(DataSourceArrowWriter):
    """Counts rows; its commit fails with what it got, to show how an error surfaces."""

    def __init__(self, options: MutableMapping[str, str], overwrite: bool) -> None:
        self.said = f"options={dict(options)} overwrite={overwrite} planned in pid {os.getpid()}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return Written(os.getpid(), sum(batch.num_rows for batch in iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        raise ValueError(f"{self.said} committed in pid {os.getpid()} messages={messages}")


class Probe(DataSource):
    """A data source whose commit fails on purpose."""

    @classmethod
    def name(cls) -> str:
        return "probe"

    def schema(self) -> str:
        return "id bigint"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return Writer(self.options, overwrite)


def timed(name: str, work: Callable[[], object]) -> None:
    start = time.perf_counter()
    answer = work()
    print(f"{name}: {time.perf_counter() - start:.3f} s {answer if answer is not None else ''}", flush=True)


def column_count(scan: Callable[[], DataFrame]) -> int:
    """How many columns a scan has: making it lists its files, nothing is read."""
    return len(scan().columns)


def task_partition(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The partition number beside each row's bucket column."""
    context = TaskContext.get()
    assert context is not None
    for batch in batches:
        yield pa.record_batch(
            [batch["b"].cast(pa.int64()), pa.array([context.partitionId()] * len(batch), pa.int64())], ["b", "p"]
        )


def main() -> None:
    """Print the facts."""
    start = time.perf_counter()
    spark = session()
    print(f"session: {time.perf_counter() - start:.2f} s")
    timed("first job", lambda: spark.range(10).selectExpr("sum(id)").collect()[0][0])
    for n in range(4):
        timed(f"python job {n}", lambda: len(spark.sparkContext.parallelize([1, 2], 2).map(lambda x: x).collect()))
    rows = spark.range(1000).repartition(7, "id").withColumn("b", sf.expr("cast(pmod(hash(id), 7) as bigint)"))
    pairs = rows.mapInArrow(task_partition, "b bigint, p bigint").distinct().collect()
    print("partition id is the bucket with AQE on:", sorted(pairs) == [(i, i) for i in range(7)])
    folder = Path(tempfile.mkdtemp(prefix="spark_paths"))
    try:
        schema = pa.schema([pa.field("old", pa.int64(), metadata={b"PARQUET:field_id": b"5"})])
        pq.write_table(pa.table([pa.array([7, 8, 9])], schema=schema), folder / "a.parquet")
        spark.conf.set("spark.sql.parquet.fieldId.read.enabled", "true")
        renamed = StructField("new", LongType(), metadata={"parquet.field.id": 5})
        by_id = StructType([renamed, StructField("added", StringType(), metadata={"parquet.field.id": 6})])
        scan = spark.read.schema(by_id).parquet(str(folder / "a.parquet"))
        print("field ids and _metadata.row_index:", scan.select("new", "added", "_metadata.row_index").collect())
        for name, extra in {
            "no id": StructField("_tmp_metadata_row_index", LongType()),
        }.items():
            own = StructType([*by_id.fields, extra])
            print(
                f"field ids and row column ({name}):",
                spark.read.schema(own).parquet(str(folder / "a.parquet")).collect(),
            )
        spark.conf.set("spark.sql.parquet.fieldId.read.enabled", "false")
        for count in (100, 1000, 10000):
            for i in range(count):
                target = folder / f"n{i}.parquet"
                if not target.exists():
                    os.link(folder / "a.parquet", target)
            paths = [str(folder / f"n{i}.parquet") for i in range(count)]
            for threshold in ("32", "1000000"):
                spark.conf.set("spark.sql.sources.parallelPartitionDiscovery.threshold", threshold)
                listed = functools.partial(spark.read.schema("old bigint").parquet, *paths)
                timed(f"list {count} paths, threshold {threshold}", functools.partial(column_count, listed))
    finally:
        shutil.rmtree(folder)
    spark.dataSource.register(Probe)
    print("driver pid", os.getpid())
    for mode in ("append", "overwrite"):
        try:
            spark.range(10).write.format("probe").option("CommitUser", "x").mode(mode).save()
        except Exception as error:
            print(mode, type(error).__name__, str(error)[-700:])
    spark.stop()


if __name__ == "__main__":
    main()
