"""The progress of a source, and the input of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


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
