"""What a pipeline reads from, as seen by all of the service except the source's own folder."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

import pyarrow as pa

from .source_progress import PlannedBatch

if TYPE_CHECKING:
    # Spark's Python workers import this module; logs and clients would take half of their start.
    from lakelog.serving.logging_setup import Logger

    from .progress import Progress

ReadTasks: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Generator[pa.RecordBatch]]
"""For `mapInArrow`: from the numbers of tasks to rows of the table. Picklable; runs on executors."""


@dataclass(frozen=True)
class BatchTasks:
    """The tasks of a batch, in the order of its input.

    Args:
        count: How many.
        read: Reads the input of those whose numbers it gets, from 0.
        may_be_few: Whether the input is so small that its rows may be few.
        discover: Finds the columns of the input of those whose numbers it gets (`writer.records.discovery`); None: the
            pipeline's file says them all.
    """

    count: int
    read: ReadTasks
    may_be_few: bool
    discover: ReadTasks | None


class Source(Protocol):
    """A source with its part of the checkpoint. Batches are planned in the driver program."""

    def read_batch(self, batch_id: int) -> PlannedBatch | None:
        """The input of a batch; None: it is not planned, or long done.

        Raises:
            DataCorrupted: The checkpoint was changed.
        """
        ...

    def refresh(self, batch_id: int, log: Logger) -> None:
        """Checks, before batches begin, whether the next batch can still be read as it was planned."""
        ...

    def freeze(self) -> None:
        """Limits what is planned from now on to what exists now; raises as `plan`."""
        ...

    def plan(self, batch_id: int) -> bool:
        """Plans a batch if anything waits; returns whether it is planned. A batch that is planned stays as it is.

        Raises:
            LakelogError: What waits could not be found out.
        """
        ...

    def split(self, batch_id: int, splits: int) -> BatchTasks:
        """Divides a planned batch into about `splits` tasks."""
        ...

    def forget(self, before: int) -> None:
        """Removes or packs plans of batches before this one that are long done."""
        ...

    def close(self) -> None:
        """Ends connections; a later plan makes new ones."""
        ...

    def report_changes(self, progress: Progress) -> None:
        """Reports changes of the source that were noticed since."""
        ...
