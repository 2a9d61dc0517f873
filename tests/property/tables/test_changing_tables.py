"""Any history of alterations, writes, rows by condition, compactions and rollbacks shows what dicts by field id show.

LAKELOG_PROPERTY_EXAMPLES and LAKELOG_PROPERTY_STEPS make it larger than CI has time for.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import lakelog
from lakelog.errors import CommitConflict
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.sdk.transaction import Transaction
from tests.property.tables.altered_model import AlteredModel, Column, Row
from tests.support.tables.attaching import attach_all

EXAMPLES = int(os.environ.get("LAKELOG_PROPERTY_EXAMPLES", "15"))
STEPS = int(os.environ.get("LAKELOG_PROPERTY_STEPS", "25"))

_numbers = itertools.count()

keys = st.integers(0, 6)
numbers = st.none() | st.integers(-2, 3)
names = st.sampled_from(["a", "b", "c", "d", "A b", "é"])
types = st.sampled_from(["INT", "STRING", "DECIMAL(5, 1)"])
rows_drawn = st.lists(st.tuples(keys, st.lists(numbers, min_size=8, max_size=8)), min_size=2, max_size=6)


def to_value(column: Column, number: int | None) -> Any:
    """A value of a column's type that stands for a small number."""
    return None if number is None else column.convert(number)


class ChangingTables(RuleBasedStateMachine):
    """One table with a key or without, its model, and a transaction that stays open over alterations."""

    catalog: Catalog

    @initialize(
        keyed=st.booleans(),
        buckets=st.integers(1, 2),
        producer=st.sampled_from(["none", "none", "lookup"]),
    )
    def make_table(self, keyed: bool, buckets: int, producer: str) -> None:
        self.keyed = keyed
        options = {"bucket": str(buckets), "changelog-producer": producer} if keyed else {}
        name = f"random.changing{next(_numbers)}"
        columns = [
            Column(0, "k", "INT"),
            Column(1, "a", "INT"),
            Column(2, "b", "STRING"),
            Column(3, "c", "DECIMAL(5, 1)"),
        ]
        schema = pa.schema([pa.field(each.name, each.arrow_type, nullable=each.number != 0) for each in columns])
        self.table: Table = self.catalog.create_table(name, schema, primary_key=["k"] if keyed else [], options=options)
        self.model = AlteredModel(columns, keyed)
        self.open: tuple[Transaction, list[Row], list[Column]] | None = None

    # What changes columns

    @rule(name=names, kind=types, default=numbers, first=st.booleans())
    def add(self, name: str, kind: str, default: int | None, first: bool) -> None:
        if name in self.model.names:
            return
        column = self.model.add(name, kind, default, first=first)
        change = lakelog.AddColumn([name], kind, default=to_value(column, default), first=first)
        self.table.alter(columns=[change])

    @precondition(lambda self: len(self.model.columns) > 1)
    @rule(place=st.integers(1, 9))
    def drop(self, place: int) -> None:
        column = self._pick(place)
        self.model.drop(column)
        self.table.alter(columns=[lakelog.DropColumn([column.name])])

    @rule(place=st.integers(0, 9), name=names)
    def rename(self, place: int, name: str) -> None:
        column = self.model.columns[place % len(self.model.columns)]
        if name.casefold() in [each.casefold() for each in self.model.names]:
            return
        self.table.alter(columns=[lakelog.RenameColumn([column.name], name)])
        self.model.rename(column, name)

    @precondition(lambda self: self.model.widenable())
    @rule(place=st.integers(0, 9))
    def widen(self, place: int) -> None:
        columns = self.model.widenable()
        column = columns[place % len(columns)]
        self.model.widen(column)
        self.table.alter(columns=[lakelog.WidenColumn([column.name], self.model.by_id(column.number).kind)])

    @rule(place=st.integers(0, 9))
    def move_first(self, place: int) -> None:
        column = self.model.columns[place % len(self.model.columns)]
        self.model.move_first(column)
        self.table.alter(columns=[lakelog.MoveColumn([column.name], first=True)])

    @precondition(lambda self: len(self.model.columns) > 1)
    @rule(place=st.integers(1, 9), default=numbers)
    def set_default(self, place: int, default: int | None) -> None:
        column = self._pick(place)
        if default is None and column.written is None:
            return
        self.table.alter(columns=[lakelog.SetDefault([column.name], to_value(column, default))])
        self.model.set_default(column, default)

    # What changes rows

    @rule(drawn=rows_drawn, leave_out=st.booleans())
    def write(self, drawn: Sequence[tuple[int, list[int | None]]], leave_out: bool) -> None:
        columns = [each for each in self.model.columns if not (leave_out and each.written is not None)]
        self._commit(lambda: self._put(self.table, self._to_table(drawn, columns)), drawn, columns)

    @precondition(lambda self: self.open is None)
    @rule(drawn=rows_drawn)
    def begin(self, drawn: Sequence[tuple[int, list[int | None]]]) -> None:
        """Rows of a writer that commits later, perhaps under other columns."""
        columns = list(self.model.columns)
        transaction = self.catalog.transaction()
        self._put(transaction.table(self.table.name), self._to_table(drawn, columns))
        self.open = (transaction, self.model.to_rows(drawn, columns), columns)

    @precondition(lambda self: self.open is not None)
    @rule()
    def commit_late(self) -> None:
        assert self.open is not None
        (transaction, rows, columns), self.open = self.open, None
        if self.model.loses(columns):
            with pytest.raises(CommitConflict) as refused:
                transaction.commit()
            assert refused.value.reason == "SCHEMA_CHANGED"
            return
        result = transaction.commit()
        self.model.put(self.model.complete(rows))
        self._note(next(iter(result.snapshot_ids.values())))

    @precondition(lambda self: self.keyed)
    @rule(found=st.lists(keys, min_size=1, max_size=3))
    def delete(self, found: list[int]) -> None:
        key = self.model.by_id(0)
        result = self.table.delete(pa.table({key.name: pa.array(found, key.arrow_type)}))
        self.model.remove(lambda row: row[0] in found)
        self._note(result.snapshot_id)

    @rule(place=st.integers(0, 9), number=st.integers(-2, 3))
    def delete_where(self, place: int, number: int) -> None:
        column = self.model.columns[place % len(self.model.columns)]
        value = column.convert(number)
        result = self.table.delete_where(f"{column.quoted} = :value", params={"value": value})
        gone = self.model.remove(lambda row: row[column.number] == value)
        assert result.deleted_rows == gone
        self._note(result.snapshot_id)

    @precondition(lambda self: len(self.model.columns) > 1)
    @rule(place=st.integers(1, 9), least=keys, number=numbers)
    def update(self, place: int, least: int, number: int | None) -> None:
        column, key = self._pick(place), self.model.by_id(0)
        value = to_value(column, number)
        given = lakelog.literal(value) if isinstance(value, str) else value
        result = self.table.update({column.name: given}, f"{key.quoted} >= {least}")
        assert result.updated_rows == self.model.update(lambda row: row[0] >= least, column, value)
        self._note(result.snapshot_id)

    @rule(drawn=rows_drawn)
    def merge(self, drawn: Sequence[tuple[int, list[int | None]]]) -> None:
        """Matched rows below 3 go, other matched ones are replaced, and the rest is added."""
        by_key = {key: (key, values) for key, values in drawn}
        columns, key = list(self.model.columns), self.model.by_id(0)
        source = self._to_table(list(by_key.values()), columns)
        result = self.table.merge(
            source,
            [key.name],
            lakelog.when_matched(f"target.{key.quoted} < 3").delete(),
            lakelog.when_matched().update_all(),
            lakelog.when_not_matched().insert_all(),
        )
        self.model.merge(self.model.to_rows(list(by_key.values()), columns))
        self._note(result.snapshot_id)

    @rule(drawn=rows_drawn)
    def overwrite(self, drawn: Sequence[tuple[int, list[int | None]]]) -> None:
        columns = list(self.model.columns)
        result = self.table.overwrite(self._to_table(drawn, columns))
        self.model.remove(lambda row: True)
        self.model.put(self.model.to_rows(drawn, columns))
        self._note(result.snapshot_id)

    @precondition(lambda self: self.model.states)
    @rule(data=st.data())
    def roll_back(self, data: st.DataObject) -> None:
        target = data.draw(st.sampled_from(sorted(self.model.states)))
        result = self.table.rollback_to(target)
        self.model.roll_back(target)
        self._note(result.snapshot_id)

    @rule(full=st.booleans())
    def compact(self, full: bool) -> None:
        self.table.compact(full=full, wait=False)
        attach_all(self.catalog.metastore, find_tables=lambda: [self.table.uuid])

    # What is read

    @precondition(lambda self: self.model.states)
    @rule(data=st.data())
    def travel(self, data: st.DataObject) -> None:
        snapshot_id = data.draw(st.sampled_from(sorted(self.model.states)))
        columns, rows = self.model.states[snapshot_id]
        self._compare(self.table.scan(snapshot_id=snapshot_id).to_arrow(), columns, rows)

    @rule(place=st.integers(0, 9), number=st.integers(-2, 3), wanted=st.integers(0, 9))
    def search(self, place: int, number: int, wanted: int) -> None:
        columns = self.model.columns
        column, shown = columns[place % len(columns)], columns[wanted % len(columns)]
        value = column.convert(number)
        scan = self.table.scan([shown.name], f"{column.quoted} >= :value", params={"value": value})
        rows = [row for row in self.model.rows if row[column.number] is not None and row[column.number] >= value]
        self._compare(scan.to_arrow(), [shown], rows)
        assert scan.count() == len(rows)

    @precondition(lambda self: self.keyed and self.model.states)
    @rule(data=st.data())
    def follow(self, data: st.DataObject) -> None:
        """The changes between two states lead from one to the other, in the columns of now."""
        last = max(self.model.states)
        first = data.draw(st.sampled_from(sorted(self.model.states)))
        changed = self.table.changes(first, last)
        if changed.skipped_snapshots:
            return
        key = self.model.by_id(0).name
        state = {row[0]: self.model.shown(row) for row in self.model.in_columns_of_now(first)}
        for row in changed.to_arrow().to_pylist():
            kind = row.pop("_row_kind")
            row.pop("_snapshot_id")
            if kind in ("-U", "-D"):
                assert state.pop(row[key]) == row
            else:
                state[row[key]] = row
        assert state == {row[0]: self.model.shown(row) for row in self.model.rows}

    @invariant()
    def all_is_there(self) -> None:
        if not hasattr(self, "table"):
            return
        self._compare(self.table.scan().to_arrow(), self.model.columns, self.model.rows)
        assert self.table.scan().count() == len(self.model.rows)
        # Each column's values find their rows, whatever the files' statistics were written for.
        for column in self.model.columns if self.model.rows else ():
            value = self.model.rows[-1][column.number]
            condition = f"{column.quoted} = :value" if value is not None else f"{column.quoted} IS NULL"
            found = self.table.scan(filter=condition, params={"value": value} if value is not None else None)
            assert found.count() == sum(row[column.number] == value for row in self.model.rows)

    def teardown(self) -> None:
        if (waiting := getattr(self, "open", None)) is not None:
            waiting[0].abandon()
        if hasattr(self, "table"):
            self.catalog.drop_table(self.table.name)

    # How

    def _pick(self, place: int) -> Column:
        """A column that is not the key."""
        others = [each for each in self.model.columns if each.number != 0]
        return others[place % len(others)]

    def _to_table(self, drawn: Sequence[tuple[int, list[int | None]]], columns: Sequence[Column]) -> pa.Table:
        rows = self.model.to_rows(drawn, columns)
        return pa.table(
            [pa.array([row[each.number] for row in rows], each.arrow_type) for each in columns],
            names=[each.name for each in columns],
        )

    def _put(self, table: Any, rows: pa.Table) -> Any:
        return table.upsert(rows) if self.keyed else table.append(rows)

    def _commit(
        self, write: Callable[[], Any], drawn: Sequence[tuple[int, list[int | None]]], columns: Sequence[Column]
    ) -> None:
        result = write()
        self.model.put(self.model.complete(self.model.to_rows(drawn, columns), left_out=True))
        self._note(result.snapshot_id)

    def _note(self, snapshot_id: int | None) -> None:
        if snapshot_id is not None:
            self.model.note(snapshot_id)

    def _compare(self, found: pa.Table, columns: Sequence[Column], rows: Sequence[Row]) -> None:
        assert found.schema.names == [each.name for each in columns]
        assert found.schema.types == [each.arrow_type for each in columns]
        wanted = [tuple(row[each.number] for each in columns) for row in rows]
        assert sorted(map(repr, zip(*found.to_pydict().values(), strict=True))) == sorted(map(repr, wanted))


@pytest.mark.timeout(600)
def test_any_history_of_a_changing_table_shows_what_dicts_show(memory_catalog: Catalog) -> None:
    ChangingTables.catalog = memory_catalog
    run_state_machine_as_test(
        ChangingTables,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            derandomize="LAKELOG_PROPERTY_EXAMPLES" not in os.environ,
            suppress_health_check=list(HealthCheck),
        ),
    )
