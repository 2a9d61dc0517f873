"""How conformance cases are written: tables, steps and expected rows as short text, run by any driver.

A row is its values with `|` between them, `null` for NULL, and may begin with its kind: `+I 1|a`. Values are read by
the column's type.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Literal, Protocol

import pyarrow as pa

from lakelog.format.types.sql_types import from_sql_type

KINDS = ("+I", "-U", "+U", "-D")
KIND_COLUMN = "_row_kind"


@dataclass(frozen=True)
class TableSpec:
    """A table: `columns` as in `id INT NOT NULL, name STRING`; commas inside types are not split when in brackets."""

    columns: str
    key: tuple[str, ...] = ()
    partition: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def schema(self) -> pa.Schema:
        """The columns as an Arrow schema."""
        fields = []
        for text in re.split(r",\s*(?![^(<]*[)>])", self.columns):
            name, type_text = text.strip().split(" ", 1)
            bare = type_text.removesuffix(" NOT NULL")
            fields.append(pa.field(name, from_sql_type(bare), nullable=bare == type_text))
        return pa.schema(fields)

    def rows(self, lines: Sequence[str], columns: Sequence[str] | None = None) -> pa.Table:
        """Rows from text, with a kind column where one of them has a kind."""
        schema = self.schema if columns is None else pa.schema([self.schema.field(name) for name in columns])
        kinds, values = [], []
        for line in lines:
            kind, rest = (line[:2], line[3:]) if line.startswith(KINDS) else ("", line)
            kinds.append(kind)
            values.append(rest.split("|"))
        arrays = [
            pa.array([_value(row[i], column.type) for row in values], column.type) for i, column in enumerate(schema)
        ]
        # Nullable here: what is wrong with NULLs is for the product to say.
        data = pa.table(arrays, schema=pa.schema([column.with_nullable(True) for column in schema]))
        if any(kinds):
            data = data.append_column(KIND_COLUMN, pa.array([kind or "+I" for kind in kinds]))
        return data


def _value(text: str, data_type: pa.DataType) -> object:
    if text == "null":
        return None
    if pa.types.is_boolean(data_type):
        return text == "true"
    if pa.types.is_integer(data_type):
        return int(text)
    if pa.types.is_floating(data_type):
        return float(text)
    if pa.types.is_decimal(data_type):
        return Decimal(text)
    if pa.types.is_date(data_type):
        return dt.date.fromisoformat(text)
    if pa.types.is_timestamp(data_type):
        return dt.datetime.fromisoformat(text)
    if pa.types.is_binary(data_type):
        return text.encode()
    return text


@dataclass(frozen=True)
class Step:
    """One commit: what is called, with which rows, and what must come of it.

    Args:
        call: The SDK's name of the call.
        rows: As text.
        partition: For an overwrite.
        columns: The columns that the rows have; None: all.
        error: A regular expression that the error must match; None: it must succeed.
        state: Of a rollback: the snapshot or tag; of a tag: its name; of `delete_where`: the condition.
        arguments: Further arguments of the call: writer, identifier, watermark ...
        snapshot: The snapshot id it must return; 0: none; None: not looked at.
        clauses: Of an alteration: what follows ALTER TABLE and the name, each by itself.
        table_columns: Of an alteration: the table's columns from then on, as of `TableSpec`; empty: as before.
    """

    call: Literal[
        "append", "upsert", "delete", "write", "overwrite", "delete_where", "compact", "rollback", "tag", "alter"
    ]
    rows: tuple[str, ...]
    partition: Mapping[str, object] | Literal["dynamic"] | None = None
    columns: tuple[str, ...] | None = None
    error: str | None = None
    state: int | str = 0
    arguments: Mapping[str, object] = field(default_factory=dict)
    snapshot: int | None = None
    clauses: tuple[str, ...] = ()
    table_columns: str = ""


@dataclass(frozen=True)
class Case:
    """A rule of the semantics, a history, and what reads must return.

    Args:
        rule: Number and name of the rule.
        table: The table.
        steps: The commits in order.
        expect: Rows in any order of the newest state; None: not looked at.
        at: Rows in any order, by snapshot id or tag.
        ordered: The rows must come in exactly this order.
        changes: What the snapshots changed, by snapshot id, with kinds; in any order, but for `-U` before its `+U`.
        ordered_changes: They must come in exactly this order.
        raw: What they wrote, by snapshot id, with kinds; in any order.
    """

    rule: str
    table: TableSpec
    steps: tuple[Step, ...]
    expect: tuple[str, ...] | None = None
    at: Mapping[int | str, tuple[str, ...]] = field(default_factory=dict)
    ordered: bool = False
    changes: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    ordered_changes: bool = False
    raw: Mapping[int, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """What a call returned."""

    snapshot_id: int | None
    already_applied: bool


class Driver(Protocol):
    """A way to use lakelog: the SDK, or Spark."""

    def create(self, table: TableSpec) -> str:
        """Makes a table under a name of its own and returns the name."""
        ...

    def apply(self, name: str, table: TableSpec, step: Step) -> Outcome:
        """Carries out a step."""
        ...

    def read(self, name: str, state: int | str | None = None) -> pa.Table:
        """The table's rows, now or at a snapshot or tag."""
        ...

    def changes(self, name: str, snapshot_id: int, *, raw: bool) -> pa.Table:
        """What a snapshot changed, with its kinds in the last column."""
        ...


def upsert(*rows: str, **more: object) -> Step:
    """A step that upserts."""
    return _step("upsert", rows, more)


def append(*rows: str, **more: object) -> Step:
    """A step that appends."""
    return _step("append", rows, more)


def delete(*rows: str, **more: object) -> Step:
    """A step that deletes by key."""
    return _step("delete", rows, more)


def write(*rows: str, **more: object) -> Step:
    """A step that writes rows with kinds."""
    return _step("write", rows, more)


def overwrite(*rows: str, partition: Mapping[str, object] | Literal["dynamic"] | None = None, **more: object) -> Step:
    """A step that overwrites."""
    return _step("overwrite", rows, {**more, "partition": partition})


def delete_where(condition: str, **more: object) -> Step:
    """A step that deletes rows by a condition."""
    return _step("delete_where", (), {**more, "state": condition})


def compact() -> Step:
    """A step that compacts everything; of one bucket it makes one snapshot."""
    return Step("compact", ())


def rollback(state: int | str, **more: object) -> Step:
    """A step that makes the state at a snapshot or tag the state again."""
    return _step("rollback", (), {**more, "state": state})


def tag(name: str, snapshot_id: int | None = None, **more: object) -> Step:
    """A step that gives a snapshot a name, the newest where none is named."""
    return _step("tag", (), {**more, "state": name, "snapshot_id": snapshot_id})


def alter(*clauses: str, columns: str = "", **more: object) -> Step:
    """A step that changes columns; `columns` are the table's from then on."""
    return _step("alter", (), {**more, "clauses": clauses, "table_columns": columns})


_STEP_FIELDS = ("partition", "columns", "error", "snapshot", "state", "clauses", "table_columns")


def _step(call: str, rows: tuple[str, ...], more: Mapping[str, object]) -> Step:
    own = {name: more[name] for name in _STEP_FIELDS if name in more}
    arguments = {name: value for name, value in more.items() if name not in _STEP_FIELDS}
    return Step(call, rows, arguments=arguments, **own)  # type: ignore[arg-type]


def as_lines(data: pa.Table) -> list[str]:
    """A table's rows as text; only for the few rows of a case."""
    return ["|".join(to_text(value) for value in row.values()) for row in data.to_pylist()]


def to_text(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, dt.datetime):
        return value.isoformat()
    return str(value)


def check(driver: Driver, case: Case) -> None:
    """Carries a case out and compares."""
    import pytest

    from lakelog.errors import LakelogError

    name, table = driver.create(case.table), case.table
    # The columns that the table had at each snapshot.
    tables: dict[int | str, TableSpec] = {}
    for step in case.steps:
        if step.error is not None:
            with pytest.raises(LakelogError, match=step.error):
                driver.apply(name, table, step)
            continue
        outcome = driver.apply(name, table, step)
        if step.snapshot is not None:
            assert (outcome.snapshot_id or 0) == step.snapshot, f"{case.rule}: {step}"
        table = replace(table, columns=step.table_columns or table.columns)
        if outcome.snapshot_id is not None:
            tables.setdefault(step.state if step.call == "tag" else outcome.snapshot_id, table)
    if case.expect is not None:
        _compare(case, table, driver.read(name), case.expect)
    for state, rows in case.at.items():
        _compare(case, tables.get(state, case.table), driver.read(name, state), rows)
    for snapshot_id, rows in case.changes.items():
        changed = driver.changes(name, snapshot_id, raw=False)
        _compare_changes(case, table, changed, rows, ordered=case.ordered_changes)
    for snapshot_id, rows in case.raw.items():
        _compare_changes(case, table, driver.changes(name, snapshot_id, raw=True), rows)


def _compare(case: Case, table: TableSpec, data: pa.Table, rows: Sequence[str]) -> None:
    # Through the types and back, so that `1.0` and `1` mean the same in a case's text.
    expected = as_lines(table.rows(rows)) if rows else []
    if rows:
        assert data.schema.names == table.schema.names, case.rule
        assert data.schema.types == table.schema.types, case.rule
    actual = as_lines(data)
    if not case.ordered:
        expected, actual = sorted(expected), sorted(actual)
    assert actual == expected, case.rule


def _compare_changes(
    case: Case, table: TableSpec, data: pa.Table, rows: Sequence[str], *, ordered: bool = False
) -> None:
    kinds = data.column(KIND_COLUMN).to_pylist()
    lines = as_lines(data.drop_columns([KIND_COLUMN]))
    actual = [f"{kind} {line}" for kind, line in zip(kinds, lines, strict=True)]
    plain = table.rows([line[3:] for line in rows]) if rows else pa.table({})
    expected = [f"{line[:2]} {again}" for line, again in zip(rows, as_lines(plain), strict=True)]
    if ordered:
        assert actual == expected, case.rule
        return
    assert sorted(actual) == sorted(expected), case.rule
    befores = [place for place, line in enumerate(actual) if line.startswith("-U")]
    assert all(actual[place + 1].startswith("+U") for place in befores), "an old row stands right before its new one"
