"""Updates and merges: what they change, what they refuse, and what other commits in between do to them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import lakelog
from lakelog import literal, when_matched, when_not_matched, when_not_matched_by_source
from lakelog.errors import CommitConflict, InvalidArgument
from lakelog.reads import reading
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.writes import run_again
from lakelog.writes.row_changes import target_rows
from lakelog.writes.row_changes.evaluation import Evaluator

_SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("v", pa.int64()),
        ("price", pa.decimal128(10, 2)),
        ("s", pa.string()),
        ("d", pa.date32()),
        ("x", pa.float64()),
    ]
)


def _row(key: int, v: int | None = None, s: str | None = None) -> dict[str, Any]:
    return {"id": key, "v": v, "price": Decimal("1.50"), "s": s, "d": dt.date(2024, 5, 1), "x": 0.5}


def _make(catalog: Catalog, *, keyed: bool = True, options: Mapping[str, str] | None = None) -> Table:
    key = ["id"] if keyed else []
    table = catalog.create_table("shop.t", _SCHEMA, primary_key=key, options=options or {})
    table.append(pa.Table.from_pylist([_row(1, 10, "a"), _row(2, 20, "b"), _row(3, None, None)], _SCHEMA))
    return table


def _read(table: Table, *columns: str) -> list[tuple[Any, ...]]:
    rows = table.scan(["id", *columns]).to_arrow().sort_by("id")
    return [tuple(row.values()) for row in rows.to_pylist()]


@pytest.mark.parametrize("keyed", [True, False])
def test_an_update_sees_the_values_before_it(catalog: Catalog, keyed: bool) -> None:
    table = _make(catalog, keyed=keyed)
    result = table.update({"v": "target.v + 1", "s": "CAST(v AS STRING)", "x": "price * 2"}, "v IS NOT NULL")
    assert result.updated_rows == 2
    assert _read(table, "v", "s", "x") == [(1, 11, "10", 3.0), (2, 21, "20", 3.0), (3, None, None, 0.5)]


@pytest.mark.parametrize("keyed", [True, False])
def test_values_are_themselves_and_texts_are_expressions(catalog: Catalog, keyed: bool) -> None:
    table = _make(catalog, keyed=keyed)
    table.update({"v": 5, "s": literal("v"), "d": dt.date(2025, 1, 2), "price": Decimal("7.25"), "x": None}, "id = 1")
    table.update({"s": "upper('it''s')", "d": "'2026-01-02'"}, "id = :id", params={"id": 2})
    table.update({"s": "concat(:text, '!')"}, "id = :id", params={"id": 3, "text": "a'b"})
    found = table.scan().to_arrow().sort_by("id").to_pylist()
    assert found[0] == {
        "id": 1,
        "v": 5,
        "s": "v",
        "d": dt.date(2025, 1, 2),
        "price": Decimal("7.25"),
        "x": None,
    }
    assert (found[1]["s"], found[1]["d"], found[2]["s"]) == ("IT'S", dt.date(2026, 1, 2), "a'b!")


def test_an_update_of_a_keyed_table_is_shown_with_the_old_row(catalog: Catalog) -> None:
    table = _make(catalog)
    table.update({"v": 11}, "id = 1")
    changes = table.changes(1, columns=["id", "v", "_row_kind"]).to_arrow().to_pylist()
    assert changes == [{"id": 1, "v": 10, "_row_kind": "-U"}, {"id": 1, "v": 11, "_row_kind": "+U"}]
    raw = table.changes(1, columns=["id", "v", "_row_kind"], raw=True).to_arrow().to_pylist()
    assert raw == [{"id": 1, "v": 11, "_row_kind": "+U"}]


def test_the_first_clause_that_holds_wins(catalog: Catalog) -> None:
    table = _make(catalog)
    source = [{**_row(1, 1), "op": "D"}, {**_row(2, 7, "n"), "op": "U"}, {**_row(8), "op": "D"}, {**_row(9), "op": "I"}]
    result = table.merge(
        source,
        ["id"],
        when_matched("source.op = 'D'").delete(),
        when_matched().update_all(),
        when_not_matched("source.op <> 'D'").insert_all(),
        when_not_matched_by_source("v IS NULL").update({"s": literal("left")}),
    )
    assert (result.updated_rows, result.deleted_rows, result.inserted_rows) == (2, 1, 1)
    assert _read(table, "v", "s") == [(2, 7, "n"), (3, None, "left"), (9, None, None)]


def test_an_upsert_reads_nothing(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _make(catalog)
    monkeypatch.setattr(target_rows, "plan_files", _fail)
    result = table.merge([_row(1, 0), _row(4, 4)], ["id"], when_matched().update_all(), when_not_matched().insert_all())
    assert result.upserted_rows == 2
    assert [row[0] for row in _read(table)] == [1, 2, 3, 4]


def test_few_keys_are_looked_up_and_not_scanned(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _make(catalog)
    table.upsert(pa.Table.from_pylist([_row(key, key) for key in range(10, 200)], _SCHEMA))
    monkeypatch.setattr(target_rows.TargetRows, "read", _fail)
    result = table.merge(
        [_row(50, 1), _row(999, 9)],
        ["id"],
        when_matched("target.v = 50").update({"v": "source.v"}),
        when_not_matched("source.v = 9").insert_all(),
    )
    assert (result.updated_rows, result.inserted_rows) == (1, 1)
    assert table.scan(["v"], "id IN (50, 999)").to_arrow().column("v").to_pylist() == [1, 9]


@pytest.mark.parametrize("source", [[], pa.table({"id": pa.array([], pa.int64()), "v": pa.array([], pa.int64())})])
def test_a_source_may_be_empty(catalog: Catalog, source: Any) -> None:
    table = _make(catalog)
    assert table.merge(source, ["id"], when_matched().update({"v": "source.v"})).updated_rows == 0
    with catalog.transaction() as tx:
        tx.table("shop.t").merge(source, ["id"], when_not_matched_by_source("target.v = 10").delete())
    assert _read(table) == [(2,), (3,)]


def test_the_parts_of_a_source_go_together(catalog: Catalog) -> None:
    table = _make(catalog)
    few, more = pa.table({"id": [1], "v": pa.nulls(1)}), pa.table({"id": [2], "v": [7]})
    table.merge([few, more], ["id"], when_matched().update({"v": "source.v"}))
    assert _read(table, "v") == [(1, None), (2, 7), (3, None)]
    with pytest.raises(InvalidArgument, match="different types") as caught:
        table.merge([more, pa.table({"id": ["x"], "v": [1]})], ["id"], when_matched().delete())
    assert caught.value.reason == "SCHEMA_MISMATCH"


def test_keys_beyond_the_type_of_the_column_match_nothing(catalog: Catalog) -> None:
    schema = pa.schema([pa.field("id", pa.int32(), nullable=False), ("v", pa.int64())])
    table = catalog.create_table("shop.t", schema, primary_key=["id"])
    table.upsert(pa.table({"id": pa.array(range(300), pa.int32()), "v": [0] * 300}, schema=schema))
    source = pa.table({"id": [5, 2**40 + 5], "v": [1, 2]})
    assert table.merge(source, ["id"], when_matched("source.v > 0").update({"v": "source.v"})).updated_rows == 1
    assert table.count("v = 1") == 1


def test_null_matches_nothing_and_nan_itself(catalog: Catalog) -> None:
    schema = pa.schema([("x", pa.float64()), ("s", pa.string())])
    table = catalog.create_table("shop.t", schema)
    table.append(pa.table({"x": [float("nan"), None, -0.0], "s": ["nan", "null", "zero"]}))
    source = pa.table({"x": [float("nan"), None, 0.0], "s": ["1", "2", "3"]})
    for on in (["x"], "target.x = source.x"):
        result = table.merge(
            source, on, when_matched().update({"s": "target.s"}), when_not_matched("s = '0'").insert_all()
        )
        assert result.updated_rows == 2, on


def test_a_condition_on_the_table_alone_matches_every_row_of_the_source(catalog: Catalog) -> None:
    table, source = _make(catalog), pa.table({"n": [7, 8]})
    found = table.merge(source, "target.v = 10", when_matched("n = 8").update({"v": "n"}))
    assert (found.updated_rows, _read(table, "v")) == (1, [(1, 8), (2, 20), (3, None)])
    with pytest.raises(InvalidArgument, match="Several rows of the source"):
        table.merge(source, "v = 20", when_matched().update({"v": "n"}))
    assert table.merge(source.slice(0, 0), "v = 20", when_matched().delete()).snapshot_id is None


def test_lists_and_maps_are_values_as_others(catalog: Catalog) -> None:
    columns = pa.schema([("id", pa.int64()), ("n", pa.list_(pa.int32())), ("m", pa.map_(pa.string(), pa.int32()))])
    table = catalog.create_table("shop.nested", columns)
    table.append([{"id": 1}, {"id": 2}], fill_missing=True)
    values: dict[str, Any] = {"n": [3, None], "m": {"a": 1}}
    assert table.update(values).updated_rows == 2
    assert _read(table, "n", "m") == [(each, [3, None], [("a", 1)]) for each in (1, 2)]


def test_a_merge_that_changes_a_row_twice_names_it(catalog: Catalog) -> None:
    table = _make(catalog)
    twice = [_row(2, 1), _row(2, 2)]
    with pytest.raises(InvalidArgument, match=r"Several rows of the source .* \(id=2\)") as caught:
        table.merge(twice, ["id"], when_matched().update({"v": "source.v"}))
    assert caught.value.reason == "MATCHED_TWICE"
    with pytest.raises(InvalidArgument, match=r"\(id=2\)"):
        table.merge(twice, ["id"], when_matched().update_all(), when_not_matched().insert_all())
    with pytest.raises(InvalidArgument, match=r"\(id=7\)"):
        table.merge([_row(7), _row(7)], ["id"], when_not_matched().insert_all())
    # A condition that holds for one of the two rows makes it clear.
    assert table.merge(twice, ["id"], when_matched("source.v = 2").update({"v": "source.v"})).updated_rows == 1
    assert len(table.snapshots()) == 2


def test_an_insert_replaces_no_row_of_its_key(catalog: Catalog) -> None:
    table = _make(catalog)
    new = when_not_matched().insert({"id": "source.id"})
    for on in (["v"], "target.id = source.id AND target.v > 100"):
        with pytest.raises(InvalidArgument, match=r"would replace rows .* \(id=1\)") as caught:
            table.merge([_row(1, 99)], on, new)
        assert caught.value.reason == "KEY_EXISTS"
    assert _read(table, "v") == [(1, 10), (2, 20), (3, None)]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.update({"id": 5}), ["'id' of shop.t cannot be updated", "primary key", "Delete the row"]),
        (lambda t: t.update({"v": "'x'"}), ["v: expected int64, got string"]),
        (lambda t: t.update({"v": 2.5}), ["2.5 is no value for column 'v'", "int64"]),
        (lambda t: t.update({"v": "price"}), []),
        (lambda t: t.update({"s": "paid"}), ["no column 'paid'", "single quotes"]),
        (lambda t: t.update({"w": 1}), ["no column 'w'", "near it"]),
        (lambda t: t.update({"V": 1, "v": 2}), ["gives column 'v' two values"]),
        (lambda t: t.update({}), ["names no column"]),
        (lambda t: t.update({"v": "sum(v)"}), ["several rows"]),
        (lambda t: t.update({"v": "v +"}), ["cannot be read"]),
        (lambda t: t.update({"v": "v, s"}), ["more than one expression"]),
        (lambda t: t.update({"v": "explode(array(1, 2))"}), ["several rows"]),
        (lambda t: t.update({"v": "(SELECT 1)"}), ["subquery", "MERGE"]),
        (lambda t: t.update({"v": 1}, "v >"), ["ends too early"]),
        (lambda t: t.update({"v": ":a"}, params={"a": 1, "b": 2}), [":b"]),
        (lambda t: t.update({"v": ":a"}), [":a", "params"]),
        (lambda t: t.update({"v": "'open"}), ["not closed"]),
        (lambda t: t.merge([], ["id"]), ["no clause"]),
        (lambda t: t.merge([_row(1)], ["id"], when_matched()), ["does not say what happens", ".update_all"]),
        (lambda t: t.merge([_row(1)], ["id"], "delete"), ["is no clause"]),
        (
            lambda t: t.merge([_row(1)], ["id"], when_matched().delete(), when_matched("v = 1").delete()),
            ["never reached"],
        ),
        (lambda t: t.merge([_row(1)], [], when_matched().delete()), ["on=[]"]),
        (lambda t: t.merge([_row(1)], ["id", "id"], when_matched().delete()), ["each once"]),
        (lambda t: t.merge([_row(1)], ["w"], when_matched().delete()), ["no such column"]),
        (lambda t: t.merge([_row(1)], "id = id", when_matched().delete()), ["is in both", "source.id"]),
        (lambda t: t.merge([_row(1)], "target.id", when_matched().delete()), ["no condition"]),
        (lambda t: t.merge([_row(1, 1)], ["id"], when_matched("source.v").delete()), ["no condition"]),
        (lambda t: t.merge([_row(1)], ["id"], when_matched().update({"id": "source.v"})), ["cannot be updated"]),
        (lambda t: t.merge([_row(1)], ["v"], when_matched().update_all()), ["would update the key"]),
        (lambda t: t.merge([{"id": 1}], ["id"], when_matched().update_all()), ["missing", "price"]),
        (lambda t: t.merge([{"id": "x"}], ["id"], when_matched().delete()), ["text is not parsed"]),
        (lambda t: t.merge([_row(1)], ["id"], when_not_matched().insert({"v": 1})), ["'id'", "NOT NULL"]),
        (lambda t: t.merge([_row(1)], ["id"], when_not_matched("target.v = 1").insert_all()), ["target"]),
        (lambda t: when_matched(5), ["a condition is SQL text"]),  # type: ignore[arg-type]
        (lambda t: when_matched().update([("v", 1)]), ["dict by column"]),  # type: ignore[arg-type]
    ],
)
def test_what_is_not_possible_is_refused_before_anything(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, change: Callable[[Table], object], words: list[str]
) -> None:
    table = _make(catalog)
    if words:
        monkeypatch.setattr(target_rows.TargetRows, "read", _fail)
    with pytest.raises(InvalidArgument) as caught:
        change(table)
    for word in words:
        assert word in caught.value.message
    assert table.snapshots().num_rows == 1


@pytest.mark.parametrize("keyed", [True, False])
def test_what_an_insert_leaves_out_is_its_default(catalog: Catalog, keyed: bool) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.int64()), ("s", pa.string())])
    key = ["id"] if keyed else []
    table = catalog.create_table("shop.d", schema, primary_key=key, defaults={"v": 7})
    table.merge([{"id": 1, "s": "a"}], ["id"], when_not_matched().insert_all())
    table.merge([{"id": 2}], ["id"], when_not_matched().insert({"id": "id"}))
    assert _read(table, "v", "s") == [(1, 7, "a"), (2, 7, None)]
    with pytest.raises(InvalidArgument, match="v is missing"):
        table.merge([{"id": 1, "s": "b"}], ["id"], when_matched().update_all())
    catalog.sql("UPDATE shop.d SET v = 0")
    catalog.sql("UPDATE shop.d SET v = DEFAULT WHERE id = 2")
    assert _read(table, "v") == [(1, 0), (2, 7)]


def test_sequence_fields_stay_and_their_rows_can_be_changed(catalog: Catalog) -> None:
    table = _make(catalog, options={"sequence.field": "v"})
    with pytest.raises(InvalidArgument, match=r"part of 'sequence\.field'"):
        table.update({"v": 1})
    table.update({"s": literal("new")}, "id = 1")
    assert table.merge([{"id": 2}], ["id"], when_matched().delete()).deleted_rows == 1
    assert _read(table, "v", "s") == [(1, 10, "new"), (3, None, None)]


def test_partition_columns_of_append_tables_can_be_updated(catalog: Catalog) -> None:
    table = catalog.create_table("shop.t", pa.schema([("p", pa.string()), ("v", pa.int64())]), partition_by=["p"])
    table.append(pa.table({"p": ["a", "a", "b"], "v": [1, 2, 3]}))
    assert table.update({"p": literal("c")}, "v >= 2").updated_rows == 2
    assert sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["v"]) == [
        {"p": "a", "v": 1},
        {"p": "c", "v": 2},
        {"p": "c", "v": 3},
    ]


@pytest.mark.parametrize(
    "options", [{"merge-engine": "first-row"}, {"rowkind.field": "s"}], ids=["first-row", "rowkind"]
)
def test_tables_whose_options_say_otherwise_are_refused(catalog: Catalog, options: dict[str, str]) -> None:
    table = catalog.create_table("shop.t", _SCHEMA, primary_key=["id"], options=options)
    with pytest.raises(InvalidArgument, match=next(iter(options))):
        table.update({"v": 1})


def test_deletes_of_a_table_that_drops_them_are_refused(catalog: Catalog) -> None:
    table = _make(catalog, options={"ignore-delete": "true"})
    with pytest.raises(InvalidArgument, match="RESET"):
        table.merge([_row(1)], ["id"], when_matched().delete())


def test_plain_changes_need_no_duckdb(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _make(catalog)

    def connect(self: Evaluator) -> Any:
        raise AssertionError("DuckDB is not needed")

    monkeypatch.setattr(Evaluator, "_connect", connect)
    table.update({"v": 5, "s": literal("x"), "x": None}, "id < 3")
    table.merge(
        [_row(1, 6), _row(7, 7)],
        ["id"],
        when_matched().update({"v": "source.v"}),
        when_not_matched().insert_all(),
        when_not_matched_by_source().delete(),
    )
    assert _read(table, "v", "s") == [(1, 6, "x"), (7, 7, None)]


def test_without_duckdb_expressions_name_the_extra(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _make(catalog)
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    with pytest.raises(InvalidArgument, match=r"lakelog\[sql\]") as caught:
        table.update({"v": "v + 1"})
    assert caught.value.reason == "MISSING_EXTRA"


# Other commits


@pytest.mark.parametrize("keyed", [True, False])
def test_a_commit_in_between_is_seen_by_the_next_try(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, keyed: bool
) -> None:
    table = _make(catalog, keyed=keyed)
    seen = _after_the_read(monkeypatch, lambda: catalog.table("shop.t").update({"v": 100}, "id = 1"))
    assert table.update({"v": "v + 1"}, "v >= 10").updated_rows == 2
    assert _read(table, "v") == [(1, 101), (2, 21), (3, None)]
    assert len(seen) == 2


def test_a_row_that_appears_in_between_is_not_inserted_twice(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _make(catalog, keyed=False)
    new = pa.Table.from_pylist([_row(4, 4)], _SCHEMA)
    _after_the_read(monkeypatch, lambda: catalog.table("shop.t").append(new))
    result = table.merge([_row(4, 5)], ["id"], when_matched().update_all(), when_not_matched().insert_all())
    assert (result.updated_rows, result.inserted_rows) == (1, 0)
    assert table.count("id = 4 AND v = 5") == table.count("id = 4") == 1


def test_appends_do_not_disturb_an_update_of_other_rows(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _make(catalog, keyed=False)
    new = pa.Table.from_pylist([_row(4, 4)], _SCHEMA)
    seen = _after_the_read(monkeypatch, lambda: catalog.table("shop.t").append(new), times=5)
    assert table.update({"v": 0}, "id = 1").updated_rows == 1
    assert len(seen) == 1


def test_tries_are_bounded(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _make(catalog)
    monkeypatch.setattr(run_again, "MAX_TRIES", 3)
    seen = _after_the_read(monkeypatch, lambda: catalog.table("shop.t").update({"v": 0}, "id = 1"), times=99)
    with pytest.raises(CommitConflict, match="3 times"):
        table.update({"v": "v + 1"}, "id = 1")
    assert len(seen) == 3
    assert _read(table, "v")[0] == (1, 0)


def test_a_guard_of_the_user_is_not_tried_again(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _make(catalog)
    table.update({"v": 1}, "id = 1")
    seen = _after_the_read(monkeypatch, lambda: None)
    with pytest.raises(CommitConflict, match="if_snapshot=1"):
        table.update({"v": 2}, "id = 1", if_snapshot=1)
    assert len(seen) == 1


@pytest.mark.parametrize("keyed", [True, False])
def test_the_same_identifier_is_applied_once(catalog: Catalog, keyed: bool) -> None:
    table = _make(catalog, keyed=keyed)
    first = table.update({"v": "v + 1"}, writer="w", identifier=1)
    again = table.update({"v": "v + 1"}, writer="w", identifier=1)
    assert again == lakelog.UpdateResult(first.snapshot_id, True, None)
    source = [_row(9, 1), _row(9, 2)] if not keyed else [_row(9, 1)]
    upserts = when_matched().update({"v": 0}), when_not_matched().insert_all()
    merges = [table.merge(source, ["id"], *upserts, writer="w", identifier=2) for _ in range(2)]
    assert (merges[0].inserted_rows, merges[1].already_applied) == (len(source), True)
    # Also if it is not the writer's last one any more.
    assert table.update({"v": "v + 1"}, writer="w", identifier=1).already_applied
    assert _read(table, "v")[:3] == [(1, 11), (2, 21), (3, None)]


def test_a_change_without_rows_makes_no_snapshot_and_counts(catalog: Catalog) -> None:
    table = _make(catalog)
    result = table.update({"v": 1}, "id = 99", writer="w", identifier=7)
    assert result == lakelog.UpdateResult(None, False, 0)
    assert catalog.last_identifier("w", "shop.t") == 7


def test_an_error_in_the_middle_leaves_nothing(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _make(catalog, keyed=False)
    with pytest.raises(InvalidArgument, match="cannot be computed"):
        table.update({"v": "CAST(concat(s, 'x') AS BIGINT)"})
    with pytest.raises(InvalidArgument, match="cannot be computed"):
        table.update({"v": "v / (id - 2)"})
    with pytest.raises(InvalidArgument, match="price"):
        table.update({"price": "price * 1.111"})
    assert table.snapshots().num_rows == 1
    assert _read(table, "v") == [(1, 10), (2, 20), (3, None)]


def test_changes_join_a_transaction(catalog: Catalog) -> None:
    table = _make(catalog)
    other = catalog.create_table("shop.u", _SCHEMA)
    with catalog.transaction() as tx:
        assert tx.table("shop.t").update({"v": 0}, "id = 1") == 1
        tx.table("shop.u").append(pa.Table.from_pylist([_row(1)], _SCHEMA))
        with pytest.raises(InvalidArgument, match="written to before"):
            tx.table("shop.t").merge([_row(1)], ["id"], when_matched().delete())
    assert _read(table, "v")[0] == (1, 0)
    assert other.count() == 1


def _after_the_read(monkeypatch: pytest.MonkeyPatch, do: Callable[[], object], times: int = 1) -> list[int]:
    """Does something after each of the first reads that a change plans; the list grows with each of these."""
    seen: list[int] = []
    plan = reading.plan_files
    busy = [False]

    def plan_and_do(*arguments: Any, **named: Any) -> Any:
        found = plan(*arguments, **named)
        if not busy[0]:
            seen.append(1)
            if len(seen) <= times:
                busy[0] = True
                do()
                busy[0] = False
        return found

    monkeypatch.setattr(target_rows, "plan_files", plan_and_do)
    return seen


def _fail(*_: object, **__: object) -> Any:
    raise AssertionError("nothing is read")
