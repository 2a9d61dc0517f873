"""Random merges and updates against the same done row by row: every pair of rows is compared, each clause is tried."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pytest

from lakelog import literal, when_matched, when_not_matched, when_not_matched_by_source
from lakelog.errors import InvalidArgument
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.writes.row_changes.clauses import Action, Clause, Rows

Row = Mapping[str, Any]
Pair = Callable[[Any, Any], bool]

_HISTORIES: Final = 30


@dataclass(frozen=True)
class _Condition:
    sql: str | None
    holds: Pair


@dataclass(frozen=True)
class _ModelClause:
    clause: Clause
    holds: Pair
    make: Callable[[Any, Any], Row]


@dataclass(frozen=True)
class _On:
    on: Any
    holds: Callable[[Row, Row], bool]


def _less(a: Any, b: Any) -> bool:
    return a is not None and b is not None and a < b


def _same(a: Any, b: Any) -> bool:
    return a is not None and a == b


_EVERY = _Condition(None, lambda t, s: True)
_MATCHED_CONDITIONS = (
    _EVERY,
    _Condition("source.v < target.v", lambda t, s: _less(s["v"], t["v"])),
    _Condition("target.s IS NULL", lambda t, s: t["s"] is None),
    _Condition("source.s = 'a' OR target.v = 1", lambda t, s: s["s"] == "a" or t["v"] == 1),
)
_NEW_CONDITIONS = (_EVERY, _Condition("v > 0", lambda t, s: _less(0, s["v"])))
_LEFT_CONDITIONS = (_EVERY, _Condition("v IS NULL", lambda t, s: t["v"] is None))
_ONS = (
    _On(["k"], lambda t, s: t["k"] == s["k"]),
    _On("target.k = source.k", lambda t, s: t["k"] == s["k"]),
    _On("source.k = target.k AND target.v > 0", lambda t, s: t["k"] == s["k"] and _less(0, t["v"])),
    _On("source.k = target.k AND source.v <> target.v", lambda t, s: t["k"] == s["k"] and _differ(t["v"], s["v"])),
    _On(["v"], lambda t, s: _same(t["v"], s["v"])),
    _On(["v", "s"], lambda t, s: _same(t["v"], s["v"]) and _same(t["s"], s["s"])),
    _On("target.v < source.v", lambda t, s: _less(t["v"], s["v"])),
)


def _differ(a: Any, b: Any) -> bool:
    return a is not None and b is not None and a != b


def _add(a: Any, b: Any) -> Any:
    return None if a is None or b is None else a + b


def _random_clauses(rng: random.Random, *, keyed: bool, on: _On) -> list[_ModelClause]:
    by_key = not keyed or on.on == ["k"] or (isinstance(on.on, str) and "k = " in on.on)
    found: list[_ModelClause] = []
    for conditions in rng.sample(_MATCHED_CONDITIONS, rng.randint(0, 2)):
        when = when_matched(conditions.sql)
        choices: list[_ModelClause] = [
            _ModelClause(when.delete(), conditions.holds, lambda t, s: {}),
            _ModelClause(
                when.update({"v": "source.v + target.v", "s": literal("new")}),
                conditions.holds,
                lambda t, s: {**t, "v": _add(s["v"], t["v"]), "s": "new"},
            ),
            _ModelClause(when.update({"s": "source.s"}), conditions.holds, lambda t, s: {**t, "s": s["s"]}),
        ]
        if by_key:
            choices.append(_ModelClause(when.update_all(), conditions.holds, lambda t, s: dict(s)))
        found.append(rng.choice(choices))
    for conditions in rng.sample(_NEW_CONDITIONS, rng.randint(0, 2)):
        new = when_not_matched(conditions.sql)
        choices = [
            _ModelClause(new.insert_all(), conditions.holds, lambda t, s: dict(s)),
            _ModelClause(
                new.insert({"k": "k", "v": "coalesce(v, -1)"}),
                conditions.holds,
                lambda t, s: {"k": s["k"], "v": -1 if s["v"] is None else s["v"], "s": None},
            ),
        ]
        found.append(rng.choice(choices))
    for conditions in rng.sample(_LEFT_CONDITIONS, rng.randint(0, 1)):
        left = when_not_matched_by_source(conditions.sql)
        choices = [
            _ModelClause(left.delete(), conditions.holds, lambda t, s: {}),
            _ModelClause(left.update({"v": 7}), conditions.holds, lambda t, s: {**t, "v": 7}),
        ]
        found.append(rng.choice(choices))
    # The first clause without a condition ends those for the same rows.
    seen: set[Rows] = set()
    kept = []
    for each in found:
        if each.clause.rows not in seen:
            kept.append(each)
        if each.clause.condition is None:
            seen.add(each.clause.rows)
    return kept


def _merge_by_rows(
    target: Sequence[Row], source: Sequence[Row], on: _On, clauses: Sequence[_ModelClause], *, keyed: bool
) -> list[Row] | None:
    """The rows after a merge; None: it is refused."""

    def choose(rows: Rows, t: Row | None, s: Row | None) -> _ModelClause | None:
        return next((each for each in clauses if each.clause.rows is rows and each.holds(t, s)), None)

    result: list[Row] = []
    matched: set[int] = set()
    for t in target:
        hits = [n for n, s in enumerate(source) if on.holds(t, s)]
        matched.update(hits)
        chosen = [(each, source[n]) for n in hits if (each := choose(Rows.MATCHED, t, source[n])) is not None]
        if len(chosen) > 1:
            return None
        if chosen:
            ((clause, other),) = chosen
        else:
            left = None if hits else choose(Rows.NOT_MATCHED_BY_SOURCE, t, None)
            if left is None:
                result.append(t)
                continue
            clause, other = left, {}
        if clause.clause.action is Action.UPDATE:
            result.append(clause.make(t, other))
    inserted = [
        new.make(None, s)
        for n, s in enumerate(source)
        if n not in matched and (new := choose(Rows.NOT_MATCHED, None, s)) is not None
    ]
    if keyed:
        keys = [row["k"] for row in inserted]
        if len(set(keys)) < len(keys) or set(keys) & {row["k"] for row in target}:
            return None
    return result + inserted


def _random_rows(rng: random.Random, count: int, *, unique: bool) -> list[Row]:
    keys = rng.sample(range(12), count) if unique else [rng.randrange(12) for _ in range(count)]
    return [{"k": k, "v": rng.choice([None, 0, 1, 2, 3]), "s": rng.choice([None, "a", "b"])} for k in keys]


def _to_table(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    return pa.table({f.name: pa.array([row[f.name] for row in rows], f.type) for f in schema}, schema=schema)


def _sorted(rows: Sequence[Row]) -> list[str]:
    return sorted(repr((row["k"], row["v"], row["s"])) for row in rows)


def _make_table(catalog: Catalog, rng: random.Random, *, keyed: bool) -> Table:
    schema = pa.schema([pa.field("k", pa.int64(), nullable=not keyed), ("v", pa.int64()), ("s", pa.string())])
    options = {"bucket": str(rng.randint(1, 3))} if keyed else {}
    catalog.drop_table("shop.t", if_exists=True)
    return catalog.create_table("shop.t", schema, primary_key=["k"] if keyed else [], options=options)


def _merge(table: Table, rows: pa.Table, on: _On, clauses: Sequence[_ModelClause]) -> str | None:
    """Merges; returns the reason if it is refused."""
    try:
        table.merge(rows, on.on, *[each.clause for each in clauses])
    except InvalidArgument as error:
        return error.reason
    return None


@pytest.mark.parametrize("keyed", [True, False])
def test_random_merges_are_as_row_by_row(catalog: Catalog, keyed: bool) -> None:
    rng = random.Random(5 if keyed else 6)
    refused = done = 0
    for _ in range(_HISTORIES):
        table = _make_table(catalog, rng, keyed=keyed)
        target = _random_rows(rng, rng.randint(0, 8), unique=keyed)
        if target:
            table.append(_to_table(target, table.schema))
        for _ in range(3):
            on = rng.choice(_ONS)
            clauses = _random_clauses(rng, keyed=keyed, on=on)
            source = _random_rows(rng, rng.randint(0, 6), unique=rng.random() < 0.7)
            if not clauses:
                continue
            expected = _merge_by_rows(target, source, on, clauses, keyed=keyed)
            said = f"{[str(each.clause) for each in clauses]} on {on.on}: {source} into {target}"
            rows = _to_table(source, table.schema)
            reason = _merge(table, rows, on, clauses)
            if reason is None:
                assert expected is not None, said
                done += 1
            else:
                # An upsert refuses every repeated key, since it does not look which are there.
                repeats = keyed and len({row["k"] for row in source}) < len(source)
                assert reason in ("MATCHED_TWICE", "KEY_EXISTS"), said
                assert expected is None or repeats, said
                refused += 1
                expected = target
            target = expected
            assert _sorted(table.scan().to_arrow().to_pylist()) == _sorted(target), said
    assert refused > 1
    assert done > 30


@pytest.mark.parametrize("keyed", [True, False])
def test_random_updates_and_deletes_are_as_row_by_row(catalog: Catalog, keyed: bool) -> None:
    rng = random.Random(7)
    conditions: Sequence[tuple[str | None, Callable[[Row], bool]]] = (
        (None, lambda row: True),
        ("v > 1", lambda row: _less(1, row["v"])),
        ("s IS NULL", lambda row: row["s"] is None),
        ("k IN (1, 2, 3) AND NOT v = 0", lambda row: row["k"] in (1, 2, 3) and row["v"] not in (None, 0)),
    )
    for _ in range(_HISTORIES):
        table = _make_table(catalog, rng, keyed=keyed)
        target = _random_rows(rng, rng.randint(1, 8), unique=keyed)
        table.append(_to_table(target, table.schema))
        for _ in range(3):
            sql, holds = rng.choice(conditions)
            if sql is not None and rng.random() < 0.3:
                table.delete_where(sql)
                target = [row for row in target if not holds(row)]
            else:
                result = table.update({"v": "v + 1", "s": "concat(s, s)"}, sql)
                assert result.updated_rows == sum(map(holds, target))
                target = [
                    {**row, "v": _add(row["v"], 1), "s": None if row["s"] is None else row["s"] * 2}
                    if holds(row)
                    else row
                    for row in target
                ]
            assert _sorted(table.scan().to_arrow().to_pylist()) == _sorted(target)
