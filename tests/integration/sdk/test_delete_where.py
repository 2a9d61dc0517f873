"""Rows deleted by a condition: gone for every read, at once or not at all, beside other writers of the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from lakelog.errors import CommitConflict, InvalidArgument
from lakelog.format.tables.plan import PlanRequest
from lakelog.sdk import transaction
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.sdk.transaction import TransactionTable
from lakelog.storage.parquet.live_file import to_live_files
from lakelog.writes import run_again
from lakelog.writes.row_changes import row_removal
from tests.support.tables.append_compaction import compact_append

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("day", pa.string()), ("price", pa.float64())])


def make(catalog: Catalog, **more: Any) -> Table:
    return catalog.create_table("shop.events", SCHEMA, **more)


def rows(*ids: int, day: str = "mon") -> pa.Table:
    return pa.table(
        [pa.array(ids, pa.int64()), pa.array([day] * len(ids)), pa.array([each / 2 for each in ids])], schema=SCHEMA
    )


def ids(table: Table, **at: Any) -> list[int]:
    return table.scan(["id"], **at).to_arrow().column("id").to_pylist()


def files(table: Table) -> list[Any]:
    return to_live_files(table._context.metastore.plan(PlanRequest(table.uuid, None)).files)


def test_deleted_rows_are_gone_from_every_read(catalog: Catalog) -> None:
    table = make(catalog)
    table.append(rows(*range(10)))
    table.append(rows(*range(10, 20)))
    result = table.delete_where("id = 3 OR id >= 17")
    assert (result.deleted_rows, result.snapshot_id, result.already_applied) == (4, 3, False)
    left = [*range(3), *range(4, 17)]
    assert ids(table) == left
    assert table.count() == 16
    assert table.count("id > 15") == 1
    assert ids(table, filter="id > 2 AND id < 6") == [4, 5]
    assert ids(table, limit=5) == left[:5]
    assert table.scan().to_arrow().column("price").to_pylist() == [each / 2 for each in left]
    # What was before stays readable, and what comes later is there.
    assert ids(table, snapshot_id=2) == [*range(20)]
    table.append(rows(3, 18))
    assert ids(table) == [*left, 3, 18]
    assert table.count() == 18
    # A second deletion names all that are gone.
    assert table.delete_where("id <= 4").deleted_rows == 5
    assert ids(table) == [*range(5, 17), 18]
    assert [(file.row_count, file.delete_count) for file in files(table)] == [(10, 5), (10, 3), (2, 1)]


def test_a_file_without_a_row_left_is_removed(catalog: Catalog) -> None:
    table = make(catalog)
    table.append(rows(1, 2))
    table.append(rows(3, 4))
    assert table.delete_where("id = 1").deleted_rows == 1
    assert table.delete_where("id = 2 OR id = 3").deleted_rows == 2
    assert [(file.row_count, file.delete_count) for file in files(table)] == [(2, 1)]
    assert ids(table) == [4]


def test_nothing_that_matches_makes_no_snapshot(catalog: Catalog) -> None:
    table = make(catalog)
    assert table.delete_where("id = 1") == table.delete_where("true")
    table.append(rows(1))
    result = table.delete_where("id = 2")
    assert (result.deleted_rows, result.snapshot_id) == (0, None)
    assert table.snapshots().num_rows == 1


def test_null_is_not_true(catalog: Catalog) -> None:
    table = make(catalog)
    table.append(pa.table([[1, 2], pa.array([None, "mon"]), pa.array([None, 1.0])], schema=SCHEMA))
    assert table.delete_where("price > 0 OR price <= 0").deleted_rows == 1
    assert ids(table) == [1]
    assert table.delete_where("price IS NULL").deleted_rows == 1


def test_parameters_are_values(catalog: Catalog) -> None:
    table = make(catalog)
    table.append(rows(1, 2, 3))
    assert table.delete_where("id IN (:ids)", params={"ids": [1, 3]}).deleted_rows == 2
    assert ids(table) == [2]


def test_whole_partitions_go_without_being_read(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(catalog, partition_by=["day"])
    for day in ("mon", "tue", "wed"):
        table.append(rows(1, 2, day=day))
    table.delete_where("id = 1 AND day = 'tue'")
    monkeypatch.setattr(row_removal, "_remove_found", _never)
    result = table.delete_where("day IN ('mon', 'tue')")
    assert result.deleted_rows == 3
    assert {(each["id"], each["day"]) for each in table.scan().to_arrow().to_pylist()} == {(1, "wed"), (2, "wed")}
    monkeypatch.undo()
    assert table.delete_where("day = 'wed' AND id = 2").deleted_rows == 1
    assert ids(table) == [1]


def _never(*_: object) -> None:
    raise AssertionError("no file needs to be read")


def test_a_transaction_deletes_and_writes_other_tables_at_once(catalog: Catalog) -> None:
    table, other = make(catalog), catalog.create_table("shop.gone", SCHEMA)
    table.append(rows(1, 2, 3))
    with catalog.transaction() as tx:
        assert tx.table("shop.events").delete_where("id < 3") == 2
        tx.table("shop.gone").append(rows(1, 2))
        assert ids(table) == [1, 2, 3]
    assert ids(table) == [3]
    assert ids(other) == [1, 2]
    tx = catalog.transaction()
    deleting = tx.table("shop.events")
    deleting.append(rows(4))
    with pytest.raises(InvalidArgument, match="was written to before"):
        deleting.delete_where("id = 3")
    tx.abandon()


def test_in_a_transaction_rows_can_be_added_beside(catalog: Catalog) -> None:
    table = make(catalog)
    table.append(rows(1, 2, 3))
    with catalog.transaction() as tx:
        changing = tx.table("shop.events")
        assert changing.delete_where("id = 2") == 1
        changing.append(rows(20))
    assert ids(table) == [1, 3, 20]
    assert table.snapshots().column("added_rows").to_pylist() == [3, 1]


def test_a_rollback_brings_the_old_rows_back(catalog: Catalog) -> None:
    table = make(catalog)
    table.append(rows(1, 2, 3))
    table.tags.create("before")
    table.delete_where("id = 2")
    table.delete_where("id = 3")
    assert ids(table) == [1]
    table.rollback_to(2)
    assert ids(table) == [1, 3]
    assert table.count() == 2
    table.rollback_to("before")
    assert ids(table) == [1, 2, 3]
    table.rollback_to(3)
    assert ids(table) == [1]
    assert table.count() == 1


def test_a_repeat_under_its_number_deletes_once(catalog: Catalog) -> None:
    table = make(catalog)
    table.append(rows(1, 2))
    first = table.delete_where("id = 1", writer="w", identifier=7)
    table.append(rows(1))
    again = table.delete_where("id = 1", writer="w", identifier=7)
    assert (again.snapshot_id, again.already_applied, again.deleted_rows) == (first.snapshot_id, True, None)
    assert ids(table) == [2, 1]


def test_a_guard_of_the_user_is_never_bypassed(catalog: Catalog) -> None:
    table = make(catalog)
    table.append(rows(1, 2))
    table.append(rows(3))
    with pytest.raises(CommitConflict, match="if_snapshot"):
        table.delete_where("id = 1", if_snapshot=1)
    with pytest.raises(CommitConflict, match="if_unchanged"):
        table.delete_where("id = 1", if_unchanged=1)
    assert ids(table) == [1, 2, 3]
    assert table.delete_where("id = 1", if_snapshot=2, if_unchanged=2).deleted_rows == 1


class Between:
    """Lets something happen between the reading and the commit of a deletion."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, happenings: Iterator[Callable[[], object]]) -> None:
        self.read: list[list[str]] = []
        find, this = row_removal._remove_found, self

        def remove_found(*given: Any) -> None:
            find(*given)
            this.read.append([file.path for file in given[4]])
            happening = next(happenings, None)
            if happening is not None:
                happening()

        monkeypatch.setattr(row_removal, "_remove_found", remove_found)


def test_of_two_at_once_both_take_effect(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(catalog)
    table.append(rows(*range(10)))
    table.append(rows(*range(10, 20)))
    between = Between(monkeypatch, iter([lambda: table.delete_where("id IN (1, 2, 11)")]))
    result = table.delete_where("id IN (2, 3)")
    # Row 2 was deleted by the other one.
    assert result.deleted_rows == 1
    assert ids(table) == [0, *range(4, 11), *range(12, 20)]
    # The second try reads no file again.
    assert [len(read) for read in between.read] == [1, 2]


def test_a_compaction_between_makes_it_look_again(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(catalog)
    table.append(rows(*range(10)))
    table.append(rows(*range(10, 20)))
    between = Between(monkeypatch, iter([lambda: compact_append(table)]))
    assert table.delete_where("id IN (2, 13)").deleted_rows == 2
    assert ids(table) == [each for each in range(20) if each not in (2, 13)]
    assert [len(read) for read in between.read] == [2, 1]


def test_rows_that_a_rollback_brings_back_between_go_as_well(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(catalog)
    table.append(rows(*range(10)))
    table.delete_where("id = 1")
    Between(monkeypatch, iter([lambda: table.rollback_to(1)]))
    # The first try cannot have found row 1, which is in the newest snapshot by the second.
    assert table.delete_where("id IN (1, 2)").deleted_rows == 2
    assert ids(table) == [0, *range(3, 10)]


def test_a_compaction_that_is_late_never_brings_rows_back(catalog: Catalog) -> None:
    table = make(catalog)
    table.append(rows(*range(10)))
    table.append(rows(*range(10, 20)))
    dropped = compact_append(table, before_commit=lambda: table.delete_where("id = 5"))
    assert [each.reason for each in dropped] == ["INPUT_GONE"]
    assert table.count() == 19
    assert compact_append(table) == ()
    assert sorted(ids(table)) == [each for each in range(20) if each != 5]
    assert [(file.row_count, file.delete_count, file.deletion_vector_path) for file in files(table)] == [(19, 0, None)]


def test_appends_between_never_delay_it(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(catalog)
    table.append(rows(*range(10)))
    between = Between(monkeypatch, iter([lambda: table.append(rows(1, 2))] * 3))
    assert table.delete_where("id = 1").deleted_rows == 1
    assert len(between.read) == 1
    # Rows that came meanwhile stay.
    assert sorted(ids(table)) == [0, 1, 2, *range(2, 10)]


def test_it_gives_up_after_many_tries(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(catalog)
    table.append(rows(*range(100)))
    deleted = iter(range(50, 100))
    find = row_removal.remove_matching

    def remove_matching(*given: Any) -> int:
        count = find(*given)
        if given[3] == "id = 1":
            table.delete_where(f"id = {next(deleted)}")
        return count

    monkeypatch.setattr(transaction, "remove_matching", remove_matching)
    monkeypatch.setattr(run_again, "MAX_TRIES", 3)
    monkeypatch.setattr(type(table._context.clock), "sleep", lambda *_: None)
    with pytest.raises(CommitConflict, match="tried 3 times") as error:
        table.delete_where("id = 1")
    assert error.value.reason == "INPUT_GONE"
    monkeypatch.undo()
    assert 1 in ids(table)
    # What the attempts wrote is gone.
    found = table.check_files()
    assert not found.orphans


def test_a_failure_in_the_middle_leaves_nothing(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(catalog)
    table.append(rows(*range(10)))

    def fail() -> None:
        raise RuntimeError("killed")

    Between(monkeypatch, iter([fail]))
    with pytest.raises(RuntimeError):
        table.delete_where("id = 1")
    monkeypatch.undo()
    assert ids(table) == [*range(10)]
    assert not table.check_files().orphans


@pytest.mark.parametrize("given", [None, "", "  "])
def test_a_condition_is_required(catalog: Catalog, given: Any) -> None:
    table = make(catalog)
    with pytest.raises(InvalidArgument, match="needs a condition"):
        table.delete_where(given)
    with pytest.raises(InvalidArgument, match="nothing"):
        table.delete_where("nothing = 1")


@pytest.mark.parametrize("sequence", [False, True])
def test_with_a_key_rows_are_deleted_by_their_keys(catalog: Catalog, sequence: bool) -> None:
    options = {"bucket": "2", **({"sequence.field": "price"} if sequence else {})}
    table = make(catalog, primary_key=["id"], options=options)
    table.upsert(rows(*range(10)))
    table.upsert(rows(*range(5), day="tue"))
    result = table.delete_where("day = 'tue' AND id > 1 OR id = 9")
    assert result.deleted_rows == 4
    assert sorted(ids(table)) == [0, 1, 5, 6, 7, 8]
    # Streams show it as any write.
    shown = table.changes(2, 3, columns=["id"]).to_arrow().to_pylist()
    assert {(each["id"], each["_row_kind"]) for each in shown} == {(each, "-D") for each in (2, 3, 4, 9)}
    assert table.delete_where("id = 100") == type(result)(None, False, 0)


def test_with_a_key_it_looks_again_if_its_buckets_changed(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(catalog, primary_key=["id"], options={"bucket": "1"})
    table.upsert(rows(1, 2))
    find, once = TransactionTable._delete_found, iter([True])

    def delete_found(self: TransactionTable, condition: str) -> int:
        count = find(self, condition)
        if next(once, False):
            table.upsert(rows(3))
        return count

    monkeypatch.setattr(TransactionTable, "_delete_found", delete_found)
    assert table.delete_where("id <> 2").deleted_rows == 2
    assert ids(table) == [2]


@pytest.mark.parametrize("options", [{"merge-engine": "first-row"}, {"ignore-delete": "true"}])
def test_tables_that_take_no_deletes_say_so(catalog: Catalog, options: dict[str, str]) -> None:
    table = make(catalog, primary_key=["id"], options={"bucket": "1", **options})
    table.upsert(rows(1, 2))
    with pytest.raises(InvalidArgument, match=r"No row of shop\.events can be deleted"):
        table.delete_where("id = 1")
