"""W3 through Spark: forms of "scan the files less their deletion vectors", against the plain scan.

python -m bench.spark_paths.read --rows 4000000 --deltas 0 1 2 5 10 20 --pairs 5
"""

from __future__ import annotations

import argparse
import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from .deletion_vectors import SCHEMA, find_deleted_rows, words_of_bucket
from .measure import compare, session
from .rows import COLUMNS, DDL, Digest, bucket_of, digest_of, digest_sql, q1_table, write_run

ROW = "_metadata.row_index"
# The name under which Spark's Parquet reader fills in row positions itself, without the struct that _metadata makes.
ROW_COLUMN = "_tmp_metadata_row_index"


@dataclass(frozen=True, slots=True)
class Files:
    """The runs of all buckets: file number i is paths[i]; `runs` lists each bucket's file numbers, oldest first."""

    paths: list[str]
    runs: list[list[int]]
    expected: Digest


def make_files(folder: Path, rows: int, deltas: int, delta_rows: int, buckets: int) -> Files:
    """Base rows and k overlapping deltas, each split into sorted runs of the buckets; made once, kept in the folder."""
    rng = np.random.default_rng(7)
    domain = np.sort(rng.choice(rows * 8, rows, replace=False)).astype(np.int64)
    paths: list[str] = []
    runs: list[list[int]] = [[] for _ in range(buckets)]
    for step in range(deltas + 1):
        picked = domain if step == 0 else np.sort(rng.choice(domain, delta_rows, replace=False))
        for bucket in range(buckets):
            path = folder / f"{rows}-{delta_rows}-{buckets}" / f"s{step:03d}-b{bucket}.parquet"
            if not path.exists():
                write_run(q1_table(picked[bucket_of(picked, buckets) == bucket], step * buckets + bucket), path)
            runs[bucket].append(len(paths))
            paths.append(str(path))
    # The model reads whole rows with pyarrow and keeps the last of each key: nothing in common with the ways measured.
    rows_seen, xors = 0, np.zeros(len(COLUMNS) - 1, np.int64)
    for files in runs:
        seen = np.empty(0, np.int64)
        for file in reversed(files):
            table = pq.read_table(paths[file])
            keys = table["id"].to_numpy()
            kept = table.filter(pa.array(~np.isin(keys, seen)))
            digest = digest_of(kept)
            rows_seen += digest.rows
            xors ^= np.array(digest.xors, np.int64)
            seen = np.union1d(seen, keys)
    return Files(paths, runs, Digest(rows_seen, tuple(map(int, xors))))


def scan(spark: SparkSession, paths: list[str]) -> DataFrame:
    """Spark's own Parquet scan."""
    return spark.read.schema(DDL).parquet(*paths)


def positions_by_arrow(spark: SparkSession, files: Files) -> pa.Table:
    """Find the deletion vectors, one task a bucket, through mapInArrow; the words come to the driver."""
    sc = spark.sparkContext
    specs = [(runs, [files.paths[f] for f in runs], "id") for runs in files.runs]
    work = spark.createDataFrame(
        sc.parallelize(specs, len(specs)), "files array<bigint>, paths array<string>, key string"
    )
    return work.mapInArrow(find_deleted_rows, SCHEMA).toArrow()


def positions_by_rdd(spark: SparkSession, files: Files) -> pa.Table:
    """The same through a plain RDD: no plan, no optimizer; Arrow batches pickled by pyarrow itself."""
    specs = [(runs, [files.paths[f] for f in runs], "id") for runs in files.runs]
    rdd = spark.sparkContext.parallelize(specs, len(specs))
    return pa.Table.from_batches(rdd.map(lambda spec: words_of_bucket(*spec)).collect())


def bit_is_clear(words: Column, row: str = ROW, start: Column | None = None) -> Column:
    """Column: the bit of the row's position, counted from word `start`, is not set in the array of words."""
    index = sf.shiftright(sf.col(row), 6).cast("int")
    word = sf.get(words, index if start is None else start + index)
    shifted = sf.call_function("shiftright", word, sf.col(row).cast("int").bitwiseAND(sf.lit(63)))
    return shifted.bitwiseAND(sf.lit(1)) == sf.lit(0)


def split_scans(
    spark: SparkSession, files: Files, words: pa.Table
) -> tuple[DataFrame | None, list[tuple[int, DataFrame]]]:
    """The scan of files without superseded rows, and one scan a file for the others."""
    dirty = words["file"].to_pylist()
    clean = [p for f, p in enumerate(files.paths) if f not in set(dirty)]
    return (scan(spark, clean) if clean else None), [(f, scan(spark, [files.paths[f]])) for f in dirty]


def merged(parts: list[DataFrame | None]) -> DataFrame:
    """Union of the parts that are there."""
    return functools.reduce(DataFrame.unionAll, [p for p in parts if p is not None])


def by_subquery(spark: SparkSession, files: Files, words: pa.Table) -> DataFrame:
    """One scan a file, its words a scalar subquery over a local relation."""
    local = spark.createDataFrame(words)
    clean, dirty = split_scans(spark, files, words)
    return merged(
        [clean]
        + [
            df.where(bit_is_clear(local.where(sf.col("file") == f).select("words").scalar())).select(*COLUMNS)
            for f, df in dirty
        ]
    )


def by_name_join(spark: SparkSession, files: Files, words: pa.Table) -> DataFrame:
    """One scan of all filtered files, joined with the words by file name."""
    names = pa.array([os.path.basename(files.paths[f]) for f in words["file"].to_pylist()])
    local = sf.broadcast(spark.createDataFrame(words.select(["words"]).append_column("file_name", names)))
    dirty = set(words["file"].to_pylist())
    clean = [p for f, p in enumerate(files.paths) if f not in dirty]
    df = scan(spark, [files.paths[f] for f in dirty])
    joined = df.withColumn("file_name", sf.col("_metadata.file_name")).withColumn("row", sf.col(ROW))
    keep = bit_is_clear(sf.col("words"), "row")
    return merged([scan(spark, clean) if clean else None, joined.join(local, "file_name").where(keep).select(*COLUMNS)])


def by_size_join(spark: SparkSession, files: Files, words: pa.Table) -> DataFrame:
    """As by name, but the file is known by its size, a long: files of one size would go into different scans."""
    dirty = words["file"].to_pylist()
    sizes = [os.path.getsize(files.paths[f]) for f in dirty]
    assert len(set(sizes)) == len(sizes)
    local = sf.broadcast(spark.createDataFrame(words.select(["words"]).append_column("size", pa.array(sizes))))
    clean = [p for f, p in enumerate(files.paths) if f not in set(dirty)]
    joined = (
        scan(spark, [files.paths[f] for f in dirty])
        .withColumn("size", sf.col("_metadata.file_size"))
        .withColumn("row", sf.col(ROW))
    )
    keep = bit_is_clear(sf.col("words"), "row")
    return merged([scan(spark, clean) if clean else None, joined.join(local, "size").where(keep).select(*COLUMNS)])


def by_group(spark: SparkSession, files: Files, words: pa.Table) -> DataFrame:
    """One scan of all filtered files; all words in one scalar subquery, a file's first word by a join on size."""
    dirty = words["file"].to_pylist()
    sizes = [os.path.getsize(files.paths[f]) for f in dirty]
    lists = words["words"].combine_chunks()
    flat = lists.flatten()
    starts = np.concatenate([[0], np.cumsum([len(x) for x in lists])])[:-1].astype(np.int32)
    all_words = spark.createDataFrame(
        pa.table({"words": pa.ListArray.from_arrays(pa.array([0, len(flat)], pa.int32()), flat)})
    )
    local = sf.broadcast(spark.createDataFrame(pa.table({"size": pa.array(sizes), "start": pa.array(starts)})))
    clean = [p for f, p in enumerate(files.paths) if f not in set(dirty)]
    joined = (
        scan(spark, [files.paths[f] for f in dirty])
        .withColumn("size", sf.col("_metadata.file_size"))
        .withColumn("row", sf.col(ROW))
    )
    keep = bit_is_clear(all_words.scalar(), "row", sf.col("start"))
    return merged([scan(spark, clean) if clean else None, joined.join(local, "size").where(keep).select(*COLUMNS)])


def by_case(spark: SparkSession, files: Files, words: pa.Table) -> DataFrame:
    """As by_group, but each file's first word comes from a CASE over the size."""
    dirty = words["file"].to_pylist()
    sizes = [os.path.getsize(files.paths[f]) for f in dirty]
    lists = words["words"].combine_chunks()
    flat = lists.flatten()
    starts = np.concatenate([[0], np.cumsum([len(x) for x in lists])])[:-1].astype(np.int32)
    all_words = spark.createDataFrame(
        pa.table({"words": pa.ListArray.from_arrays(pa.array([0, len(flat)], pa.int32()), flat)})
    )
    clean = [p for f, p in enumerate(files.paths) if f not in set(dirty)]
    case = (
        "CASE _metadata.file_size "
        + " ".join(f"WHEN {z}L THEN {s}" for z, s in zip(sizes, starts, strict=True))
        + " END"
    )
    keep = bit_is_clear(all_words.scalar(), start=sf.expr(case))
    df = scan(spark, [files.paths[f] for f in dirty]).where(keep).select(*COLUMNS)
    return merged([scan(spark, clean) if clean else None, df])


def by_case_alone(spark: SparkSession, files: Files, words: pa.Table) -> DataFrame:
    """One scan of all files, clean ones too: whose size no WHEN names has no word, and is kept.

    SUBTLE: sizes must be unique over all files of the scan, clean ones too, else a row is judged by other files' bits.
    """
    known_sizes = [os.path.getsize(path) for path in files.paths]
    assert len(set(known_sizes)) == len(known_sizes), "two files of one size in one scan"
    dirty = words["file"].to_pylist()
    lists = words["words"].combine_chunks()
    flat = lists.flatten()
    starts = np.concatenate([[0], np.cumsum([len(x) for x in lists])])[:-1].astype(np.int32)
    all_words = spark.createDataFrame(
        pa.table({"words": pa.ListArray.from_arrays(pa.array([0, len(flat)], pa.int32()), flat)})
    )
    sizes = [os.path.getsize(files.paths[f]) for f in dirty]
    case = (
        "CASE _metadata.file_size "
        + " ".join(f"WHEN {z}L THEN {s}" for z, s in zip(sizes, starts, strict=True))
        + " END"
    )
    rows = spark.read.schema(f"{DDL}, {ROW_COLUMN} bigint").parquet(*files.paths)
    keep = sf.coalesce(bit_is_clear(all_words.scalar(), ROW_COLUMN, sf.expr(case)), sf.lit(True))
    return rows.where(keep).select(*COLUMNS)


FORMS = {
    "alone": by_case_alone,
    "subquery": by_subquery,
    "name": by_name_join,
    "size": by_size_join,
    "group": by_group,
    "case": by_case,
}


def compare_forms(
    spark: SparkSession, files: Files, known: pa.Table, k: int, columns: list[str], args: argparse.Namespace
) -> None:
    """Measure the asked forms for one set of files and columns."""
    aggregates = digest_sql(columns)

    def run(form: Callable[[pa.Table], DataFrame], words: Callable[[], pa.Table | None]) -> tuple[int, ...]:
        return tuple(form(words()).selectExpr(*aggregates).collect()[0])

    works: dict[str, Callable[[], object]] = {
        "plain": lambda: run(lambda _: scan(spark, files.paths), lambda: None),
    }
    for name in args.forms:
        form = functools.partial(FORMS[name], spark, files)
        if k == 0:
            works = works | {"unmerged": lambda: run(lambda _: scan(spark, files.paths), lambda: None)}
            break
        works[f"{name}, positions known"] = functools.partial(run, form, lambda: known)
        works[f"{name}, rdd"] = functools.partial(run, form, lambda: positions_by_rdd(spark, files))
    if args.explain and k:
        FORMS[args.forms[0]](spark, files, known).selectExpr(*aggregates).explain()

    def check(name: str, answer: object) -> None:
        if name == "plain":
            return
        assert isinstance(answer, tuple)
        got = [x for i, x in enumerate(answer) if i == 0 or columns[i - 1] != "name"]
        want = dict(zip([c for c in COLUMNS if c != "name"], files.expected.xors, strict=True))
        assert got == [files.expected.rows] + [want[c] for c in columns if c != "name"], name

    print(
        f"\nk={k}, {len(columns)} columns, {len(files.paths)} files; positions: "
        f"{known.num_rows} files, {sum(known['superseded'].to_pylist())} rows"
    )
    compare(works, args.pairs, check)


def main() -> None:
    """Measure the forms for each number of deltas."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--delta-rows", type=int, default=400_000)
    parser.add_argument("--deltas", type=int, nargs="+", default=[0, 1, 2, 5, 10, 20])
    parser.add_argument("--buckets", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--forms", nargs="+", default=list(FORMS))
    parser.add_argument("--folder", type=Path, default=Path("/tmp/spark_paths/data"))
    parser.add_argument("--explain", action="store_true")
    args = parser.parse_args()
    spark = session()
    for k in args.deltas:
        files = make_files(args.folder, args.rows, k, args.delta_rows, args.buckets)
        known = positions_by_rdd(spark, files)
        for columns in (COLUMNS, ["id", "v0", "ts"]):
            compare_forms(spark, files, known, k, columns, args)
    spark.stop()


if __name__ == "__main__":
    main()
