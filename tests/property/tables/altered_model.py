"""What a table with changing columns holds, as dicts by the numbers of columns: semantics 7.6 in the simplest form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import pyarrow as pa

from lakelog.format.types.sql_types import from_sql_type

Row = dict[int, Any]
"""Values by the columns' numbers."""

_WIDER = {"INT": "BIGINT", "DECIMAL(5, 1)": "DECIMAL(9, 3)"}


@dataclass(frozen=True)
class Column:
    """A column: its number never changes; `initial` and `written` are its defaults, as numbers."""

    number: int
    name: str
    kind: str
    initial: int | None = None
    written: int | None = None

    @property
    def arrow_type(self) -> pa.DataType:
        return from_sql_type(self.kind)

    @property
    def quoted(self) -> str:
        return f"`{self.name}`"

    def convert(self, number: int) -> Any:
        """The value of this column's type that stands for a number."""
        if self.kind == "STRING":
            return f"t{number}"
        if self.kind.startswith("DECIMAL"):
            return Decimal(number).quantize(Decimal(1).scaleb(-self.arrow_type.scale))
        return number


class AlteredModel:
    """A table.

    Args:
        columns: Its columns; number 0 is the key.
        keyed: Whether a key has one row.
    """

    def __init__(self, columns: Sequence[Column], keyed: bool) -> None:
        self.columns = list(columns)
        self.keyed = keyed
        self.rows: list[Row] = []
        self.states: dict[int, tuple[list[Column], list[Row]]] = {}
        self._next = len(columns)
        # All columns that ever were, as they are or were last.
        self._known: dict[int, Column] = {each.number: each for each in columns}

    @property
    def names(self) -> list[str]:
        return [each.name for each in self.columns]

    def by_id(self, number: int) -> Column:
        return next(each for each in self.columns if each.number == number)

    # Columns

    def add(self, name: str, kind: str, default: int | None, *, first: bool) -> Column:
        column = Column(self._next, name, kind, default, default)
        self._next += 1
        self._known[column.number] = column
        self.columns.insert(0 if first else len(self.columns), column)
        self._fill(self.rows)
        return column

    def drop(self, column: Column) -> None:
        self.columns.remove(column)

    def rename(self, column: Column, name: str) -> None:
        self._replace(column, replace(column, name=name))

    def widenable(self) -> list[Column]:
        """Columns that have a wider type; the key stays, as its rows would belong to other buckets."""
        return [each for each in self.columns if each.number != 0 and each.kind in _WIDER]

    def widen(self, column: Column) -> None:
        self._replace(column, replace(column, kind=_WIDER[column.kind]))
        self._fill(self.rows)

    def move_first(self, column: Column) -> None:
        self.columns.remove(column)
        self.columns.insert(0, column)

    def set_default(self, column: Column, default: int | None) -> None:
        self._replace(column, replace(column, written=default))

    def _replace(self, old: Column, new: Column) -> None:
        self.columns[self.columns.index(old)] = new
        self._known[new.number] = new

    def loses(self, columns: Sequence[Column]) -> bool:
        """Whether rows written under earlier columns do not fit any more."""
        now = {each.number for each in self.columns}
        then = {each.number for each in columns}
        added = [each for each in self.columns if each.number not in then]
        return not then <= now or any(each.initial != each.written for each in added)

    # Rows

    def to_rows(self, drawn: Sequence[tuple[int, list[int | None]]], columns: Sequence[Column]) -> list[Row]:
        """Rows of drawn numbers: the key, and a number for each other column."""
        rows = []
        for key, numbers in drawn:
            row: Row = {}
            for place, column in enumerate(columns):
                number = key if column.number == 0 else numbers[place % len(numbers)]
                row[column.number] = None if number is None else column.convert(number)
            rows.append(row)
        return rows

    def complete(self, rows: Sequence[Row], *, left_out: bool = False) -> list[Row]:
        """Rows with the columns that they lack: what writes store (`left_out`), or what older rows show."""
        done = []
        for row in rows:
            full = dict(row)
            for column in self.columns:
                default = column.written if left_out else column.initial
                if column.number not in full:
                    full[column.number] = None if default is None else column.convert(default)
            done.append(full)
        self._fill(done)
        return done

    def put(self, rows: Sequence[Row]) -> None:
        for row in rows:
            if self.keyed:
                key = row[0]
                self.rows = [other for other in self.rows if other[0] != key]
            self.rows.append(row)

    def remove(self, holds: Callable[[Row], bool]) -> int:
        before = len(self.rows)
        self.rows = [row for row in self.rows if not holds(row)]
        return before - len(self.rows)

    def update(self, holds: Callable[[Row], bool], column: Column, value: Any) -> int:
        changed = [row for row in self.rows if holds(row)]
        self.rows = [{**row, column.number: value} if holds(row) else row for row in self.rows]
        return len(changed)

    def merge(self, source: Sequence[Row]) -> None:
        """As `ChangingTables.merge` says."""
        by_key = {row[0]: row for row in source}
        there = {row[0] for row in self.rows}
        kept = [row for row in self.rows if row[0] not in by_key or row[0] >= 3]
        self.rows = [{**row, **by_key.get(row[0], {})} for row in kept]
        self.rows += [row for key, row in by_key.items() if key not in there]

    def note(self, snapshot_id: int) -> None:
        self.states[snapshot_id] = (list(self.columns), [dict(row) for row in self.rows])

    def roll_back(self, snapshot_id: int) -> None:
        self.rows = self.in_columns_of_now(snapshot_id)

    def in_columns_of_now(self, snapshot_id: int) -> list[Row]:
        """The rows of a state, as the columns of now show them."""
        return self.complete(self.states[snapshot_id][1])

    def shown(self, row: Mapping[int, Any]) -> dict[str, Any]:
        """A row by the names of now."""
        return {each.name: row[each.number] for each in self.columns}

    def _fill(self, rows: Sequence[Row]) -> None:
        """Gives rows the columns that were added, and values the scale of a wider type."""
        for row in rows:
            for column in self.columns:
                if column.number not in row:
                    row[column.number] = None if column.initial is None else column.convert(column.initial)
                elif isinstance(row[column.number], Decimal):
                    row[column.number] = row[column.number].quantize(Decimal(1).scaleb(-column.arrow_type.scale))
