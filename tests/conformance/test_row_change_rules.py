"""The rules of rows by condition (semantics 8.10 and on): through the SDK, SQL and Spark."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa
import pytest

from lakelog import when_matched, when_not_matched, when_not_matched_by_source
from lakelog.errors import InvalidArgument
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.sql import SqlSession
from lakelog.writes.row_changes.clauses import Action, Clause

Row = tuple[Any, ...]

SCHEMA = pa.schema(
    [pa.field("k", pa.int64(), nullable=False), ("a", pa.int64()), ("b", pa.int64()), ("x", pa.float64())]
)
_numbers = itertools.count(1)


class Way(Protocol):
    """How rows are changed; returns how many were updated, deleted and inserted."""

    def update(self, table: Table, set: Mapping[str, str], where: str | None = None) -> int | None: ...  # noqa: A002

    def merge(self, table: Table, source: pa.Table, on: str, *clauses: Clause) -> tuple[int | None, ...]: ...


class SdkWay:
    def update(self, table: Table, set: Mapping[str, str], where: str | None = None) -> int | None:  # noqa: A002
        return table.update(set, where).updated_rows

    def merge(self, table: Table, source: pa.Table, on: str, *clauses: Clause) -> tuple[int | None, ...]:
        result = table.merge(source, on, *clauses)
        return result.updated_rows, result.deleted_rows, result.inserted_rows


class SqlWay:
    def __init__(self, catalog: Catalog) -> None:
        self._session = SqlSession(catalog, "conformance")

    def update(self, table: Table, set: Mapping[str, str], where: str | None = None) -> int | None:  # noqa: A002
        values = ", ".join(f"{name} = {value}" for name, value in set.items())
        found = self._session.execute(f"UPDATE {table.name} SET {values}{f' WHERE {where}' if where else ''}").changed
        return None if found is None else found.updated

    def merge(self, table: Table, source: pa.Table, on: str, *clauses: Clause) -> tuple[int | None, ...]:
        name = f"conformance.source{next(_numbers)}"
        self._session.catalog.create_table(name, source.schema).append(source)
        written = " ".join(map(_to_sql, clauses))
        sql = f"MERGE INTO {table.name} AS target USING {name} AS source ON {on} {written}"
        found = self._session.execute(sql).changed
        return () if found is None else (found.updated, found.deleted, found.inserted)


class SparkWay:
    def __init__(self, spark: Any) -> None:
        self._spark = spark

    def update(self, table: Table, set: Mapping[str, str], where: str | None = None) -> int | None:  # noqa: A002
        import lakelog.spark

        return lakelog.spark.update(self._spark, table.name, set, where).updated_rows

    def merge(self, table: Table, source: pa.Table, on: str, *clauses: Clause) -> tuple[int | None, ...]:
        import lakelog.spark

        rows = self._spark.createDataFrame(source)
        result = lakelog.spark.merge(self._spark, table.name, rows, on, *clauses)
        return result.updated_rows, result.deleted_rows, result.inserted_rows


@pytest.fixture(params=["sdk", "sql", pytest.param("spark", marks=pytest.mark.spark)])
def way(request: pytest.FixtureRequest, catalog: Catalog) -> Way:
    catalog.create_database("conformance", if_not_exists=True)
    if request.param == "sdk":
        return SdkWay()
    return SqlWay(catalog) if request.param == "sql" else SparkWay(request.getfixturevalue("spark"))


@pytest.fixture(params=["keyed", "append"])
def table(request: pytest.FixtureRequest, catalog: Catalog) -> Table:
    catalog.create_database("conformance", if_not_exists=True)
    key = ["k"] if request.param == "keyed" else []
    made = catalog.create_table(f"conformance.changed{next(_numbers)}", SCHEMA, primary_key=key)
    made.append(rows((1, 10, 100, 0.5), (2, 20, 200, None), (3, None, 300, 0.0)))
    return made


def rows(*values: Row) -> pa.Table:
    columns = zip(*values, strict=True) if values else ((), (), (), ())
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def state(table: Table) -> list[Row]:
    return sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist())


def test_8_10_new_values_come_from_the_row_before(way: Way, table: Table) -> None:
    assert way.update(table, {"a": "b", "b": "a"}, "k < 3") == 2
    assert state(table) == [(1, 100, 10, 0.5), (2, 200, 20, None), (3, None, 300, 0.0)]


@pytest.mark.parametrize("value", ["b / 8.0", "CAST('x' AS BIGINT)", "b / (k - 1)"])
def test_8_10_what_does_not_fit_ends_the_statement(way: Way, table: Table, value: str) -> None:
    before = state(table)
    with pytest.raises(Exception, match=r"(?i)loss|cast|zero|comput"):
        way.update(table, {"a": value})
    assert state(table) == before
    assert table.snapshots().num_rows == 1


def test_8_11_keys_are_not_updated(way: Way, catalog: Catalog) -> None:
    options = {"sequence.field": "b"}
    name = f"conformance.keys{next(_numbers)}"
    made = catalog.create_table(name, SCHEMA, primary_key=["k"], options=options)
    for column in ("k", "b"):
        with pytest.raises(InvalidArgument, match=f"'{column}' .*cannot be updated"):
            way.update(made, {column: "5"})


def test_8_12_the_first_true_condition_decides(way: Way, table: Table) -> None:
    source = rows((1, None, 1, 0.0), (2, 1, 1, 0.0), (3, 2, 1, 0.0), (8, None, 1, 0.0), (9, 1, 1, 0.0))
    counts = way.merge(
        table,
        source,
        "target.k = source.k",
        when_matched("source.a = 1").delete(),
        when_matched("source.a = 2 OR source.a = 1").update({"a": "7"}),
        when_not_matched("source.a > 0").insert({"k": "source.k", "a": "source.a"}),
    )
    assert counts == (1, 1, 1)
    assert state(table) == [(1, 10, 100, 0.5), (3, 7, 300, 0.0), (9, 1, None, None)]


def test_8_12_rows_of_the_table_alone(way: Way, table: Table) -> None:
    left = when_not_matched_by_source("target.a IS NULL").delete(), when_not_matched_by_source().update({"a": "0"})
    assert way.merge(table, rows((1, 1, 1, 1.0)), "target.k = source.k", *left) == (1, 1, 0)
    assert state(table) == [(1, 10, 100, 0.5), (2, 0, 200, None)]


def test_8_13_null_matches_nothing_and_zeros_match(way: Way, table: Table) -> None:
    source = rows((7, 1, 1, None), (8, 1, 1, -0.0))
    assert way.merge(table, source, "target.x = source.x", when_matched().update({"a": "source.k"})) == (1, 0, 0)
    assert [row[1] for row in state(table)] == [10, 20, 8]


def test_8_14_one_row_is_changed_once(way: Way, table: Table) -> None:
    twice = rows((2, 1, 1, 0.0), (2, 2, 2, 0.0))
    with pytest.raises(InvalidArgument, match=r"Several rows of the source .*\(k=2\)"):
        way.merge(table, twice, "target.k = source.k", when_matched().update({"a": "source.a"}))
    assert table.snapshots().num_rows == 1
    clause = when_matched("source.a = 2").update({"a": "source.a"})
    assert way.merge(table, twice, "target.k = source.k", clause) == (1, 0, 0)


def test_8_14_one_key_is_made_once(way: Way, table: Table) -> None:
    twice = rows((9, 1, 1, 0.0), (9, 2, 2, 0.0))
    merge: Callable[[], object] = lambda: way.merge(  # noqa: E731
        table, twice, "target.k = source.k", when_not_matched().insert_all()
    )
    if not table.primary_key:
        merge()
        assert table.count("k = 9") == 2
        return
    with pytest.raises(InvalidArgument, match=r"\(k=9\)"):
        merge()


def test_8_15_an_insert_replaces_no_row(way: Way, table: Table) -> None:
    source, new = rows((1, 99, 9, 0.0)), when_not_matched().insert_all()
    if not table.primary_key:
        assert way.merge(table, source, "target.a = source.a", new) == (0, 0, 1)
        return
    with pytest.raises(InvalidArgument, match=r"would replace rows .*\(k=1\)"):
        way.merge(table, source, "target.a = source.a", new)
    assert len(state(table)) == 3


def test_8_16_kinds(way: Way, table: Table) -> None:
    source = rows((1, 1, 1, 1.0), (2, 2, 2, 2.0), (9, 9, 9, 9.0))
    clauses = (
        when_matched("target.k = 1").delete(),
        when_matched().update({"a": "source.a"}),
        when_not_matched().insert_all(),
    )
    way.merge(table, source, "target.k = source.k", *clauses)
    kind = table.snapshots(1).column("kind")[0].as_py()
    if table.primary_key:
        raw = table.changes(1, raw=True).to_arrow().to_pylist()
        assert sorted((row["k"], row["_row_kind"]) for row in raw) == [(1, "-D"), (2, "+U"), (9, "+I")]
        shown = table.changes(1).to_arrow().to_pylist()
        assert sorted((row["k"], row["a"], row["_row_kind"]) for row in shown) == [
            (1, 10, "-D"),
            (2, 2, "+U"),
            (2, 20, "-U"),
            (9, 9, "+I"),
        ]
        assert kind == "APPEND"
        return
    assert kind == "OVERWRITE"
    assert table.changes(1).to_arrow().num_rows == 0
    way.merge(table, rows((10, 1, 1, 1.0)), "target.k = source.k", *clauses)
    assert table.snapshots(1).column("kind")[0].as_py() == "APPEND"


def test_8_17_nothing_changed_is_no_snapshot(way: Way, table: Table) -> None:
    assert way.update(table, {"a": "1"}, "k > 100") == 0
    assert table.snapshots().num_rows == 1


def test_8_17_truncate_is_an_overwrite(catalog: Catalog, table: Table) -> None:
    changed = SqlSession(catalog).execute(f"TRUNCATE TABLE {table.name}").changed
    assert changed is not None
    assert changed.deleted == 3
    assert table.count() == 0
    assert table.snapshots(1).column("kind")[0].as_py() == "OVERWRITE"


def _to_sql(clause: Clause) -> str:
    condition = "" if clause.condition is None else f" AND {clause.condition}"
    head = f"{clause.rows.value}{condition} THEN"
    if clause.action is Action.DELETE:
        return f"{head} DELETE"
    if clause.values is None:
        return f"{head} {'UPDATE SET' if clause.action is Action.UPDATE else 'INSERT'} *"
    if clause.action is Action.UPDATE:
        return f"{head} UPDATE SET {', '.join(f'{name} = {value}' for name, value in clause.values.items())}"
    names: Sequence[str] = list(clause.values)
    return f"{head} INSERT ({', '.join(names)}) VALUES ({', '.join(map(str, clause.values.values()))})"
