"""What a table of any schema holds, as lists and dicts: semantics 1, 2.1 and 7 in the simplest form there is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.random_tables.columns import order

Row = dict[str, Any]
RETRACTS = ("-U", "-D")


@dataclass(frozen=True)
class Record:
    """A row as it is written, and when it was committed."""

    row: Row
    kind: str = "+I"
    time_ms: int = 0


@dataclass
class SnapshotModel:
    """What a snapshot is and holds; its commit's records as written and merged, and the keys they touch."""

    kind: str
    rows: list[Row]
    delta: list[Record]
    records: list[Record]
    touched: set[str]
    writer: str | None
    identifier: int
    watermark: int | None
    properties: dict[str, str]


@dataclass
class TableModel:
    """One table.

    Args:
        key: Names of the primary key's columns; empty for an append table.
        partition_by: Names of the partition columns.
        sequence: Names of the columns of `sequence.field`.
        descending: Its sort order.
        ignored: Kinds of rows that the options drop.
        rowkind_field: Name of that column, if any.
        keeps_first: The first row of a key stays.
        retention_ms: For how long a delete goes on beating rows of lower sequence; None: longer than anything lasts.
    """

    key: tuple[str, ...]
    partition_by: tuple[str, ...]
    sequence: tuple[str, ...]
    descending: bool
    ignored: tuple[str, ...]
    rowkind_field: str | None
    keeps_first: bool = False
    retention_ms: int | None = None
    records: list[Record] = field(default_factory=list)
    snapshots: list[SnapshotModel] = field(default_factory=list)
    done: dict[str, dict[int, int | None]] = field(default_factory=dict)

    def rows(self) -> list[Row]:
        return [record.row for record in self.records if record.kind not in RETRACTS]

    def kept(self, records: Sequence[Record]) -> list[Record]:
        """The records that the options leave."""
        return [record for record in records if record.kind not in self.ignored]

    def key_of(self, row: Row) -> str:
        """What tells a row's key from others."""
        return repr([row[name] for name in self.key])

    def merged(self, records: Sequence[Record]) -> list[Record]:
        """One record a key, in no order; all of them without a key."""
        if not self.key:
            return list(records)
        last: dict[str, Record] = {}
        for record in records:
            key = self.key_of(record.row)
            current = last.get(key)
            if current is None or not (self.keeps_first or self._is_beaten(record, current)):
                last[key] = record
        return list(last.values())

    def commit(
        self,
        records: Sequence[Record],
        removed: Callable[[Row], bool] | None,
        snapshot_id: int | None,
        *,
        writer: str | None,
        identifier: int,
        watermark: int | None,
        properties: Mapping[str, str],
        time_ms: int = 0,
    ) -> None:
        """Takes a commit; what a snapshot must come of is the caller's to check."""
        if writer is not None:
            self.done.setdefault(writer, {})[identifier] = snapshot_id
        if snapshot_id is None:
            return
        assert snapshot_id == len(self.snapshots) + 1, "snapshots are numbered one after the other"
        if removed is not None:
            self.records = [record for record in self.records if not removed(record.row)]
        records = [dataclasses.replace(record, time_ms=time_ms) for record in records]
        self.records = self.merged([*self.records, *records])
        before = self.snapshots[-1].watermark if self.snapshots else None
        marks = [mark for mark in (before, watermark) if mark is not None]
        self.snapshots.append(
            SnapshotModel(
                "APPEND" if removed is None else "OVERWRITE",
                self.rows(),
                self.merged(records) if removed is None else [],
                list(records),
                {self.key_of(each.row) for each in records},
                writer,
                identifier,
                max(marks, default=None),
                dict(properties),
            )
        )

    def _is_beaten(self, record: Record, current: Record) -> bool:
        age_ms = record.time_ms - current.time_ms
        if current.kind in RETRACTS and self.retention_ms is not None and age_ms > self.retention_ms:
            return False
        return self._is_below(record.row, current.row)

    def _is_below(self, row: Row, current: Row) -> bool:
        for name in self.sequence:
            new, old = row[name], current[name]
            if new is None or old is None:
                if (new is None) != (old is None):
                    return new is None
                continue
            if order(new) != order(old):
                return bool((order(new) < order(old)) != self.descending)
        return False
