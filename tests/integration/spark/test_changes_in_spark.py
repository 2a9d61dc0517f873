"""What changed between two snapshots, read by Spark: the same rows as the SDK's (semantics 3.3, 5.1)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

import lakelog.spark
from lakelog.embedded.stack import EmbeddedStack
from lakelog.errors import InvalidArgument, NotFound, SnapshotExpired
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.spark.connection import SparkConnection
from lakelog.spark.source.options import SourceOptions
from lakelog.spark.stream.reader import LakelogStreamReader
from tests.integration.spark.spark_tables import MakeTable
from tests.support.random_tables.history import History, sorted_rows
from tests.support.random_tables.keyed_changes import alter_producer
from tests.support.spark.driven_stream import read_driven

OWN = ("_row_kind", "_snapshot_id")
SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("a b", pa.string())])


def data(*rows: tuple[int, str | None]) -> pa.Table:
    return pa.table({"k": [k for k, _ in rows], "a b": [v for _, v in rows]}, schema=SCHEMA)


@pytest.fixture
def keyed(make_table: MakeTable) -> Table:
    table = make_table(SCHEMA, ("k",), options={"bucket": "2"})
    table.upsert(data((1, "a"), (2, "b")))
    table.upsert(data((2, "B"), (3, "c")))
    table.delete(pa.table({"k": [3]}))
    table.upsert(data((2, "b")))
    return table


def test_changes(spark: SparkSession, keyed: Table, make_table: MakeTable) -> None:
    appended = make_table(SCHEMA)
    appended.append(data((1, "x")))
    appended.append(data((1, "y")))
    cases: list[tuple[Table, tuple[int, ...], dict[str, Any]]] = [
        (keyed, (), {}),
        (keyed, (1, 3), {"columns": ["a b"], "filter": "k > 2"}),
        (keyed, (), {"columns": ["_row_kind", "a b", "_snapshot_id"]}),
        (keyed, (), {"columns": ["_snapshot_id", "_row_kind"]}),
        (keyed, (1,), {"raw": True}),
        (keyed, (4, 4), {}),
        (appended, (1,), {}),
    ]
    for table, between, more in cases:
        named = more.get("columns")
        own = {} if named is None else {"columns": [*named, *(each for each in OWN if each not in named)]}
        wanted = table.changes(*between, **more | own)
        found = lakelog.spark.changes(spark, table.name, *between, **more)
        assert found.columns == wanted.schema.names
        assert sorted_rows(found.toArrow().to_pylist()) == sorted_rows(wanted.to_arrow().to_pylist())


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"after": 9}, NotFound, "Snapshot 9 of .* does not exist: its newest snapshot is 4"),
        ({"after": 1, "until": 9}, NotFound, "has no snapshot 9"),
        ({"after": 3, "until": 2}, InvalidArgument, "until=2 lies before after=3"),
        ({"columns": ["w"]}, InvalidArgument, "has no column 'w'"),
        ({"columns": []}, InvalidArgument, "names no column"),
        ({"filter": "w = 1"}, InvalidArgument, "w"),
    ],
)
def test_changes_that_cannot_be(
    spark: SparkSession, keyed: Table, arguments: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        lakelog.spark.changes(spark, keyed.name, **arguments)


def test_what_has_expired_names_what_is_kept(spark: SparkSession, keyed: Table) -> None:
    keyed.expire_snapshots(older_than=1 << 52, retain_last=2)
    name = str(keyed.name)
    kept = "is at snapshot 0 of .* snapshots 3 to 4 are all that is kept"
    with pytest.raises(SnapshotExpired, match=rf"{kept}\. Give after=2 or more, or read the whole table by read_table"):
        lakelog.spark.changes(spark, name, 0)
    for mode in ("delta", "changelog"):
        options = {"table": name, "incremental-between": "0,4", "incremental-between-scan-mode": mode}
        with pytest.raises(AnalysisException, match=rf"{kept}\. Begin 'incremental-between' with 2 or more"):
            spark.read.format("lakelog").options(**options).load().collect()


@pytest.mark.parametrize("mode", ["delta", "changelog", "diff", "auto"])
def test_modes(stack: EmbeddedStack, keyed: Table, mode: str) -> None:
    options = {"incremental-between": "1,4", "incremental-between-scan-mode": mode}
    wanted = keyed.scan(options=options).to_arrow().to_pylist()
    assert sorted_rows(read_driven(stack.target, keyed.name, options)) == sorted_rows(wanted)
    rows = sorted((row.get("_row_kind", ""), row["k"], row["a b"]) for row in wanted)
    if mode in ("delta", "auto"):
        assert rows == [("", 2, "B"), ("", 2, "b"), ("", 3, "c")]
    elif mode == "diff":
        assert rows == [], "what came went again"
    else:
        assert rows == [
            ("+I", 3, "c"),
            ("+U", 2, "B"),
            ("+U", 2, "b"),
            ("-D", 3, "c"),
            ("-U", 2, "B"),
            ("-U", 2, "b"),
        ]


def test_a_schema_that_is_given_picks_columns_by_name(spark: SparkSession, stack: EmbeddedStack, keyed: Table) -> None:
    options = {"table": keyed.name, "incremental-between": "1,3", "incremental-between-scan-mode": "changelog"}

    def read(schema: str) -> list[tuple[Any, ...]]:
        return sorted(map(tuple, spark.read.format("lakelog").schema(schema).options(**options).load().collect()))

    assert read("_row_kind string, `a b` string") == [("+I", "c"), ("+U", "B"), ("-D", "c"), ("-U", "b")]
    # As where the option `columns` names them: an update that changed no column that is read is none (rule 3.3).
    assert read("_row_kind string, k bigint not null") == [("+I", 3), ("-D", 3)]
    for schema, message in {
        "k int": "k: expected bigint, got int",
        "k bigint, `a b` string not null": "a b: expected nullable, got NOT NULL",
        "_snapshot_id bigint": "_snapshot_id: expected no such column",
    }.items():
        with pytest.raises(AnalysisException, match=message):
            read(schema)
    connected = SparkConnection(stack.target, tls=False)
    given = StructType().add("k", "integer").add("_row_kind", "string")
    reader = LakelogStreamReader(connected, SourceOptions.of({"table": keyed.name}), given)
    with pytest.raises(InvalidArgument, match="k: expected bigint, got int"):
        reader.initialOffset()


def test_what_two_states_differ_in(stack: EmbeddedStack, keyed: Table) -> None:
    keyed.overwrite(data((1, "a"), (9, "new")))
    keyed.tags.create("old", 2)
    keyed.tags.create("new", 4)
    for between, wanted in {
        "1,5": [("+I", 9, "new"), ("-D", 2, "b")],
        "0,4": [("+I", 1, "a"), ("+I", 2, "b")],
        "2,4": [("+U", 2, "b"), ("-D", 3, "c"), ("-U", 2, "B")],
        "3,3": [],
    }.items():
        options = {"incremental-between": between, "incremental-between-scan-mode": "diff"}
        found = keyed.scan(options=options).to_arrow().to_pylist()
        assert sorted((row["_row_kind"], row["k"], row["a b"]) for row in found) == wanted
        assert sorted_rows(read_driven(stack.target, keyed.name, options)) == sorted_rows(found)
    by_tags = keyed.scan(options={"incremental-between": "old,new"}).to_arrow().to_pylist()
    assert len(by_tags) == 3
    assert sorted_rows(read_driven(stack.target, keyed.name, {"incremental-between": "old,new"})) == sorted_rows(
        by_tags
    )


def test_what_a_rollback_changed(stack: EmbeddedStack, keyed: Table) -> None:
    keyed.alter(set={"streaming-read-overwrite": "true"})
    keyed.rollback_to(2)
    keyed.upsert(data((3, "C")))
    keyed.rollback_to(4)
    wanted = keyed.changes(4).to_arrow().to_pylist()
    assert sorted((row["_snapshot_id"], row["_row_kind"], row["k"], row["a b"]) for row in wanted) == [
        (5, "+I", 3, "c"),
        (5, "+U", 2, "B"),
        (5, "-U", 2, "b"),
        (6, "+U", 3, "C"),
        (6, "-U", 3, "c"),
        (7, "+U", 2, "b"),
        (7, "-D", 3, "C"),
        (7, "-U", 2, "B"),
    ]
    options = {"incremental-between": "4,7", "incremental-between-scan-mode": "changelog"}
    found = read_driven(stack.target, keyed.name, options)
    assert sorted_rows(found) == sorted_rows([{k: v for k, v in row.items() if k != "_snapshot_id"} for row in wanted])


def test_modes_that_need_a_key(spark: SparkSession, stack: EmbeddedStack, make_table: MakeTable) -> None:
    table = make_table(SCHEMA)
    table.append(data((1, "x")))
    for mode in ("changelog", "diff"):
        options = {"incremental-between": "0,1", "incremental-between-scan-mode": mode}
        message = rf"'{mode}' needs a table with a primary key, and {table.name} has none"
        with pytest.raises(InvalidArgument, match=message):
            table.scan(options=options)
        with pytest.raises(AnalysisException, match=message):
            spark.read.format("lakelog").option("table", table.name).options(**options).load()
    assert read_driven(stack.target, table.name, {"incremental-between": "0,1"}) == [{"k": 1, "a b": "x"}]


@pytest.mark.parametrize(
    ("seed", "alters"), [(1, False), (4, False), (6, False), (9, False), (12, False), (2, True), (11, True)]
)
def test_random_tables(stack: EmbeddedStack, catalog: Catalog, seed: int, alters: bool) -> None:
    catalog.create_database("ranged", if_not_exists=True)
    history = History(catalog, f"ranged.t{seed}", seed)
    for number in range(10):
        if alters and number % 3 == 2:
            alter_producer(history)
        history.step()
    last = len(history.model.snapshots)
    for mode in ("delta", "changelog", "diff", "auto") if history.key else ("delta", "auto"):
        after = history.random.randrange(last)
        options = {"incremental-between": f"{after},{last}", "incremental-between-scan-mode": mode}
        wanted = history.table.scan(options=options).to_arrow().to_pylist()
        found = read_driven(stack.target, history.table.name, options)
        assert sorted_rows(found) == sorted_rows(wanted), f"{history!r}: {options}"
        if mode == "diff":
            rows = {repr([row[name] for name in history.key]): row for row in _rows_at(history, after)}
            for row in found:
                kind = row.pop("_row_kind")
                key = repr([row[name] for name in history.key])
                if kind in ("-U", "-D"):
                    assert repr(rows.pop(key)) == repr({name: row[name] for name in history.by_name})
            for row in wanted:
                if row.pop("_row_kind") in ("+U", "+I"):
                    rows[repr([row[name] for name in history.key])] = row
            assert sorted_rows(list(rows.values())) == sorted_rows(_rows_at(history, last))


def _rows_at(history: History, snapshot_id: int) -> list[dict[str, Any]]:
    return history.model.snapshots[snapshot_id - 1].rows if snapshot_id else []
