"""Deletes of tables with `sequence.field`: with a value, or of what is there (`latest=True`); never of nothing."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from lakelog.errors import FILE_MISSING, CommitConflict, DataCorrupted, InvalidArgument
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.writes.row_changes.latest_deletes import LatestDeletes

SCHEMA = pa.schema(
    [pa.field("k", pa.int64(), nullable=False), ("s", pa.int64()), ("t", pa.int64()), ("v", pa.string())]
)

Row = tuple[int, int | None, int | None, str]


def make(catalog: Catalog, sequence: str = "s", **options: str) -> Table:
    own = {"bucket": "2", "sequence.field": sequence} if sequence else {"bucket": "2"}
    return catalog.create_table("shop.seq", SCHEMA, primary_key=["k"], options=own | options)


def rows(*given: Row) -> pa.Table:
    columns = list(zip(*given, strict=True))
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def keys(*given: int) -> pa.Table:
    return pa.table({"k": pa.array(given, pa.int64())})


def state(table: Table, snapshot_id: int | None = None) -> list[Row]:
    return sorted(tuple(row.values()) for row in table.scan(snapshot_id=snapshot_id).to_arrow().to_pylist())


@pytest.mark.parametrize(
    ("given", "column"),
    [
        (keys(1, 2), "s"),
        (pa.table({"k": [1, 2], "s": [9, 9]}), "t"),
        (pa.table({"k": [1, 2], "s": [9, None], "t": [1, 1]}), "s"),
        (pa.table({"k": [1, 2], "s": pa.array([9, 9]), "t": pa.array([1, None])}), "t"),
    ],
)
def test_a_delete_without_its_sequence_is_refused(catalog: Catalog, given: pa.Table, column: str) -> None:
    table = make(catalog, "s,t")
    table.upsert(rows((1, 5, 5, "a"), (2, 5, 5, "b")))
    with pytest.raises(InvalidArgument, match=rf"shop.seq has no value for '{column}'.*latest=True") as error:
        table.delete(given)
    assert (error.value.reason, error.value.metadata["column"]) == ("SEQUENCE_MISSING", column)
    tx = catalog.transaction()
    with pytest.raises(InvalidArgument, match="has no value for"):
        tx.table("shop.seq").delete(given)
    tx.abandon()
    assert len(state(table)) == 2


def test_the_two_ways_out(catalog: Catalog) -> None:
    table = make(catalog)
    table.upsert(rows((1, 5, 0, "a"), (2, 5, 0, "b")))
    table.delete(pa.table({"k": [1], "s": [5]}))
    assert state(table) == [(2, 5, 0, "b")]
    assert table.delete(keys(2), latest=True).snapshot_id == 3
    assert state(table) == []


@pytest.mark.parametrize("producer", ["none", "input", "lookup"])
@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("sequence", ["s", "s,t"])
def test_a_delete_takes_the_sequence_of_its_row(catalog: Catalog, sequence: str, order: str, producer: str) -> None:
    options = {"sequence.field.sort-order": order, "changelog-producer": producer}
    table = make(catalog, sequence, **options)
    table.upsert(rows((1, 5, 7, "a"), (2, None, None, "b"), (3, 5, None, "c"), (4, 1, 1, "stays")))
    # A later commit that loses decides nothing.
    late, early = (4, 6) if order == "asc" else (6, 4)
    table.upsert(rows((1, late, 7, "late")))
    done = table.delete([keys(1, 2, 3), keys(1, 99)], latest=True)
    assert state(table, done.snapshot_id) == [(4, 1, 1, "stays")]
    # What comes late and is older than the row that went is beaten; what is newer is not.
    table.upsert(rows((1, late, 7, "late again"), (3, late, 9, "late, too")))
    assert state(table) == [(4, 1, 1, "stays")]
    table.upsert(rows((1, early, 7, "new"), (2, None, None, "new")))
    assert state(table) == [(1, early, 7, "new"), (2, None, None, "new"), (4, 1, 1, "stays")]


def test_keys_without_a_row_get_no_delete(catalog: Catalog) -> None:
    table = make(catalog)
    assert table.delete(keys(1), latest=True).snapshot_id is None
    table.upsert(rows((1, 5, 0, "a")))
    table.delete(pa.table({"k": [1], "s": [9]}))
    # The delete that is there beats more than one of the row's own value would.
    assert table.delete(keys(1, 2), latest=True).snapshot_id is None
    table.upsert(rows((1, 8, 0, "late"), (2, 1, 0, "first")))
    assert state(table) == [(2, 1, 0, "first")]


def test_other_tables_delete_what_is_there_anyway(catalog: Catalog) -> None:
    table = make(catalog, "")
    table.upsert(rows((1, 5, 0, "a")))
    table.delete(keys(1), latest=True)
    assert state(table) == []
    with pytest.raises(InvalidArgument, match="latest"):
        table.delete(keys(1), latest=1)  # type: ignore[arg-type]


def test_ignored_deletes_need_no_sequence(catalog: Catalog) -> None:
    table = make(catalog, **{"ignore-delete": "true"})
    table.upsert(rows((1, 5, 0, "a")))
    assert table.delete(keys(1)).snapshot_id is None
    assert table.delete(keys(1), latest=True).snapshot_id is None
    assert state(table) == [(1, 5, 0, "a")]


def test_a_repeat_answers_with_the_first_result(catalog: Catalog) -> None:
    table = make(catalog)
    table.upsert(rows((1, 5, 0, "a")))
    first = table.delete(keys(1), latest=True, writer="w", identifier=1)
    table.upsert(rows((1, 6, 0, "b")))
    again = table.delete(keys(1), latest=True, writer="w", identifier=1)
    assert (again.snapshot_id, again.already_applied) == (first.snapshot_id, True)
    assert state(table) == [(1, 6, 0, "b")]


def commit_after(table: Table, monkeypatch: pytest.MonkeyPatch, times: int) -> list[int]:
    """Another writer brings a newer row of key 1 between the look and the commit of the next so many commits."""
    metastore = table._context.metastore
    commit = metastore.commit
    done: list[int] = []
    busy: list[bool] = []

    def commit_late(request: Any) -> Any:
        if len(done) < times and not busy:
            busy.append(True)
            done.append(100 + len(done))
            table.upsert(rows((1, done[-1], 0, "newer")))
            busy.clear()
        return commit(request)

    monkeypatch.setattr(metastore, "commit", commit_late)
    return done


def test_a_row_that_comes_in_between_is_looked_up_again(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(catalog)
    table.upsert(rows((1, 5, 0, "a")))
    with monkeypatch.context() as inner:
        done = commit_after(table, inner, 2)
        deleted = table.delete(iter([keys(1)]), latest=True)
    assert done == [100, 101]
    assert deleted.snapshot_id == 4
    assert state(table) == []


def test_a_snapshot_that_expires_while_it_is_looked_at(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is missing then is no damage: the newest snapshot is looked at."""
    table = make(catalog)
    table.upsert(rows((1, 5, 0, "a")))
    find = LatestDeletes.find
    missed: list[int] = []

    def find_late(self: LatestDeletes, given: pa.Table) -> pa.Table:
        if missed:
            return find(self, given)
        missed.append(self.base_snapshot_id)
        table.upsert(rows((1, 6, 0, "b")))
        table.expire_snapshots(older_than=2**50, retain_last=1)
        raise DataCorrupted("gone", reason=FILE_MISSING)

    monkeypatch.setattr(LatestDeletes, "find", find_late)
    table.delete(keys(1), latest=True)
    assert (missed, state(table)) == ([1], [])


def test_no_one_looks_again_past_the_guard_of_a_user(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(catalog)
    table.upsert(rows((1, 5, 0, "a")))
    for guard in ("if_snapshot", "if_unchanged"):
        seen = table.scan().snapshot_id
        with monkeypatch.context() as inner:
            commit_after(table, inner, 1)
            with pytest.raises(CommitConflict, match=f"since snapshot {seen} "):
                table.delete(keys(1), latest=True, **{guard: seen})  # type: ignore[arg-type]
        assert state(table) == [(1, 100, 0, "newer")]


def test_a_transaction_looks_once(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(catalog)
    catalog.create_table("shop.other", SCHEMA, primary_key=["k"])
    table.upsert(rows((1, 5, 0, "a"), (2, 5, 0, "b")))

    def move(key: int) -> None:
        with catalog.transaction() as tx:
            tx.table("shop.other").upsert(rows((key, 0, 0, "moved")))
            tx.table("shop.seq").delete(keys(key), latest=True)

    move(2)
    assert state(table) == [(1, 5, 0, "a")]
    with monkeypatch.context() as inner:
        commit_after(table, inner, 1)
        with pytest.raises(CommitConflict, match=r"shop\.seq has changed since snapshot 2"):
            move(1)
    assert state(catalog.table("shop.other")) == [(2, 0, 0, "moved")]
    tx = catalog.transaction()
    tx.table("shop.seq").upsert(rows((3, 1, 0, "c")))
    with pytest.raises(InvalidArgument, match="Delete first"):
        tx.table("shop.seq").delete(keys(3), latest=True)
    tx.abandon()


def test_deletes_among_writers_leave_no_row_of_their_time(catalog: Catalog) -> None:
    """At the snapshot of each delete its key has no row, whatever raced with it."""
    table = make(catalog)
    table.upsert(rows(*((k, 0, 0, "") for k in range(3))))

    def work(seed: int) -> list[tuple[int, int]]:
        rng = random.Random(seed)
        deleted = []
        for step in range(8):
            key = rng.randrange(3)
            if rng.random() < 0.6:
                table.upsert(rows((key, rng.randrange(50), 0, f"{seed}-{step}")))
            else:
                done = table.delete(keys(key), latest=True)
                if done.snapshot_id is not None:
                    deleted.append((done.snapshot_id, key))
        return deleted

    with ThreadPoolExecutor(4) as pool:
        deleted = [each for found in pool.map(work, range(4)) for each in found]
    assert deleted
    for snapshot_id, key in deleted:
        before = {row[0] for row in state(table, snapshot_id - 1)}
        assert key in before
        assert {row[0] for row in state(table, snapshot_id)} == before - {key}
