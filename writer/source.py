"""What a pipeline reads from, as all of the service but the source's own folder sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol, TypeAlias

import pyarrow as pa
from pyspark.sql import SparkSession

from lakelog.serving.logging_setup import Logger

from .progress import Progress
from .source_progress import PlannedBatch

ReadTasks: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""For `mapInArrow`: from batches that name what to read to rows of the table. Picklable; runs on executors."""


class Source(Protocol):
    """A source with its part of the checkpoint. Batches are planned within Spark's own planning."""

    def read_batch(self, batch_id: int) -> PlannedBatch | None:
        """What a batch takes; None: it is not planned, or long done.

        Raises:
            DataCorrupted: The checkpoint was changed.
        """
        ...

    def refresh(self, batch_id: int, log: Logger) -> None:
        """Looks, before Spark begins, whether the batch that comes next can still be read as it was planned."""
        ...

    def reader(self, batch_id: int) -> ReadTasks:
        """How what a batch takes becomes rows."""
        ...

    def register(self, spark: SparkSession) -> None:
        """Makes the source known to a session."""
        ...

    def spark_source(self, splits: int) -> tuple[str, Mapping[str, str]]:
        """The name of the source in Spark and its options; `splits`: into about how many tasks a batch goes."""
        ...

    def report_changes(self, progress: Progress) -> None:
        """Tells what was seen of the source since."""
        ...
