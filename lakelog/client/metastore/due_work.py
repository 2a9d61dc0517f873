"""Work that is due, for dedicated compaction and for people, and an overview: a part of `Metastore`."""

from __future__ import annotations

from typing import Protocol

from lakelog.format.jobs.overview import Overview
from lakelog.format.jobs.queue import JobQueue, PlannedTable


class DueWork(Protocol):
    """Which work is due."""

    def plan_compactions(self, table_uuid: str, after: int = 0) -> PlannedTable:
        """Makes compactions of a table due as its commits need them, write-only or not: for dedicated compaction.

        Args:
            table_uuid: The table.
            after: The value from the last answer; 0: there was none, and the whole table is examined.

        Raises:
            NotFound: The table does not exist, or no longer.
            InvalidArgument: The request is malformed.
        """
        ...

    def describe_queue(self) -> list[JobQueue]:
        """The number of jobs that are not done, by kind."""
        ...

    def get_overview(self) -> Overview:
        """Sums over all tables that the caller may see, and what waits. Cheap: a sum over the tables' heads."""
        ...
