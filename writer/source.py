"""What a pipeline reads from, as seen by all of the service except the source's own folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol, TypeAlias

import pyarrow as pa
from pyspark.sql import SparkSession

from lakelog.serving.logging_setup import Logger

from .progress import Progress
from .source_progress import PlannedBatch

ReadTasks: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""For `mapInArrow`: from batches that name the input to rows of the table. Picklable; runs on executors."""


class Source(Protocol):
    """A source with its part of the checkpoint. Batches are planned inside Spark's own planning."""

    def read_batch(self, batch_id: int) -> PlannedBatch | None:
        """The input of a batch; None: it is not planned, or long done.

        Raises:
            DataCorrupted: The checkpoint was changed.
        """
        ...

    def refresh(self, batch_id: int, log: Logger) -> None:
        """Checks, before Spark begins, whether the next batch can still be read as it was planned."""
        ...

    def plan_first(self) -> bool:
        """Plans the first batch, outside of Spark, if anything waits. Returns whether it is planned.

        Raises:
            LakelogError: What waits could not be found out.
        """
        ...

    def reader(self, batch_id: int) -> ReadTasks:
        """How the input of a batch becomes rows."""
        ...

    def register(self, spark: SparkSession) -> None:
        """Registers the source with a session."""
        ...

    def spark_source(self, splits: int) -> tuple[str, Mapping[str, str]]:
        """The name of the source in Spark and its options; `splits`: into about how many tasks a batch is divided."""
        ...

    def report_changes(self, progress: Progress) -> None:
        """Reports changes of the source that were noticed since."""
        ...
