"""Updates, deletes and merges by Spark: what they change, refuse, and what commits in between do to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import lakelog.spark
from lakelog import literal, when_matched, when_not_matched, when_not_matched_by_source
from lakelog.errors import InvalidArgument
from lakelog.sdk.tables.table import Table
from lakelog.spark.batch import table_write
from lakelog.spark.row_changes import change, removal
from tests.integration.spark.spark_tables import MakeTable

SCHEMA = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), ("v", pa.int64()), ("price", pa.decimal128(10, 2)), ("s", pa.string())]
)


@pytest.fixture(params=["keyed", "append"])
def table(request: pytest.FixtureRequest, make_table: MakeTable) -> Table:
    is_keyed = request.param == "keyed"
    table = make_table(SCHEMA, ("id",) if is_keyed else (), options={"bucket": "2"} if is_keyed else {})
    rows = [{"id": n, "v": n * 10, "price": None, "s": "abc"[n - 1]} for n in (1, 2, 3)]
    table.append(pa.Table.from_pylist(rows, SCHEMA))
    return table


def state(table: Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.scan(["id", "v", "s"]).to_arrow().to_pylist())


def source(spark: SparkSession, *rows: str) -> DataFrame:
    """Rows of id, v, s and op, as texts such as `1 5 x U`."""
    values = ", ".join("({}, {}, '{}', '{}')".format(*row.split()) for row in rows)
    return spark.sql(
        f"SELECT CAST(id AS BIGINT) id, v, s, op, CAST(NULL AS DOUBLE) price FROM VALUES {values} t(id, v, s, op)"
    )


def test_clauses_are_applied_in_their_order(spark: SparkSession, table: Table) -> None:
    changes = source(spark, "1 1 x D", "2 7 n U", "8 8 o D", "9 9 p I")
    result = lakelog.spark.merge(
        spark,
        table.name,
        changes,
        ["id"],
        when_matched("source.op = 'D'").delete(),
        when_matched().update_all(),
        when_not_matched("op <> 'D'").insert_all(),
        when_not_matched_by_source("target.v = 30").update({"v": "target.v + 1", "s": literal("left")}),
    )
    assert (result.updated_rows, result.deleted_rows, result.inserted_rows) == (2, 1, 1)
    assert state(table) == [(2, 7, "n"), (3, 31, "left"), (9, 9, "p")]
    if not table.primary_key:
        return
    kinds = table.changes(1).to_arrow().to_pylist()
    assert sorted((row["id"], row["_row_kind"]) for row in kinds) == [
        (1, "-D"),
        (2, "+U"),
        (2, "-U"),
        (3, "+U"),
        (3, "-U"),
        (9, "+I"),
    ]


def test_updates_and_deletes(spark: SparkSession, table: Table) -> None:
    assert lakelog.spark.update(spark, table.name, {"v": "v + 1", "s": literal("u")}, "id < 3").updated_rows == 2
    assert lakelog.spark.delete_where(spark, table.name, "v = 11").deleted_rows == 1
    assert state(table) == [(2, 21, "u"), (3, 30, "c")]
    again = [lakelog.spark.update(spark, table.name, {"v": "v + 1"}, writer="w", identifier=1) for _ in range(2)]
    assert (again[1].already_applied, again[1].snapshot_id) == (True, again[0].snapshot_id)
    assert state(table) == [(2, 22, "u"), (3, 31, "c")]


def test_rows_that_are_gone_stay_gone(spark: SparkSession, table: Table) -> None:
    """Each statement reads what the ones before it, of Spark and of the SDK, have left."""
    lakelog.spark.delete_where(spark, table.name, "id = 1")
    lakelog.spark.update(spark, table.name, {"v": "v + 1"})
    table.delete_where("id = 2")
    assert lakelog.spark.update(spark, table.name, {"v": "v + 1"}).updated_rows == 1
    result = lakelog.spark.merge(
        spark,
        table.name,
        source(spark, "1 7 n U", "2 8 n U", "3 9 n U"),
        "source.id = target.id",
        when_matched().update({"v": "target.v + source.v"}),
        when_not_matched().insert({"id": "id", "v": "v"}),
    )
    assert (result.updated_rows, result.inserted_rows) == (1, 2)
    assert [row[:2] for row in state(table)] == [(1, 7), (2, 8), (3, 41)]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s, n, d: lakelog.spark.update(s, n, {"id": 1}), "cannot be updated"),
        (lambda s, n, d: lakelog.spark.update(s, n, {"v": "w + 1"}), "w"),
        (lambda s, n, d: lakelog.spark.update(s, n, {"w": 1}), "no column 'w'"),
        (lambda s, n, d: lakelog.spark.update(s, n, {"v": literal("x")}), "text is not parsed"),
        (lambda s, n, d: lakelog.spark.update(s, n, {"v": "v + 0.5"}), r"[123]0\.5 in row"),
        (lambda s, n, d: lakelog.spark.merge(s, n, d, ["id"], when_matched().update({"v": "source.v"})), r"id=2"),
        (lambda s, n, d: lakelog.spark.merge(s, n, d, ["id"], when_not_matched().insert_all()), r"id=5"),
        (lambda s, n, d: lakelog.spark.merge(s, n, d, ["s"], when_matched().update_all()), "could update the key"),
        (
            lambda s, n, d: lakelog.spark.merge(
                s, n, d.where("op = 'A'"), "target.s = source.s", when_not_matched().insert({"id": "source.id"})
            ),
            "would replace rows",
        ),
    ],
)
def test_what_is_not_possible(
    spark: SparkSession, table: Table, change: Callable[[SparkSession, str, DataFrame], object], words: str
) -> None:
    if not table.primary_key and words in ("cannot be updated", "could update the key", "id=5", "would replace rows"):
        pytest.skip("It has no key")
    rows = source(spark, "2 1 y A", "2 2 y B", "5 1 y C", "5 2 y C")
    with pytest.raises(InvalidArgument, match=words):
        change(spark, table.name, rows)
    assert table.snapshots().num_rows == 1


def test_a_commit_in_between_is_seen_by_the_next_try(
    spark: SparkSession, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = _after_the_first_read(monkeypatch, lambda: table.update({"v": 100}, "id = 1"))
    assert lakelog.spark.update(spark, table.name, {"v": "v + 1"}).updated_rows == 3
    assert [row[1] for row in state(table)] == [101, 21, 31]
    assert len(tries) == 2


def test_columns_that_are_altered_in_between_are_read_again(
    spark: SparkSession, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    altered: list[lakelog.ColumnChange] = [lakelog.AddColumn("n", "INT"), lakelog.RenameColumn("price", "cost")]
    tries = _after_the_first_read(monkeypatch, lambda: table.alter(columns=altered))
    assert lakelog.spark.update(spark, table.name, {"v": "v + 1"}).updated_rows == 3
    assert [row[1] for row in state(table)] == [11, 21, 31]
    assert len(tries) == 2


def test_names_that_are_exchanged_before_the_write_are_read_again(
    spark: SparkSession, make_table: MakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.int64()), ("w", pa.int64())])
    table = make_table(columns, ("id",), options={"bucket": "1"})
    table.upsert([{"id": 1, "v": 1, "w": 2}])
    original, tries = table_write.write_to, []

    def write_to(*arguments: Any, **named: Any) -> Any:
        tries.append(1)
        if len(tries) == 1:
            names = [("v", "x"), ("w", "v"), ("x", "w")]
            table.alter(columns=[lakelog.RenameColumn(old, new) for old, new in names])
        return original(*arguments, **named)

    monkeypatch.setattr(change, "write_to", write_to)
    lakelog.spark.update(spark, table.name, {"v": "v + 10"})
    assert len(tries) == 2
    assert table.scan().to_arrow().to_pylist() == [{"id": 1, "w": 1, "v": 12}]


def test_positions_come_to_the_driver_by_file(
    spark: SparkSession, make_table: MakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "_GROUP_BITS", 3)
    table = make_table(pa.schema([("id", pa.int64())]))
    for first in (0, 100):
        table.append([{"id": first + row} for row in range(50)])
    collected = []
    original = removal.collect_places

    def collect_places(rows: DataFrame) -> pa.Table:
        collected.append(original(rows))
        return collected[-1]

    monkeypatch.setattr(change, "collect_places", collect_places)
    assert lakelog.spark.delete_where(spark, table.name, "id % 2 = 0").deleted_rows == 50
    # A row for eight positions of one file, not one for each.
    assert collected[0].num_rows == 14
    assert sorted(table.scan().to_arrow().column("id").to_pylist()) == [*range(1, 50, 2), *range(101, 150, 2)]
    monkeypatch.setattr(removal, "MOST_REMOVED_ROWS", 49)
    with pytest.raises(InvalidArgument, match=r"50 rows of .* takes 49"):
        lakelog.spark.delete_where(spark, table.name, "TRUE")
    assert table.count() == 50


def _after_the_first_read(monkeypatch: pytest.MonkeyPatch, do: Callable[[], object]) -> list[int]:
    """Does something behind the first read of a change; returns a list with an entry for each read."""
    tries: list[int] = []

    def disturb(found: DataFrame) -> DataFrame:
        tries.append(1)
        if len(tries) == 1:
            do()
        return found

    def read_and_disturb(*arguments: Any, **named: Any) -> DataFrame:
        return disturb(lakelog.spark.read_table(*arguments, **named))

    def read_places_and_disturb(*arguments: Any) -> DataFrame:
        return disturb(removal.read_places(*arguments))

    monkeypatch.setattr(change, "read_table", read_and_disturb)
    monkeypatch.setattr(change, "read_places", read_places_and_disturb)
    return tries


def test_a_source_is_computed_once(spark: SparkSession, table: Table) -> None:
    changes = spark.range(1, 60).selectExpr(
        "id", "CAST(rand() * 1000000 AS BIGINT) v", "CAST(NULL AS DECIMAL(10, 2)) price"
    )
    clauses = when_matched().update({"v": "source.v"}), when_not_matched("v > 500000").insert({"id": "id", "v": "v"})
    result = lakelog.spark.merge(spark, table.name, changes, ["id"], *clauses)
    assert result.updated_rows == 3
    assert table.count("v > 500000 OR id < 4") == (result.inserted_rows or 0) + 3
