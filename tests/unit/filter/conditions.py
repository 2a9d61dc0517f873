"""Random conditions over difficult rows, and what plain Python says of them.

The evaluator knows nothing of the product: a condition is made together with a function from a row to its truth.
"""

from __future__ import annotations

import datetime
import functools
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

Row = dict[str, Any]
Truth = bool | None

SCHEMA = pa.schema(
    [
        ("k", pa.int32()),
        ("n", pa.int64()),
        ("f", pa.float32()),
        ("x", pa.float64()),
        ("s", pa.string()),
        ("p", pa.decimal128(6, 2)),
        ("d", pa.date32()),
        ("b", pa.bool_()),
    ]
)
NAN = float("nan")
_EPOCH = datetime.date(1970, 1, 1)
_FLOAT32 = [0.0, -0.0, 0.5, 1.0, -1.5, NAN, float("inf"), float("-inf"), 16777216.0, 0.10000000149011612]


@dataclass(frozen=True)
class Condition:
    """An SQL condition and what it says of a row."""

    sql: str
    says: Callable[[Row], Truth]


POOLS: dict[str, list[Any]] = {
    "k": [None, *range(-4, 5), 2**31 - 1, -(2**31), 16777217],
    "n": [None, *range(-4, 5), 2**31, -(2**31) - 1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)],
    "f": [None, *_FLOAT32],
    "x": [None, *_FLOAT32, 0.1, 2.0**53, 1e300],
    "s": [None, "", "a", "b", "ab", "aab", "abż", "ż", "żb", "A%", "_", "a_b", "\\", "b\n", "𝄞", "𝄞a", "\U0010ffff"],
    "p": [None, *(Decimal(cents) / 100 for cents in (-300, -150, -1, 0, 1, 10, 50, 100, 200, 999999))],
    "d": [None, *(_EPOCH + datetime.timedelta(days) for days in range(-5, 6))],
    "b": [None, True, False],
}
"""Values of each column that differ in interesting ways."""


def many_rows(seed: int, count: int) -> list[Row]:
    """Rows made of the pools' values."""
    chooser = random.Random(seed)
    return [{name: chooser.choice(pool) for name, pool in POOLS.items()} for _ in range(count)]


def conditions(depth: int = 3) -> st.SearchStrategy[Condition]:
    return st.recursive(
        st.one_of(_on_one_column(), _column_pairs()),
        lambda inner: st.one_of(
            st.tuples(inner, inner).map(lambda pair: _and(*pair)),
            st.tuples(inner, inner).map(lambda pair: _or(*pair)),
            inner.map(lambda one: Condition(f"NOT ({one.sql})", lambda row: _not(one.says(row)))),
            inner.map(lambda one: Condition(f"({one.sql}) IS NULL", lambda row: one.says(row) is None)),
            inner.map(lambda one: Condition(f"({one.sql}) IS NOT TRUE", lambda row: one.says(row) is not True)),
        ),
        max_leaves=2**depth,
    )


def prunable_conditions() -> st.SearchStrategy[Condition]:
    """Conditions of which single columns say something: on both sides of an OR, and on one side of an AND at least."""
    return st.recursive(
        _on_one_column(),
        lambda inner: st.one_of(
            st.tuples(inner, inner).map(lambda pair: _or(*pair)),
            st.tuples(inner, conditions(1)).map(lambda pair: _and(*pair)),
            st.tuples(conditions(1), inner).map(lambda pair: _and(*pair)),
        ),
        max_leaves=8,
    )


def conditions_on(columns: tuple[str, ...]) -> st.SearchStrategy[Condition]:
    """Conjunctions of comparisons of these columns, as lookups by key have them."""
    chosen = st.sampled_from(columns).flatmap(lambda column: st.tuples(st.just(column), _constants(column)))
    single = st.one_of(st.builds(_compared, _OPERATORS, chosen, st.booleans()), _likes(), _sets())
    return st.lists(single, min_size=1, max_size=5).map(lambda parts: functools.reduce(_and, parts))


def order(value: Any) -> Any:
    """A key that sorts numbers as Spark does."""
    if isinstance(value, float) and math.isnan(value):
        return (1, Fraction(0))
    if isinstance(value, float) and math.isinf(value):
        return (0.5 if value > 0 else -0.5, Fraction(0))
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, datetime.date):
        return (value - _EPOCH).days
    return (0, Fraction(value))


def compare(operator: str, left: Any, right: Any) -> Truth:
    """Compares values that have been brought to one type."""
    if operator == "<=>":
        return left is None and right is None if left is None or right is None else order(left) == order(right)
    if left is None or right is None:
        return None
    a, b = order(left), order(right)
    return {"=": a == b, "<>": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[operator]


def together(left: Any, right: Any) -> tuple[Any, Any]:
    """What Spark makes of numbers of two types before it compares them: doubles as soon as one is floating-point."""
    if isinstance(left, float) or isinstance(right, float):
        return (None if left is None else float(left)), (None if right is None else float(right))
    return left, right


_OPERATORS = st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"])


NUMBERS: list[tuple[str, Any]] = [
    *((str(n), n) for n in (*range(-4, 5), 2**31, -(2**31) - 1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 2**63)),
    *((t, Decimal(t)) for t in ("0.5", "-1.50", "0.1", "1.0", "0.005", "-0.0", "9999.99", "123456789.5")),
    *((t, float(t.rstrip("D"))) for t in ("1e0", "-0.0D", "0.1D", "0.5e0", "9007199254740992D", "1e300", "1e400")),
    ("16777216D", 16777216.0),
    ("9223372036854775807D", 2.0**63),
    ("CAST('NaN' AS DOUBLE)", NAN),
    ("CAST('-Infinity' AS DOUBLE)", float("-inf")),
    ("CAST(0.1 AS FLOAT)", 0.10000000149011612),
    ("NULL", None),
]
"""Constants as they are written and what they mean."""


def _constants(column: str) -> st.SearchStrategy[tuple[str, Any]]:
    if column == "s":
        return st.one_of(
            st.sampled_from(["", "a", "b", "ab", "abż", "ż", "𝄞", "\U0010ffff"]).map(lambda t: (f"'{t}'", t)),
            st.just(("NULL", None)),
        )
    if column == "d":
        days = st.dates(datetime.date(1969, 12, 28), datetime.date(1970, 1, 4))
        return st.one_of(days.map(lambda d: (f"'{d}'", d)), days.map(lambda d: (f"DATE '{d}'", d)))
    if column == "b":
        return st.sampled_from([("true", True), ("false", False), ("NULL", None)])
    return st.sampled_from(NUMBERS)


_COLUMNS = st.sampled_from(SCHEMA.names)
_COLUMN_AND_CONSTANT = _COLUMNS.flatmap(lambda column: st.tuples(st.just(column), _constants(column)))


def _on_one_column() -> st.SearchStrategy[Condition]:
    return st.one_of(_comparisons(), _sets(), _betweens(), _nulls(), _likes(), _flags())


def _comparisons() -> st.SearchStrategy[Condition]:
    return st.builds(_compared, _OPERATORS, _COLUMN_AND_CONSTANT, st.booleans())


def _compared(operator: str, chosen: tuple[str, tuple[str, Any]], swapped: bool) -> Condition:
    column, (text, value) = chosen
    if swapped:
        return Condition(f"{text} {operator} {column}", lambda row: compare(operator, *together(value, row[column])))
    return Condition(f"{column} {operator} {text}", lambda row: compare(operator, *together(row[column], value)))


def _column_pairs() -> st.SearchStrategy[Condition]:
    pairs = st.sampled_from([("k", "n"), ("k", "f"), ("n", "x"), ("f", "x"), ("p", "k"), ("p", "x"), ("x", "x")])

    def make(operator: str, pair: tuple[str, str]) -> Condition:
        left, right = pair
        return Condition(f"{left} {operator} {right}", lambda row: compare(operator, *together(row[left], row[right])))

    return st.builds(make, _OPERATORS, pairs)


def _sets() -> st.SearchStrategy[Condition]:
    def make(chosen: tuple[str, list[tuple[str, Any]]], negated: bool) -> Condition:
        column, items = chosen
        sql = f"{column} {'NOT ' if negated else ''}IN ({', '.join(text for text, _ in items)})"

        def says(row: Row) -> Truth:
            found: Truth = False
            for _, value in items:
                found = _or_truth(found, compare("=", *together(row[column], value)))
            return _not(found) if negated else found

        return Condition(sql, says)

    lists = _COLUMNS.flatmap(lambda c: st.tuples(st.just(c), st.lists(_constants(c), min_size=1, max_size=4)))
    return st.builds(make, lists, st.booleans())


def _betweens() -> st.SearchStrategy[Condition]:
    def make(chosen: tuple[str, tuple[str, Any], tuple[str, Any]], negated: bool) -> Condition:
        column, (low_text, low), (high_text, high) = chosen

        def says(row: Row) -> Truth:
            above = compare(">=", *together(row[column], low))
            inside = _and_truth(above, compare("<=", *together(row[column], high)))
            return _not(inside) if negated else inside

        return Condition(f"{column} {'NOT ' if negated else ''}BETWEEN {low_text} AND {high_text}", says)

    chosen = _COLUMNS.flatmap(lambda c: st.tuples(st.just(c), _constants(c), _constants(c)))
    return st.builds(make, chosen, st.booleans())


def _nulls() -> st.SearchStrategy[Condition]:
    def make(column: str, negated: bool) -> Condition:
        sql = f"{column} IS {'NOT ' if negated else ''}NULL"
        return Condition(sql, lambda row: (row[column] is None) != negated)

    return st.builds(make, _COLUMNS, st.booleans())


def _flags() -> st.SearchStrategy[Condition]:
    return st.sampled_from(
        [
            Condition("b", lambda row: row["b"]),
            Condition("b IS TRUE", lambda row: row["b"] is True),
            Condition("b IS NOT FALSE", lambda row: row["b"] is not False),
            Condition("b IS UNKNOWN", lambda row: row["b"] is None),
        ]
    )


def _likes() -> st.SearchStrategy[Condition]:
    parts = st.sampled_from([("a", "a"), ("b", "b"), ("ż", "ż"), ("%", None), ("_", 1), ("!%", "%"), ("!_", "_")])

    def make(pattern: list[tuple[str, Any]], negated: bool) -> Condition:
        sql = f"s {'NOT ' if negated else ''}LIKE '{''.join(text for text, _ in pattern)}' ESCAPE '!'"

        def says(row: Row) -> Truth:
            if row["s"] is None:
                return None
            return _matches(row["s"], [meaning for _, meaning in pattern]) != negated

        return Condition(sql, says)

    return st.builds(make, st.lists(parts, max_size=4), st.booleans())


def _matches(text: str, pattern: list[Any]) -> bool:
    """None: any text; 1: any character; else this character."""
    if not pattern:
        return not text
    head, *rest = pattern
    if head is None:
        return any(_matches(text[start:], rest) for start in range(len(text) + 1))
    return bool(text) and (head == 1 or text[0] == head) and _matches(text[1:], rest)


def _and(left: Condition, right: Condition) -> Condition:
    return Condition(
        f"({left.sql}) AND {right.sql}" if " OR " not in right.sql else f"({left.sql}) AND ({right.sql})",
        lambda row: _and_truth(left.says(row), right.says(row)),
    )


def _or(left: Condition, right: Condition) -> Condition:
    return Condition(f"({left.sql}) OR ({right.sql})", lambda row: _or_truth(left.says(row), right.says(row)))


def _not(truth: Truth) -> Truth:
    return None if truth is None else not truth


def _and_truth(left: Truth, right: Truth) -> Truth:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def _or_truth(left: Truth, right: Truth) -> Truth:
    return _not(_and_truth(_not(left), _not(right)))
