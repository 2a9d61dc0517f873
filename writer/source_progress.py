"""The progress of a source, and the input of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from lakelog.errors import DataCorrupted


@dataclass(frozen=True)
class PartitionLag:
    """How much waits in one partition of a topic."""

    topic: str
    partition: int
    lag: int


@dataclass(frozen=True)
class SourceProgress:
    """How far a source is read.

    Args:
        position: The position, for people.
        taken: How much was read.
        lag: How much waits.
        partitions: For topics, how much waits in each of their partitions.
    """

    position: str
    taken: int
    lag: int
    partitions: tuple[PartitionLag, ...] = ()


class PlannedBatch(Protocol):
    """The input of a batch, the same at each call."""

    @property
    def batch_id(self) -> int:
        """The batch, from 0."""
        ...

    @property
    def size(self) -> int:
        """How much it takes, in the unit of its source."""
        ...

    @property
    def before(self) -> SourceProgress:
        """The progress of the source before the batch is done."""
        ...

    @property
    def after(self) -> SourceProgress:
        """The progress of the source after it."""
        ...

    @property
    def properties(self) -> Mapping[str, str]:
        """The commit metadata for the batch's snapshot."""
        ...


B = TypeVar("B", bound=PlannedBatch)


def check_planned(batch: B | None, batch_id: int, folder: Path) -> B:
    """Returns a batch that must be planned. Pure.

    Args:
        batch: What its log says; None: there is none.
        batch_id: The batch.
        folder: Where its log should be, for people.

    Raises:
        DataCorrupted: It is not planned.
    """
    if batch is None:
        raise DataCorrupted(f"The checkpoint {folder} has no log of batch {batch_id}: it was changed. Restore it.")
    return batch
