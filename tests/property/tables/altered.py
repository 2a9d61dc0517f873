"""A random table whose columns change between its commits, and which is compacted, tagged and rolled back besides."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

import pyarrow as pa
import pyarrow.types as pt

from lakelog.format.types.column_changes import (
    AddColumn,
    AllowNull,
    ColumnChange,
    CommentColumn,
    DropColumn,
    MoveColumn,
    RenameColumn,
    SetDefault,
    WidenColumn,
)
from lakelog.format.types.widening import is_widening, keeps_bucket, keeps_encoding
from lakelog.sdk.catalog import Catalog
from tests.property.tables.altered_types import alter_inside, as_read, to_wider
from tests.property.tables.rolled_back import RolledBackHistory
from tests.support.random_tables.columns import ALL_TYPES, TableColumn
from tests.support.random_tables.conditions import Row
from tests.support.random_tables.model import Record

_NAMES = ("n1", "n 2", "ą", "N3", "with.dot", "x`y", "id", "value", "_1")

_Change: TypeAlias = tuple[ColumnChange, Callable[[], None]]
"""What the metastore is asked for, and what becomes of the model."""


class AlteredHistory(RolledBackHistory):
    """A history in which columns come and go, get other names, places and types.

    The model knows columns by the names of now, and rewrites its rows with each change. What snapshots showed stays.

    Args:
        catalog: Where the table is made.
        name: Its full name.
        seed: Decides everything.
    """

    def __init__(self, catalog: Catalog, name: str, seed: int) -> None:
        super().__init__(catalog, name, seed)
        self.catalog = catalog
        self.alterations = 0
        self._columns_at: list[list[TableColumn]] = []
        # The rows of each snapshot with the columns of now.
        self._present: list[list[Row]] = []

    def step(self) -> None:
        """One of a history's steps, and perhaps a change of columns."""
        super().step()
        self._note_states()
        if self.random.random() < 0.6:
            self.alter()

    def alter(self) -> None:
        """One change of the columns, in the product and in the model."""
        changes = [self._add] * 3 + [self._drop, self._rename, self._widen, self._alter_inside] * 2
        change = self.random.choice([*changes, self._move, self._describe])()
        if change is None:
            return
        request, apply = change
        self.table._context.metastore.alter_columns(self.table.uuid, changes=[request])
        self.table._writes.attempts_ahead.forget(self.table.uuid)
        self.table = self.catalog.table(self.table.name)
        self.alterations += 1
        apply()
        self.by_name = {column.name: column for column in self.columns}
        self.options = dict(self.table.options)

    def _add(self) -> _Change | None:
        random = self.random
        taken = {each.casefold() for each in self.by_name}
        free = [name for name in _NAMES if name.casefold() not in taken]
        if not free or len(self.columns) > 12:
            return None
        column_type = random.choice(ALL_TYPES)
        has_default = not pt.is_nested(column_type.data_type) and random.random() < 0.6
        default = as_read(column_type.draw(random), column_type) if has_default else None
        column = TableColumn(random.choice(free), column_type, not has_default or random.random() < 0.5)
        after = random.choice([None, *self.by_name])
        first = after is None and random.random() < 0.3

        def apply() -> None:
            place = 0 if first else len(self.columns) if after is None else 1 + self._place(after)
            self.columns.insert(place, column)
            if has_default:
                self.defaults[column.name] = default
            self._rewrite(lambda row: row | {column.name: default})

        path = [column.name]
        return AddColumn(path, column_type.data_type, column.nullable, "", default, first, after), apply

    def _drop(self) -> _Change | None:
        used = {*self.key, *self.partition_by, *self.sequence, *self.bucket_key, self.kind_column, self._ignored}
        names = [name for name in self.by_name if name not in used]
        others = [name for name in self.by_name if name not in self.partition_by]
        if not names or len(others) < 2:
            return None
        name = self.random.choice(names)

        def apply() -> None:
            del self.columns[self._place(name)]
            self.defaults.pop(name, None)
            self._rewrite(lambda row: {each: value for each, value in row.items() if each != name})

        return DropColumn([name]), apply

    def _rename(self) -> _Change | None:
        name = self.random.choice([*self.by_name])
        taken = {each.casefold() for each in self.by_name if each != name}
        free = [each for each in _NAMES if each.casefold() not in taken and each != name]
        if not free:
            return None
        new = self.random.choice(free)

        def renamed(names: list[str]) -> list[str]:
            return [new if each == name else each for each in names]

        def apply() -> None:
            self._replace(name, name=new)
            self.key, self.partition_by, self.own_key = map(renamed, (self.key, self.partition_by, self.own_key))
            self.sequence, self.bucket_key = renamed(self.sequence), renamed(self.bucket_key)
            self.kind_column = new if self.kind_column == name else self.kind_column
            for values in (self.pools, self.defaults):
                if name in values:
                    values[new] = values.pop(name)
            self.model.key, self.model.partition_by = tuple(self.key), tuple(self.partition_by)
            self.model.sequence = tuple(self.sequence)
            self.model.rowkind_field = self.kind_column or None
            self._rewrite(lambda row: {new if each == name else each: value for each, value in row.items()})

        return RenameColumn([name], new), apply

    def _widen(self) -> _Change | None:
        ordered, hashed = {*self.key, *self.partition_by}, self.bucket_key or self._hashed_key()
        possible = [
            (column, wider)
            for column in self.columns
            for wider in ALL_TYPES
            for old, new in [(column.type.data_type, wider.data_type)]
            if not pt.is_nested(old) and not pt.is_nested(new) and is_widening(old, new)
            if column.name not in ordered or keeps_encoding(old, new)
            if column.name not in hashed or keeps_bucket(old, new)
        ]
        if not possible:
            return None
        column, wider = self.random.choice(possible)
        name, widened = column.name, to_wider(column.type.data_type, wider.data_type)

        def apply() -> None:
            self._replace(name, type=wider)
            if name in self.pools:
                self.pools[name] = [widened(value) for value in self.pools[name]]
            if name in self.defaults:
                self.defaults[name] = widened(self.defaults[name])
            self._rewrite(lambda row: row | {name: widened(row[name])})

        return WidenColumn([name], wider.data_type), apply

    def _alter_inside(self) -> _Change | None:
        """A change of a field inside of a column."""
        nested = [column for column in self.columns if pt.is_nested(column.type.data_type)]
        if not nested:
            return None
        column = self.random.choice(nested)
        altered = alter_inside(column.type, [column.name], self.random)
        if altered is None:
            return None

        def apply() -> None:
            self._replace(column.name, type=altered.type)
            self._rewrite(lambda row: row | {column.name: altered.convert(row[column.name])})

        return altered.change, apply

    def _move(self) -> _Change:
        name = self.random.choice([*self.by_name])
        after = self.random.choice([None, *(each for each in self.by_name if each != name)])

        def apply() -> None:
            column = self.columns.pop(self._place(name))
            self.columns.insert(0 if after is None else 1 + self._place(after), column)

        return MoveColumn([name], first=after is None, after=after), apply

    def _describe(self) -> _Change:
        """What says something of a column, and changes no row that is there."""
        column = self.random.choice(self.columns)
        if not column.nullable and column.name not in self.key:
            return AllowNull([column.name]), lambda: self._replace(column.name, nullable=True)
        if column.name in self.defaults:
            default = as_read(column.type.draw(self.random), column.type)
            return SetDefault([column.name], default), lambda: self.defaults.update({column.name: default})
        return CommentColumn([column.name], "ż"), lambda: None

    # The model

    def always_given(self) -> set[str]:
        # Rows that leave a column out store its default, and keys to delete need a sequence.
        return {*self.defaults, *self.sequence}

    @property
    def _ignored(self) -> str:
        return self.options.get("changelog-producer.row-deduplicate-ignore-fields", "")

    def _hashed_key(self) -> list[str]:
        named = self.options.get("bucket-key")
        return self.own_key if named is None else named.split(",")

    def _place(self, name: str) -> int:
        return [column.name for column in self.columns].index(name)

    def _replace(self, name: str, /, **fields: object) -> None:
        place = self._place(name)
        self.columns[place] = dataclasses.replace(self.columns[place], **fields)  # type: ignore[arg-type]

    def _rewrite(self, change: Callable[[Row], Row]) -> None:
        def changed(records: list[Record]) -> list[Record]:
            return [dataclasses.replace(record, row=change(record.row)) for record in records]

        self.model.records = changed(self.model.records)
        self._states = [changed(records) for records in self._states]
        self._present = [[change(row) for row in rows] for rows in self._present]
        for snapshot in self.model.snapshots:
            snapshot.delta, snapshot.records = changed(snapshot.delta), changed(snapshot.records)

    def _note_states(self) -> None:
        super()._note_states()
        for snapshot in self.model.snapshots[len(self._present) :]:
            self._present.append(snapshot.rows)
            self._columns_at.append(list(self.columns))

    def rows_now(self, snapshot_id: int) -> list[Row]:
        return self._present[snapshot_id - 1]

    def check_read(self, snapshot_id: int | None) -> None:
        # A read of a state has the columns of that time.
        with self._columns_of(snapshot_id):
            super().check_read(snapshot_id)

    @contextmanager
    def _columns_of(self, snapshot_id: int | None) -> Iterator[None]:
        now = self.columns, self.by_name
        if snapshot_id is not None:
            self.columns = self._columns_at[snapshot_id - 1]
            self.by_name = {column.name: column for column in self.columns}
        try:
            yield
        finally:
            self.columns, self.by_name = now

    def check_columns_of_then(self) -> None:
        """Each snapshot has the columns that the table had when it was made."""
        for number, columns in enumerate(self._columns_at, 1):
            wanted = pa.schema([column.field for column in columns])
            found = self.table.scan(snapshot_id=number).schema
            assert [field.remove_metadata().type for field in found] == wanted.types
            assert found.names == wanted.names

    def forget_then(self) -> None:
        """From here on the model knows snapshots with the columns of now only, as reads of what changed show them."""
        for snapshot, rows in zip(self.model.snapshots, self._present, strict=True):
            snapshot.rows = rows
