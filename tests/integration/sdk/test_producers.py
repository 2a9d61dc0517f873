"""Tables whose commits bring their changelog: the producers `input` and `lookup` (semantics 3.1 to 3.5)."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.errors import InvalidArgument, Unavailable
from lakelog.format.tables.plan import PlanRequest
from lakelog.format.tables.snapshot import ChangelogState
from lakelog.sdk.catalog import Catalog
from lakelog.storage.merging import deletion_vectors
from metastore.testing import InProcessMetastore
from tests.support.tables.data_files import data_files
from tests.support.tables.faulty import FaultyStores
from tests.support.tables.keyed import SCHEMA, changelog_paths, emitted, make, replayed, rows, shown

FIRST = ("+I 1|10|100", "+I 1|20|200", "+I 1|40|400")
SECOND = ("+I 1|10|101", "+I 1|30|300", "+I 1|10|102", "-D 1|40|0")


@pytest.mark.parametrize(
    ("producer", "wanted"),
    [
        ("none", ["-U 1|10|100", "+U 1|10|102", "+I 1|30|300", "-D 1|40|400"]),
        ("input", ["+I 1|10|101", "+I 1|10|102", "+I 1|30|300", "-D 1|40|0"]),
        ("lookup", ["-U 1|10|100", "+U 1|10|102", "+I 1|30|300", "-D 1|40|400"]),
    ],
)
def test_the_vectors(catalog: Catalog, producer: str, wanted: list[str]) -> None:
    table = make(catalog, producer)
    table.write(rows(*FIRST))
    table.write(rows(*SECOND))
    assert emitted(table, 0, 1) == list(FIRST)
    assert emitted(table, 1, 2) == wanted
    assert emitted(table, 1, 2, raw=True) == ["+I 1|10|102", "+I 1|30|300", "-D 1|40|0"]
    assert shown(table) == {(1, 10): 102, (1, 20): 200, (1, 30): 300}
    has = ChangelogState.NONE if producer == "none" else ChangelogState.ATTACHED
    assert {each.changelog for each in catalog.metastore.list_snapshots(table.uuid).snapshots} == {has}


def test_what_changes_nothing_is_not_emitted(catalog: Catalog) -> None:
    """A delete of an absent key, and a new key that is deleted in the same commit."""
    table = make(catalog, "lookup")
    table.write(rows("-D 1|1|-", "+I 1|2|5", "-D 1|2|-"))
    assert table.changes().to_arrow().num_rows == 0
    (snapshot,) = catalog.metastore.list_snapshots(table.uuid).snapshots
    assert snapshot.changelog is ChangelogState.ATTACHED
    assert changelog_paths(table, catalog.metastore) == []


@pytest.mark.parametrize("engine", ["deduplicate", "first-row"])
def test_readers_merge_nothing(catalog: Catalog, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who looked old rows up has committed which rows are superseded."""
    table = make(catalog, "lookup", merge_engine=engine)
    table.write(rows("+I 1|1|5", "+I 1|2|6", "+I 1|3|7"))
    table.write(rows("+I 1|1|8", "+U 1|4|9", "+I 1|4|10"))
    table.write(rows("+I 1|3|1") if engine == "first-row" else rows("-D 1|2|-", "+I 1|3|1"))
    expected = [shown(table), [emitted(table, number) for number in range(3)]]

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("rows are merged")

    monkeypatch.setattr(deletion_vectors, "find_deleted_rows", refuse)
    catalog.context.caches.deletion_vectors.clear()
    assert [shown(table), [emitted(table, number) for number in range(3)]] == expected
    assert table.scan().count() == len(expected[0])
    # One commit that looks nothing up, and readers merge again.
    table.alter(set={"changelog-producer": "none"})
    table.write(rows("+I 1|1|11"))
    with pytest.raises(AssertionError, match="rows are merged"):
        shown(table)


def test_what_was_just_written_is_looked_up_in_without_reading_it_back(catalog: Catalog) -> None:
    table = make(catalog, "lookup")
    table.write(rows("+I 1|1|0"))
    table.write(rows("+I 1|1|1", "+U 1|2|1", "-D 1|3|-"))
    newest = catalog.metastore.plan(PlanRequest(table.uuid)).files.column("path")[-1].as_py()
    catalog.open_store(table.info).delete(newest)
    table.write(rows("+I 1|1|2", "-D 1|2|-", "+I 1|3|3"))
    assert emitted(table, 2) == ["-U 1|1|1", "+U 1|1|2", "-D 1|2|1", "+I 1|3|3"]


def test_equal_rows_are_emitted_unless_left_out(catalog: Catalog) -> None:
    table = make(catalog, "lookup")
    table.write(rows("+I 1|1|5", "+I 1|2|6"))
    table.write(rows("+I 1|1|5"))
    assert emitted(table, 1) == ["-U 1|1|5", "+U 1|1|5"]
    table.alter(set={"changelog-producer.row-deduplicate": "true"})
    table.write(rows("+I 1|1|5", "+I 1|2|7"))
    assert emitted(table, 2) == ["-U 1|2|6", "+U 1|2|7"]
    table.alter(set={"changelog-producer.row-deduplicate-ignore-fields": "v"})
    table.write(rows("+I 1|1|9", "+I 1|3|1"))
    assert emitted(table, 3) == ["+I 1|3|1"]
    assert shown(table) == {(1, 1): 9, (1, 2): 7, (1, 3): 1}


@pytest.mark.parametrize("producer", ["input", "lookup"])
def test_an_overwrite_brings_no_changelog(catalog: Catalog, producer: str) -> None:
    table = make(catalog, producer)
    table.write(rows("+I 1|1|5", "+I 2|2|6"))
    table.overwrite(pa.table({"pt": [1], "k": [9], "v": [9]}), partition={"pt": 1})
    table.write(rows("+U 1|9|10"))
    states = [each.changelog.value for each in catalog.metastore.list_snapshots(table.uuid).snapshots]
    assert states == ["attached", "none", "attached"]
    last = ["+U 1|9|10"] if producer == "input" else ["-U 1|9|9", "+U 1|9|10"]
    assert emitted(table, 0) == ["+I 1|1|5", "+I 2|2|6", *last]
    table.alter(set={"streaming-read-overwrite": "true"})
    assert emitted(table, 0) == ["+I 1|1|5", "+I 2|2|6", "-D 1|1|5", "+I 1|9|9", *last]


def test_a_range_may_hold_snapshots_of_both_sorts(catalog: Catalog) -> None:
    table = make(catalog, "none")
    for number, producer in enumerate(("none", "lookup", "none", "none", "input", "none")):
        table.alter(set={"changelog-producer": producer})
        table.write(rows(f"+I 1|1|{number}"))
    wanted = ["+I 1|1|0"]
    for number in (1, 2, 3):
        wanted += [f"-U 1|1|{number - 1}", f"+U 1|1|{number}"]
    wanted += ["+I 1|1|4", "-U 1|1|4", "+U 1|1|5"]
    assert emitted(table, 0) == wanted
    assert [emitted(table, number - 1, number) for number in (1, 5)] == [wanted[:1], ["+I 1|1|4"]]
    assert table.changes().count() == len(wanted)
    # Where a changelog says so, rows are told whose columns that are read have not changed.
    assert table.changes(columns=["k"]).count() == 1 + 2 + 1
    table.alter(set={"changelog-producer": "input"})
    assert emitted(table, 0) == wanted


def test_columns_and_filters_are_applied_at_the_source(catalog: Catalog) -> None:
    table = make(catalog, "lookup", bucket="2")
    table.write(rows(*(f"+I 1|{k}|{k}" for k in range(20))))
    table.write(rows(*(f"+I 1|{k}|{k + 100}" for k in range(20))))
    everything = emitted(table, 0)
    for condition, keep in (
        ("v >= 110", lambda k, v: v >= 110),
        ("k = 3", lambda k, v: k == 3),
        ("v < 5 AND k > 2", lambda k, v: v < 5 and k > 2),
        ("pt = 2", lambda k, v: False),
    ):
        left = [line for line in everything if keep(*map(int, line[3:].split("|")[1:]))]
        assert sorted(emitted(table, 0, filter=condition)) == sorted(left), condition
    # Each row stands for itself, so that files are left out by any column, and by the key's bucket.
    assert len(table.changes()._rows.files) == 4
    assert len(table.changes(filter="v > 110")._rows.files) == 2
    assert len(table.changes(filter="k = 3")._rows.files) == 2
    assert len(table.changes(filter="k = 3 AND v > 110")._rows.files) <= 1
    assert table.changes(columns=["v", "_row_kind"], filter="k = 3").to_arrow().to_pylist() == [
        {"v": 3, "_row_kind": "+I"},
        {"v": 3, "_row_kind": "-U"},
        {"v": 103, "_row_kind": "+U"},
    ]


@pytest.mark.parametrize("producer", ["input", "lookup"])
def test_more_rows_than_the_buffer(catalog: Catalog, producer: str) -> None:
    table = make(catalog, producer, write_buffer_size="1 kb", target_file_size="2 kb")
    first = [f"+I 1|{k}|{k}" for k in range(300)]
    table.write(rows(*first))
    second = [f"+U 1|{k % 300}|{k}" for k in range(900)]
    table.write(rows(*second))
    assert sorted(emitted(table, 0, 1)) == sorted(first)
    found = emitted(table, 1, 2)
    if producer == "input":
        assert sorted(found) == sorted(second)
        of_one = [line for line in found if line.startswith("+U 1|7|")]
        assert of_one == ["+U 1|7|7", "+U 1|7|307", "+U 1|7|607"]
    else:
        assert sorted(found) == sorted(
            [f"-U 1|{k}|{k}" for k in range(300)] + [f"+U 1|{k}|{k + 600}" for k in range(300)]
        )
        assert replayed(table) == shown(table)


def test_a_subscription_shows_the_changelog(catalog: Catalog) -> None:
    table = make(catalog, "input")
    table.write(rows(*FIRST))
    with table.subscribe("from-snapshot", options={"scan.snapshot-id": "1"}) as stream:
        batches = iter(stream)
        assert next(batches).data.num_rows == 3
        table.write(rows(*SECOND))
        batch = next(batches)
        assert batch.snapshot_id == 2
        assert batch.data.column("_row_kind").to_pylist() == ["+I", "+I", "+I", "-D"]


@pytest.mark.parametrize("options", [{}, {"scan.remove-normalize": "true"}])
@pytest.mark.parametrize("producer", ["none", "input", "lookup"])
def test_all_batches_of_a_subscription_have_the_same_columns(
    catalog: Catalog, producer: str, options: dict[str, str]
) -> None:
    """Also where a column is NOT NULL and a delete does not know it, and whether a snapshot has a changelog or not."""
    strict = SCHEMA.set(2, pa.field("v", pa.int64(), nullable=False))
    table = catalog.create_table("shop.t", strict, primary_key=["pt", "k"], options={"changelog-producer": producer})
    table.write(rows("+I 1|1|1"))
    with table.subscribe(options=options) as stream:
        batches = iter(stream)
        seen = [next(batches).data]
        table.write(rows("+U 1|1|2"))
        seen.append(next(batches).data)
        table.delete(pa.table({"pt": [1], "k": [1]}))
        seen.append(next(batches).data)
    assert [each.schema for each in seen[1:]] == [seen[0].schema] * 2
    is_raw = bool(options) or producer == "input"
    assert seen[2].column("v").to_pylist() == ([None] if is_raw else [2])
    assert seen[0].schema.field("v").nullable is (is_raw or producer == "lookup")


def test_a_repeat_is_emitted_once(catalog: Catalog, warehouse: Path) -> None:
    table = make(catalog, "lookup")
    first = table.write(rows("+I 1|1|1"), writer="w", identifier=1)
    before = data_files(warehouse)
    again = table.write(rows("+I 1|1|2", "+I 1|2|2"), writer="w", identifier=1)
    assert (again.snapshot_id, again.already_applied) == (first.snapshot_id, True)
    assert emitted(table, 0) == ["+I 1|1|1"]
    assert data_files(warehouse) == before


def test_several_tables_in_one_commit(catalog: Catalog) -> None:
    first = make(catalog, "lookup")
    second = catalog.create_table("shop.u", SCHEMA, primary_key=["pt", "k"], options={"changelog-producer": "input"})
    for value in (1, 2):
        with catalog.transaction() as tx:
            tx.table("shop.t").upsert(rows(f"+I 1|1|{value}").drop_columns(["_row_kind"]))
            tx.table("shop.u").upsert(rows(f"+I 1|1|{value}").drop_columns(["_row_kind"]))
    assert emitted(first, 1) == ["-U 1|1|1", "+U 1|1|2"]
    assert emitted(second, 1) == ["+I 1|1|2"]


def test_a_store_that_fails_while_rows_are_looked_up_leaves_nothing(
    metastore: InProcessMetastore, warehouse: Path
) -> None:
    stores = FaultyStores()
    catalog = Catalog(metastore, stores)
    catalog.create_database("shop")
    table = make(catalog, "lookup", bucket="4")
    table.write(rows("+I 1|1|1"))
    before = data_files(warehouse)
    # The data files of four buckets are made first, then those of the changelog.
    stores.fail_at("create", 6)
    with pytest.raises(Unavailable):
        table.write(rows(*(f"+I 1|{k}|1" for k in range(40))))
    assert stores.failures
    stores.heal()
    assert data_files(warehouse) == before
    assert emitted(table, 0) == ["+I 1|1|1"]


def test_producers_need_a_key(catalog: Catalog) -> None:
    with pytest.raises(InvalidArgument, match=r"'changelog-producer' = 'lookup'.*has no primary key"):
        catalog.create_table("shop.x", SCHEMA, options={"changelog-producer": "lookup"})
