"""Histories of compacted tables into which rows come late."""

from __future__ import annotations

import dataclasses

import pyarrow as pa

from lakelog.clock import SystemClock
from lakelog.sdk.catalog import Catalog
from tests.property.tables.compacted import CompactedHistory
from tests.support.random_tables.columns import ALL_TYPES, TableColumn

RETENTION_MS = 10


class SteppedClock(SystemClock):
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.at_ms = 1_000_000

    def now_ms(self) -> int:
        return self.at_ms


class LateHistory(CompactedHistory):
    """One of a table with a sequence column of few values, whose deletes are over after some commits.

    Without the producer `lookup`: a writer that looks old rows up does not know when its commit will be, and tells a
    late row by the time of its base.
    """

    keyed_share = 1.0
    producers = ("none", "none", "input")

    def __init__(self, catalog: Catalog, name: str, seed: int, clock: SteppedClock) -> None:
        self._clock = clock
        super().__init__(catalog, name, seed)
        self.model.retention_ms = RETENTION_MS

    def now_ms(self) -> int:
        return self._clock.at_ms

    def step(self) -> None:
        self._clock.at_ms += self.random.choice((0, 1, 3, 6, RETENTION_MS + 1))
        super().step()

    def _draw_columns(self) -> None:
        while True:
            super()._draw_columns()
            if self.sequence and not self.kind_column:
                break
        kept = [column for column in self.columns if column.name not in self.sequence]
        self.sequence = self.sequence[:1]
        column_type = next(each for each in ALL_TYPES if each.data_type == pa.int8())
        few = dataclasses.replace(column_type, draw=lambda random: random.randrange(5))
        self.columns = [*kept, TableColumn(self.sequence[0], few, True)]
        self.by_name = {column.name: column for column in self.columns}

    def _draw_options(self) -> None:
        super()._draw_options()
        self.options["sequence.delete-retention"] = f"{RETENTION_MS} ms"
