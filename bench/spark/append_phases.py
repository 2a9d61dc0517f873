"""Where the time of W1 (Spark) goes: the same rows taken a step further each time."""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame

import lakelog.spark
from bench.context import Bench
from bench.measure import Figure, absolute
from bench.sdk import BASE_ROWS
from bench.shapes import q1_schema
from bench.spark.append import write_source
from bench.spark.stack import WARM_UPS, SparkBench, open_spark, plain_writer, synchronise_folder
from lakelog.arguments import parse_table_name
from lakelog.format.tables.table import TableInfo
from lakelog.options.values import TableOptions
from lakelog.spark.batch.row_layout import bring_to_types
from lakelog.spark.executor.write import WRITTEN_SCHEMA, BatchFunction, WriteTask, row_writer
from lakelog.spark.installation import installation_of
from lakelog.spark.session.arrow_batches import NarrowRows, run_on_batches
from lakelog.storage.write.row_normalizer import KindSource, RowNormalizer

_TABLE = "b.t"
_NO_ATTEMPT = "0" * 32
_COUNT = "count bigint"


def measure_phases(bench: Bench) -> Iterator[Figure]:
    """Each phase contains those before it, except the last ones, of the reference."""
    with open_spark(bench) as on:
        source, _ = write_source(on.folder / "source", bench.scaled(BASE_ROWS))
        phases = _phases(on, on.read(source))
        taken: dict[str, list[float]] = {name: [] for name in phases}
        for turn in range(WARM_UPS + bench.pairs):
            for name, phase in phases.items():
                begin = time.perf_counter()
                clear = phase()
                if turn >= WARM_UPS:
                    taken[name].append(time.perf_counter() - begin)
                clear()
        for name, values in taken.items():
            yield absolute(name, "s", values)
        plain, durable = (statistics.median(taken[name]) for name in list(phases)[-2:])
        yield absolute("what the reference's synchronisation takes", "s", [durable - plain])


def _phases(on: SparkBench, data: DataFrame) -> dict[str, Callable[[], Callable[[], object]]]:
    table = on.catalog.create_table(_TABLE, q1_schema())
    info = installation_of(on.spark).metastore.get_table(parse_table_name(_TABLE))
    options, names = TableOptions(info.options), tuple(info.schema.arrow.names)
    task = WriteTask(
        _TABLE, info.location, info.schema, options, _NO_ATTEMPT, KindSource.INSERTS, by_bucket=False, names=names
    )
    folder = on.folder / "plain"

    def scan() -> Callable[[], object]:
        data.write.format("noop").mode("overwrite").save()
        return int

    def to_python(function: BatchFunction, schema: str) -> Callable[[], object]:
        def run(narrow: NarrowRows | None) -> object:
            rows = bring_to_types(data, info.schema.arrow, None, fill_missing=False, narrow=narrow)
            return rows.mapInArrow(function, schema).collect()

        run_on_batches(on.spark, data, info.table_uuid, run)
        return lambda: shutil.rmtree(_folder_of(info.location), ignore_errors=True)

    def write() -> Callable[[], object]:
        lakelog.spark.write(data, table.name)
        return lambda: shutil.rmtree(_folder_of(info.location))

    def write_plainly(is_durable: bool) -> Callable[[], object]:
        plain_writer(data, dictionary=False).parquet(str(folder))
        if is_durable:
            synchronise_folder(folder)
        return lambda: shutil.rmtree(folder)

    return {
        "Spark's scan": scan,
        "and rows to Python": lambda: to_python(_count, _COUNT),
        "and their types checked": lambda: to_python(_normalizer(info), _COUNT),
        "and files, synchronised": lambda: to_python(row_writer(task), WRITTEN_SCHEMA),
        "and the commit": write,
        "reference without dictionaries, not synchronised": lambda: write_plainly(False),
        "reference without dictionaries": lambda: write_plainly(True),
    }


def _folder_of(location: str) -> str:
    return location.removeprefix("file://")


def _count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"count": [sum(batch.num_rows for batch in batches)]})


def _normalizer(info: TableInfo) -> BatchFunction:
    def normalize(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        normalizer = RowNormalizer(str(info.name), info.schema, TableOptions(info.options))
        names = info.schema.arrow.names
        rows = (normalizer.take(batch.rename_columns(names), KindSource.INSERTS)[0] for batch in batches)
        yield pa.RecordBatch.from_pydict({"count": [sum(each.num_rows for each in rows)]})

    return normalize
