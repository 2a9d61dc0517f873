"""W2(b): one upsert commit through Spark: shuffle by bucket, sort, last row a key, one file a bucket.

python -m bench.spark_paths.upsert --rows 200000 --buckets 2 --pairs 5
"""

from __future__ import annotations

import argparse
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from .measure import compare, session
from .rows import COLUMNS, ROW_GROUP_ROWS, WRITE_OPTIONS, Digest, bucket_of, digest_of, q1_table, write_run

RUN_SCHEMA = "bucket bigint, path string, rows bigint"
ARRIVAL = "_arrival"


def last_of_each_key(batches: Iterator[pa.RecordBatch], key: str) -> Iterator[pa.Table]:
    """Of rows sorted by (key, arrival) hand on the last of each key, about a row group at a time.

    The last row of what is read so far waits until its successor is seen.
    """
    pending: list[pa.RecordBatch] = []
    rows = 0

    def flush(final: bool) -> Iterator[pa.Table]:
        nonlocal pending, rows
        table = pa.Table.from_batches(pending)
        keys = table[key].to_numpy()
        is_last = np.empty(len(keys), np.bool_)
        is_last[:-1] = keys[:-1] != keys[1:]
        is_last[-1] = final
        rest = [] if final else table.slice(table.num_rows - 1).combine_chunks().to_batches()
        yield table if is_last[:-1].all() and final else table.filter(pa.array(is_last))
        pending, rows = rest, len(rest)

    for batch in batches:
        if batch.num_rows:
            pending.append(batch)
            rows += batch.num_rows
        if rows > ROW_GROUP_ROWS:
            yield from flush(final=False)
    if pending:
        yield from flush(final=True)


def run_writer(
    folder: str, key: str, buckets: int, dedupe: bool
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A mapInArrow function: one sorted run of the bucket whose number is the task's partition."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        bucket, rows = context.partitionId(), 0
        path = f"{folder}/{bucket}-{context.taskAttemptId()}.parquet"
        Path(folder).mkdir(parents=True, exist_ok=True)
        writer: pq.ParquetWriter | None = None
        tables = last_of_each_key(batches, key) if dedupe else (pa.Table.from_batches([b]) for b in batches)
        for table in tables:
            first = table[key][:1].to_numpy()
            assert (bucket_of(first, buckets) == bucket).all(), "partition id is not the bucket"
            writer = writer or pq.ParquetWriter(path, table.schema, **WRITE_OPTIONS)
            writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
            rows += table.num_rows
        if writer is not None:
            writer.close()
            yield pa.RecordBatch.from_pylist([{"bucket": bucket, "path": path, "rows": rows}])

    return write


def sorted_buckets(df: DataFrame, buckets: int) -> DataFrame:
    """Rows shuffled by Spark's own hash, sorted by key and arrival: (source partition, position in it)."""
    arrived = df.withColumn(ARRIVAL, sf.monotonically_increasing_id())
    return arrived.repartition(buckets, "id").sortWithinPartitions("id", ARRIVAL).drop(ARRIVAL)


def write_reference(df: DataFrame, folder: str, buckets: int) -> None:
    """Repartition + sort + write.parquet, nothing merged."""
    writer = df.repartition(buckets, "id").sortWithinPartitions("id").write.option("compression", "zstd")
    writer.option("parquet.compression.codec.zstd.level", "1").parquet(folder)


def write_arrow(df: DataFrame, folder: str, buckets: int) -> object:
    """Sorted in the JVM, last row a key in numpy, file by pyarrow."""
    return sorted_buckets(df, buckets).mapInArrow(run_writer(folder, "id", buckets, dedupe=True), RUN_SCHEMA).collect()


def native(df: DataFrame, folder: str) -> None:
    """Spark's own writer with the settings of the bulk append."""
    writer = df.write.option("compression", "zstd").option("parquet.compression.codec.zstd.level", "1")
    writer.option("parquet.enable.dictionary", "false").option(
        "mapreduce.fileoutputcommitter.algorithm.version", "2"
    ).parquet(folder)


def write_window(df: DataFrame, folder: str, buckets: int) -> None:
    """Last row a key by a window's lead() over the sort that is there already, then Spark's own writer."""
    arrived = df.withColumn(ARRIVAL, sf.monotonically_increasing_id()).repartition(buckets, "id")
    window = Window.partitionBy("id").orderBy(ARRIVAL)
    last = arrived.withColumn("_next", sf.lead(ARRIVAL).over(window)).where("_next IS NULL")
    native(last.select(*COLUMNS), folder)


def main() -> None:
    """Compare the ways to write an upsert."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--buckets", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/spark_paths/data"))
    parser.add_argument("--output", type=Path, default=Path("/dev/shm/spark_paths/out"))
    args = parser.parse_args()
    spark = session(spark__sql__parquet__outputTimestampType="TIMESTAMP_MICROS")
    rng = np.random.default_rng(11)
    parts = args.folder / f"upsert-{args.rows}"
    tables = [q1_table(rng.integers(0, args.rows * 4, args.rows // 2), p) for p in range(2)]
    for part, table in enumerate(tables):
        write_run(table, parts / f"{part}.parquet")
    # A union keeps its parts in order, one task each, so that the order of arrival is known to the model.
    df = spark.read.parquet(str(parts / "0.parquet")).unionAll(spark.read.parquet(str(parts / "1.parquet")))
    whole = pa.concat_tables(tables)
    ids = whole["id"].to_numpy()
    order = np.argsort(ids, kind="stable")
    last = order[np.append(ids[order][1:] != ids[order][:-1], True)]
    expected: Digest = digest_of(whole.take(pa.array(np.sort(last))))
    written: list[str] = []

    def into(write: Callable[[DataFrame, str, int], object]) -> Callable[[], object]:
        def run() -> object:
            written.append(str(args.output / uuid.uuid4().hex))
            return write(df, written[-1], args.buckets)

        return run

    def check(name: str, answer: object) -> None:
        files = sorted(Path(written[-1]).glob("*.parquet"))
        got = pa.concat_tables([pq.read_table(f) for f in files])
        assert len(files) == args.buckets, (name, len(files))
        if name != "repartition + sort + write":
            assert digest_of(got) == expected, name
        for file in files:
            keys = pq.read_table(file, columns=["id"])["id"].to_numpy()
            assert (np.diff(keys) >= 0).all(), name
            assert len(np.unique(bucket_of(keys, args.buckets))) == 1, name
        shutil.rmtree(written[-1])

    works = {
        "repartition + sort + write": into(write_reference),
        "numpy + pyarrow": into(write_arrow),
        "window + Spark's writer": into(write_window),
    }
    print(f"\n{args.rows} rows, {args.buckets} buckets, {len(last)} keys")
    compare(works, args.pairs, check)
    spark.stop()


if __name__ == "__main__":
    main()
