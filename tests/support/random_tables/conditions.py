"""Random filters over any columns, as SQL and as Python."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa

from tests.support.random_tables.columns import TableColumn, order, text_literal

Row = dict[str, Any]
Truth = bool | None


@dataclass(frozen=True)
class Condition:
    """A filter, what it says of a row, and the columns it looks at."""

    sql: str
    says: Callable[[Row], Truth]
    columns: frozenset[str] = frozenset()


EVERYTHING = Condition("TRUE", lambda row: True)


def draw_condition(random: Random, columns: Sequence[TableColumn], rows: Sequence[Row], depth: int = 2) -> Condition:
    """A condition whose constants are mostly values that the rows have."""
    choice = random.random()
    if depth and choice < 0.5:
        parts = [draw_condition(random, columns, rows, depth - 1) for _ in range(random.choice((1, 2, 2, 3)))]
        used = frozenset().union(*(part.columns for part in parts))
        if len(parts) == 1:
            return Condition(f"NOT ({parts[0].sql})", lambda row: _not(parts[0].says(row)), used)
        word, join = random.choice(((" AND ", _and), (" OR ", _or)))
        return Condition(word.join(f"({p.sql})" for p in parts), lambda row: join([p.says(row) for p in parts]), used)
    column = random.choice(columns)
    name, get = _operand(random, column)
    if choice > 0.9 or get is None or (column.type.literal is None and not pa.types.is_struct(column.type.data_type)):
        negated = random.random() < 0.5
        whole = column.name
        sql = f"{_quoted(whole)} IS {'NOT ' if negated else ''}NULL"
        return Condition(sql, lambda row: (row[whole] is None) != negated, frozenset({whole}))
    return dataclasses.replace(_on_values(random, column, name, get, rows), columns=frozenset({column.name}))


def _operand(random: Random, column: TableColumn) -> tuple[str, Callable[[Row], Any] | None]:
    if column.type.literal is not None:
        return _quoted(column.name), lambda row: row[column.name]
    children = _comparable_children(column.type.data_type) if pa.types.is_struct(column.type.data_type) else []
    if children:
        child = random.choice(children)
        return (
            f"{_quoted(column.name)}.{child}",
            lambda row: None if row[column.name] is None else row[column.name][child],
        )
    return "", None


def _comparable_children(data_type: pa.StructType) -> list[str]:
    """Numbers called `a` and texts called `b`; columns can change."""
    is_known = {"a": pa.types.is_integer, "b": pa.types.is_string}
    fields = [data_type.field(place) for place in range(data_type.num_fields)]
    return [field.name for field in fields if field.name in is_known and is_known[field.name](field.type)]


def _on_values(
    random: Random, column: TableColumn, name: str, get: Callable[[Row], Any], rows: Sequence[Row]
) -> Condition:
    def draw() -> Any:
        if rows and random.random() < 0.7:
            found = get(random.choice(rows))
            if found is not None:
                return found
        if column.type.literal is not None:
            return column.type.draw(random)
        return random.randrange(3) if name.endswith("a") else random.choice(("", "a", "b"))

    def literal(value: Any) -> str:
        if column.type.literal is not None:
            return column.type.literal(value)
        return str(value) if isinstance(value, int) else text_literal(value)

    form = random.randrange(6)
    negated = random.random() < 0.3
    no = "NOT " if negated else ""
    if form == 0:
        values = [draw() for _ in range(random.randrange(1, 5))]
        with_null = random.random() < 0.2
        listed = ", ".join([*map(literal, values), *(["NULL"] if with_null else [])])

        def is_in(row: Row) -> Truth:
            value = get(row)
            if value is None:
                return None
            found = any(order(value) == order(each) for each in values)
            return _flip(True if found else None if with_null else False, negated)

        return Condition(f"{name} {no}IN ({listed})", is_in)
    if form == 1:
        low, high = draw(), draw()

        def is_between(row: Row) -> Truth:
            value = get(row)
            return None if value is None else _flip(order(low) <= order(value) <= order(high), negated)

        return Condition(f"{name} {no}BETWEEN {literal(low)} AND {literal(high)}", is_between)
    if form == 2:
        return Condition(f"{name} IS {no}NULL", lambda row: (get(row) is None) != negated)
    example = draw()
    if form == 3 and isinstance(example, str):
        return _like(random, name, get, example, negated)
    operator = random.choice(("=", "<>", "<", "<=", ">", ">=", "<=>"))

    def compares(row: Row) -> Truth:
        value = get(row)
        if value is None:
            return False if operator == "<=>" else None
        a, b = order(value), order(example)
        answers = {"=": a == b, "<=>": a == b, "<>": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}
        return bool(answers[operator])

    return Condition(f"{name} {operator} {literal(example)}", compares)


def _like(random: Random, name: str, get: Callable[[Row], Any], example: str, negated: bool) -> Condition:
    cut = random.randrange(len(example) + 1)
    parts = random.choice(
        ([example[:cut], "%"], ["%", example[cut:]], ["%", example[:1], "%"], [example[:1], "_"], ["_", "%"], [example])
    )
    wild = {"%": ".*", "_": "."}
    pattern = re.compile(
        "".join(wild.get(part, re.escape(part)) if part in wild else re.escape(part) for part in parts), re.DOTALL
    )
    written = "".join(
        part if part in wild else part.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") for part in parts
    )

    def is_like(row: Row) -> Truth:
        value = get(row)
        return None if value is None else _flip(pattern.fullmatch(value) is not None, negated)

    # A text constant of SQL takes backslashes away once more.
    return Condition(f"{name} {'NOT ' if negated else ''}LIKE {text_literal(written)}", is_like)


def _flip(truth: Truth, negated: bool) -> Truth:
    return truth if truth is None else truth != negated


def _not(truth: Truth) -> Truth:
    return None if truth is None else not truth


def _and(truths: Sequence[Truth]) -> Truth:
    return False if False in truths else None if None in truths else True


def _or(truths: Sequence[Truth]) -> Truth:
    return True if True in truths else None if None in truths else False


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
