"""How far a source is read, and what a batch takes of it."""

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
        position: For people.
        taken: How much was read.
        lag: How much waits.
        partitions: Of a source of topics, how much waits in each of their partitions.
    """

    position: str
    taken: int
    lag: int
    partitions: tuple[PartitionLag, ...] = ()


class PlannedBatch(Protocol):
    """What a batch takes; the same however often it is looked at."""

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
        """Where the source stands until the batch is done."""
        ...

    @property
    def after(self) -> SourceProgress:
        """Where it stands from then on."""
        ...

    @property
    def properties(self) -> Mapping[str, str]:
        """What is remembered with the batch's snapshot."""
        ...
