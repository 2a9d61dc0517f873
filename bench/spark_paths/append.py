"""W1(a): one bulk append of Q1 rows from a DataFrame, against `df.write.parquet`.

python -m bench.spark_paths.append --rows 4000000 --pairs 5 --source parquet
"""

from __future__ import annotations

import argparse
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from pyspark import StorageLevel, TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from .measure import compare, session
from .rows import DDL, ROW_GROUP_ROWS, WRITE_OPTIONS, digest_sql, q1_table, write_run

FILE_SCHEMA = "path string, rows bigint, bytes bigint, id_min bigint, id_max bigint"


def source(spark: SparkSession, kind: str, rows: int, folder: Path) -> DataFrame:
    """Q1 rows in two partitions: read from Parquet files, or held serialized in memory."""
    parts = folder / f"append-{rows}"
    if not parts.exists():
        rng = np.random.default_rng(3)
        for part in range(8):
            write_run(q1_table(rng.integers(0, 2**40, rows // 8), part), parts / f"{part}.parquet")
    df = spark.read.schema(DDL).parquet(str(parts))
    if kind == "cached":
        df = df.persist(StorageLevel.MEMORY_ONLY)
        df.count()
    return df


def statistics_of(metadata: pq.FileMetaData) -> tuple[int, int]:
    """Least and greatest id over all row groups, from the footer alone."""
    column = next(i for i in range(metadata.num_columns) if metadata.schema.column(i).path == "id")
    stats = [metadata.row_group(g).column(column).statistics for g in range(metadata.num_row_groups)]
    return min(s.min for s in stats), max(s.max for s in stats)


def arrow_writer(folder: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A mapInArrow function that writes its partition to one file with pyarrow and describes it."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        path = f"{folder}/{context.partitionId()}-{context.taskAttemptId()}.parquet"
        Path(folder).mkdir(parents=True, exist_ok=True)
        writer: pq.ParquetWriter | None = None
        pending: list[pa.RecordBatch] = []
        rows = 0
        for batch in batches:
            if writer is None:
                writer = pq.ParquetWriter(path, batch.schema, **WRITE_OPTIONS)
            pending.append(batch)
            rows += batch.num_rows
            if rows >= ROW_GROUP_ROWS:
                writer.write_table(pa.Table.from_batches(pending), row_group_size=ROW_GROUP_ROWS)
                pending, rows = [], 0
        if writer is None:
            return
        if pending:
            writer.write_table(pa.Table.from_batches(pending), row_group_size=ROW_GROUP_ROWS)
        writer.close()
        yield described([path])

    return write


def described(paths: list[str]) -> pa.RecordBatch:
    """One row a file, from its footer."""
    rows = []
    for path in paths:
        metadata = pq.read_metadata(path)
        low, high = statistics_of(metadata)
        rows.append(
            {"path": path, "rows": metadata.num_rows, "bytes": Path(path).stat().st_size, "id_min": low, "id_max": high}
        )
    return pa.RecordBatch.from_pylist(rows)


def with_field_ids(df: DataFrame) -> DataFrame:
    """The same rows whose columns carry Parquet field ids (position + 1 here) for Spark's writer."""
    return df.select(
        *[sf.col(f.name).alias(f.name, metadata={"parquet.field.id": i + 1}) for i, f in enumerate(df.schema)]
    )


def write_by_arrow(df: DataFrame, folder: str) -> int:
    """Rows to Python, files by pyarrow."""
    return sum(r.rows for r in df.mapInArrow(arrow_writer(folder), FILE_SCHEMA).collect())


def write_plain(df: DataFrame, folder: str, codec_level: str = "1") -> None:
    """The reference."""
    df.write.option("compression", "zstd").option("parquet.compression.codec.zstd.level", codec_level).parquet(folder)


def write_native(df: DataFrame, folder: str, dictionary: bool = False) -> int:
    """Files by Spark's own writer into the attempt's folder, registered from their footers (read on the driver)."""
    (
        with_field_ids(df)
        .write.option("compression", "zstd")
        .option("parquet.compression.codec.zstd.level", "1")
        .option("parquet.enable.dictionary", str(dictionary).lower())
        .option("mapreduce.fileoutputcommitter.algorithm.version", "2")
        .option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        .parquet(folder)
    )
    store, root = pafs.FileSystem.from_uri(Path(folder).as_uri())
    files = [f.path for f in store.get_file_info(pafs.FileSelector(root)) if f.base_name.endswith(".parquet")]
    return sum(described(files)["rows"].to_pylist())


def main() -> None:
    """Compare the ways to append."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--source", choices=["parquet", "cached"], default="parquet")
    parser.add_argument("--folder", type=Path, default=Path("/tmp/spark_paths/data"))
    parser.add_argument("--forms", nargs="+", default=["native", "native_dictionary", "arrow"])
    args = parser.parse_args()
    spark = session(
        spark__sql__parquet__fieldId__write__enabled="true",
        spark__sql__parquet__outputTimestampType="TIMESTAMP_MICROS",
    )
    df = source(spark, args.source, args.rows, args.folder)
    want = tuple(df.selectExpr(*digest_sql(df.columns)).collect()[0])
    outputs = args.folder.parent / "out"
    written: list[str] = []

    def into(write: Callable[[DataFrame, str], object]) -> Callable[[], object]:
        def run() -> object:
            written.append(str(outputs / uuid.uuid4().hex))
            return write(df, written[-1])

        return run

    def check(name: str, answer: object) -> None:
        if name != "df.write.parquet":
            assert answer == args.rows, (name, answer)
        got = tuple(spark.read.schema(DDL).parquet(written[-1]).selectExpr(*digest_sql(df.columns)).collect()[0])
        assert got == want, name
        shutil.rmtree(written[-1])

    works = {
        "df.write.parquet": into(write_plain),
        "native": into(write_native),
        "native_dictionary": into(lambda d, f: write_native(d, f, dictionary=True)),
        "arrow": into(write_by_arrow),
    }
    print(f"\n{args.rows} rows from {args.source}, {df.rdd.getNumPartitions()} tasks")
    compare({k: w for k, w in works.items() if k in ["df.write.parquet", *args.forms]}, args.pairs, check)
    spark.stop()


if __name__ == "__main__":
    main()
