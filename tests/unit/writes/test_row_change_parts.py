"""The parts of merges: pairs of equal keys, expressions as they are read and computed, conditions."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lakelog.errors import InvalidArgument
from lakelog.writes.row_changes.evaluation import Evaluator
from lakelog.writes.row_changes.expressions import Column, Side, SqlText, bind_expression
from lakelog.writes.row_changes.key_join import KeyJoin, find_repeated
from lakelog.writes.row_changes.on_condition import EqualColumns, bind_on

_TARGET = Side(
    "t", ("target", "t"), pa.schema([("id", pa.int32()), ("v", pa.int64()), ("p", pa.struct([("a", pa.int64())]))])
)
_SOURCE = Side("s", ("source", "shop.src"), pa.schema([("id", pa.int64()), ("w", pa.string()), ("Op", pa.string())]))


def _join(own: list[list[object]], other: list[list[object]]) -> list[tuple[int, int]]:
    places, rows = KeyJoin([pa.chunked_array([each]) for each in other]).find(
        [pa.chunked_array([each]) for each in own]
    )
    assert (np.diff(places) >= 0).all()
    return list(zip(places.tolist(), rows.tolist(), strict=True))


def test_equal_keys_are_paired() -> None:
    assert _join([[1, 2, None, 2]], [[2, None, 1]]) == [(0, 2), (1, 0), (3, 0)]
    assert _join([["a", "b"]], [["b", "b", "c"]]) == [(1, 0), (1, 1)]
    assert _join([[1, 1], ["x", None]], [[1, 1, 1], ["x", None, "x"]]) == [(0, 0), (0, 2)]
    assert _join([[float("nan"), 0.0, None]], [[-0.0, None, float("nan")]]) == [(0, 2), (1, 0)]


def test_repeated_pairs_at_random_are_those_of_two_loops() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        own, other = (rng.integers(0, 8, rng.integers(1, 30)).tolist() for _ in range(2))
        expected = [(i, j) for i, a in enumerate(own) for j, b in enumerate(other) if a == b]
        assert sorted(_join([own], [other])) == expected


def test_repeated_places() -> None:
    assert find_repeated(np.array([1, 1, 2, 3, 3, 3])).tolist() == [1, 3]


@pytest.mark.parametrize(
    ("text", "sql", "columns"),
    [
        ("source.W", None, ("s.w",)),
        ("op", None, ("s.Op",)),
        ("v + 1", '"t.v" + 1', ("t.v",)),
        ("t.v * source.id", '"t.v" * "s.id"', ("t.v", "s.id")),
        ("shop.src.w", None, ("s.w",)),
        ("target.p.a", "STRUCT_EXTRACT(\"t.p\", 'a')", ("t.p",)),
        ("p.a", "STRUCT_EXTRACT(\"t.p\", 'a')", ("t.p",)),
        ("concat(w, 'it''s')", "\"s.w\" || 'it''s'", ("s.w",)),
        ("r'a\\b'", "'a\\b'", ()),
    ],
)
def test_names_are_resolved(text: str, sql: str | None, columns: tuple[str, ...]) -> None:
    bound = bind_expression(text, (_TARGET, _SOURCE), "a test")
    if sql is None:
        assert isinstance(bound, Column)
        assert (bound.label,) == columns
        return
    assert isinstance(bound, SqlText)
    assert bound.sql == sql
    assert tuple(column.label for column in bound.columns) == columns


@pytest.mark.parametrize(
    "text",
    ["id", "source.v", "nothing", "x.y", "", "v; DROP TABLE t", "v AS w", "*", "count(*)", "(SELECT 1)", ":a"],
)
def test_what_no_expression_is(text: str) -> None:
    with pytest.raises(InvalidArgument, match="a test"):
        bind_expression(text, (_TARGET, _SOURCE), "a test")


@pytest.mark.parametrize(
    ("on", "equal", "rest", "condition"),
    [
        ("target.id = source.id", [("id", "id")], None, None),
        ("source.id = target.v AND t.id = 5", [("v", "id")], None, "(`id` = 5)"),
        ("target.id = source.id AND v < source.id", [("id", "id")], '"t.v" < "s.id"', None),
        ("target.id = source.w", [], '"t.id" = "s.w"', None),
        ("target.id = source.id OR v = 1", [], '"t.id" = "s.id" OR "t.v" = 1', None),
    ],
)
def test_conditions_of_merges(on: str, equal: list[tuple[str, str]], rest: str | None, condition: str | None) -> None:
    found = bind_on(on, _TARGET, _SOURCE, reads_all=False)
    assert [(each.target, each.source) for each in found.equal] == equal
    assert (None if found.rest is None else found.rest.sql) == rest
    assert found.filter == condition
    assert bind_on(on, _TARGET, _SOURCE, reads_all=True).filter is None


def test_columns_of_other_widths_are_compared_as_bigint() -> None:
    assert bind_on(["ID"], _TARGET, _SOURCE, reads_all=False).equal == (EqualColumns("id", "id", pa.int64()),)


def test_values_stand_in_the_order_of_the_rows() -> None:
    """Also if several threads of DuckDB compute them."""
    count = 600_000
    rows = pa.table({"t.v": np.arange(count)})
    text = bind_expression("CASE WHEN v % 3 = 0 THEN v ELSE v + 1 END", (_TARGET,), "a test")
    with Evaluator() as evaluator:
        (found,) = evaluator.evaluate(rows, [text])
    numbers = np.arange(count)
    assert (np.asarray(found) == np.where(numbers % 3 == 0, numbers, numbers + 1)).all()


def test_an_expression_of_another_number_of_values_is_refused() -> None:
    with Evaluator() as evaluator, pytest.raises(InvalidArgument, match="Each row needs one"):
        evaluator.evaluate(pa.table({"t.v": [1, 2]}), [SqlText('sum("t.v")', (Column("t", "v"),), "sum(v)")])


def test_expressions_read_no_files() -> None:
    text = SqlText("(SELECT count(*) FROM '/etc/passwd')", (), "a file")
    with Evaluator() as evaluator, pytest.raises(InvalidArgument, match="cannot be computed"):
        evaluator.evaluate(pa.table({"t.v": [1]}), [text])
