"""Has a new session do once what batches do, in a service that waits: its first batch is then as fast as any other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROUNDS: Final = 3
"""Java compiles what it has run some times. Three rounds take five seconds on two cores."""


def warm_up(spark: SparkSession) -> None:
    """Runs small jobs like those of batches: rows through Python, by key, and through Python again. Blocks for seconds.

    They start Spark's Python processes, which import what tasks need, and have Java load, make and compile its classes.
    Not for clusters, whose executors may not be there yet.
    """
    count = spark.sparkContext.defaultParallelism
    for _ in range(_ROUNDS):
        numbers = spark.range(0, count, 1, count).mapInArrow(_pass_on, "id bigint")
        numbers.repartition(count, "id").sortWithinPartitions("id").mapInArrow(_pass_on, "id bigint").collect()
        numbers.mapInArrow(_pass_on, "id bigint").collect()


def _pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs in tasks."""
    # Most of what a task that writes imports, which takes half a second.
    import lakelog.spark.executor.write

    assert lakelog.spark.executor.write
    yield from batches
