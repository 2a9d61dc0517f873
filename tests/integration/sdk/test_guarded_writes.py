"""Writes that rest on rows that were read before: nobody else's write in between is lost."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from lakelog.errors import CommitConflict, InvalidArgument, NotFound
from lakelog.format.commit.guards import CHANGED_SINCE
from lakelog.reads.scan import Scan
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.writes.commit_options import CommitOptions
from tests.support.tables.data_files import data_files

KEYED = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("n", pa.int64())])


def users(*names: str) -> pa.Table:
    return pa.table({"u": pa.array(names, pa.string())})


def counters(values: dict[int, int]) -> pa.Table:
    return pa.table({"k": pa.array(list(values), pa.int64()), "n": pa.array(list(values.values()), pa.int64())})


def guard_by(guard: str, snapshot_id: int) -> CommitOptions:
    return {"if_snapshot": snapshot_id} if guard == "if_snapshot" else {"if_unchanged": snapshot_id}


def state(table: Table) -> list[str]:
    return sorted(row["u"] for row in table.scan().to_arrow().to_pylist())


def make_keyed(catalog: Catalog, **options: str) -> Table:
    return catalog.create_table("shop.counters", KEYED, primary_key=["k"], options={"bucket": "2", **options})


@pytest.mark.parametrize("guard", ["if_snapshot", "if_unchanged"])
def test_a_read_modify_write_loses_no_row_of_another(catalog: Catalog, warehouse: Any, guard: str) -> None:
    table = catalog.create_table("shop.users", users().schema)
    table.append(users("a", "b"))
    scan = table.scan(filter="u <> 'a'")
    keep = scan.to_arrow()
    other = table.append(users("c"), writer="other", identifier=1)
    before = data_files(warehouse)
    with pytest.raises(CommitConflict, match=r"shop.users has changed since snapshot 1 .*'other' wrote") as error:
        table.overwrite(keep, **guard_by(guard, scan.snapshot_id))
    assert error.value.metadata["snapshot_id"] == str(other.snapshot_id)
    assert state(table) == ["a", "b", "c"]
    # Nothing of it is left behind.
    assert data_files(warehouse) == before
    again = table.scan(filter="u <> 'a'")
    table.overwrite(again.to_arrow(), **guard_by(guard, again.snapshot_id))
    assert state(table) == ["b", "c"]


def test_control_without_a_guard_the_row_of_another_goes(catalog: Catalog) -> None:
    table = catalog.create_table("shop.users", users().schema)
    table.append(users("a", "b"))
    keep = table.scan(filter="u <> 'a'").to_arrow()
    table.append(users("c"))
    table.overwrite(keep)
    assert state(table) == ["b"]


def test_the_first_write_of_a_table_can_be_guarded(catalog: Catalog) -> None:
    table = catalog.create_table("shop.users", users().schema)
    empty = table.scan()
    assert empty.snapshot_id == 0
    table.append(users("a"), if_snapshot=empty.snapshot_id)
    with pytest.raises(CommitConflict, match="since snapshot 0"):
        table.append(users("a"), if_snapshot=empty.snapshot_id)
    assert state(table) == ["a"]


def test_every_write_takes_both_guards(catalog: Catalog) -> None:
    table = make_keyed(catalog)
    table.append(counters({1: 1}))
    writes: dict[str, Any] = {
        "append": lambda **guard: table.append(counters({1: 2}), **guard),
        "upsert": lambda **guard: table.upsert(counters({1: 2}), **guard),
        "delete": lambda **guard: table.delete(pa.table({"k": [1]}), **guard),
        "write": lambda **guard: table.write(counters({1: 2}).append_column("_row_kind", pa.array(["+U"])), **guard),
        "overwrite": lambda **guard: table.overwrite(counters({1: 2}), **guard),
        "rollback_to": lambda **guard: table.rollback_to(1, **guard),
    }
    for name, write in writes.items():
        newest = table.upsert(counters({1: 9})).snapshot_id
        assert newest is not None
        for guard in ("if_snapshot", "if_unchanged"):
            with pytest.raises(CommitConflict, match=f"has changed since snapshot {newest - 1} "):
                write(**{guard: newest - 1})
        assert write(if_snapshot=newest, if_unchanged=newest).snapshot_id == newest + 1, name


def test_a_guard_that_cannot_be_says_so(catalog: Catalog) -> None:
    table = make_keyed(catalog)
    for wrong in (-1, "3", 1.5, True, 10**20):
        with pytest.raises(InvalidArgument, match=r"if_snapshot=.* is no snapshot"):
            table.append(counters({1: 1}), if_snapshot=wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=r"if_unchanged=4 is no snapshot of shop.counters: its newest one is 0"):
        table.append(counters({1: 1}), if_unchanged=4)
    with pytest.raises(InvalidArgument, match=r"Give it with the table: tx.table\('shop.orders', if_snapshot=7\)"):
        catalog.transaction(if_snapshot=1)  # type: ignore[call-arg]


def test_a_repeat_under_its_identifier_succeeds_whatever_came_since(catalog: Catalog) -> None:
    table = make_keyed(catalog)
    first = table.upsert(counters({1: 1}), writer="w", identifier=1, if_snapshot=0)
    table.upsert(counters({1: 2}))
    again = table.upsert(counters({1: 1}), writer="w", identifier=1, if_snapshot=0)
    assert (again.snapshot_id, again.already_applied) == (first.snapshot_id, True)
    assert table.scan().to_arrow().to_pylist() == [{"k": 1, "n": 2}]


def test_looking_old_rows_up_again_does_not_settle_a_guard(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a guard a commit with a changelog by lookup is tried again until it holds."""
    table = make_keyed(catalog, **{"changelog-producer": "lookup"})
    table.upsert(counters({1: 1}))
    commit = catalog.metastore.commit
    tried: list[object] = []

    def commit_after_another(request: Any) -> Any:
        tried.append(request)
        if len(tried) == 1:
            # Between the lookup and the commit.
            table.upsert(counters({1: 50}), writer="other", identifier=1)
        return commit(request)

    monkeypatch.setattr(catalog.metastore, "commit", commit_after_another)
    with pytest.raises(CommitConflict) as error:
        table.upsert(counters({1: 2}), if_unchanged=1)
    assert (error.value.reason, error.value.metadata["other_writer"]) == (CHANGED_SINCE, "other")
    assert len(tried) == 2, "the other's commit, and ours once"
    tried.clear()
    monkeypatch.setattr(catalog.metastore, "commit", commit)
    assert table.scan().to_arrow().to_pylist() == [{"k": 1, "n": 50}]


@pytest.mark.parametrize("producer", ["none", "lookup"])
@pytest.mark.parametrize("guard", ["if_snapshot", "if_unchanged"])
def test_counters_that_several_writers_raise_are_exact(catalog: Catalog, guard: str, producer: str) -> None:
    table = make_keyed(catalog, **{"changelog-producer": producer})
    keys, writers, times = (1, 2, 3), 4, 6

    def raise_often(seed: int) -> int:
        rng, refused = random.Random(seed), 0
        for _ in range(times):
            key = rng.choice(keys)
            while True:
                scan = table.scan(filter=f"k = {key}")
                found = scan.to_arrow().column("n").to_pylist()
                try:
                    table.upsert(counters({key: sum(found) + 1}), **guard_by(guard, scan.snapshot_id))
                    break
                except CommitConflict:
                    refused += 1
        return refused

    with ThreadPoolExecutor(writers) as pool:
        refused = sum(pool.map(raise_often, range(writers)))
    assert sum(table.scan().to_arrow().column("n").to_pylist()) == writers * times
    assert refused, "they were in each other's way"


def commit_all(catalog: Catalog, *writes: tuple[str, dict[str, int], dict[int, int]]) -> dict[str, int | None]:
    """One transaction of writes, each a table, its guards and counters; without counters the table is only guarded."""
    with catalog.transaction() as tx:
        for name, guards, values in writes:
            table = tx.table(name, **guards)
            if values:
                table.upsert(counters(values))
    assert tx.result is not None
    return dict(tx.result.snapshot_ids)


def test_a_transaction_guards_what_it_only_reads(catalog: Catalog) -> None:
    """Write skew: each of two takes one doctor off duty while the other one seems to stay."""
    day = catalog.create_table("shop.day", KEYED, primary_key=["k"])
    night = catalog.create_table("shop.night", KEYED, primary_key=["k"])
    day.upsert(counters({1: 1}))
    night.upsert(counters({1: 1}))
    seen = {"shop.day": day.scan().snapshot_id, "shop.night": night.scan().snapshot_id}

    def take_off(name: str, other: str) -> dict[str, int | None]:
        return commit_all(
            catalog, (other, {"if_snapshot": seen[other]}, {}), (name, {"if_snapshot": seen[name]}, {1: 0})
        )

    assert take_off("shop.day", "shop.night") == {"shop.day": 2}
    with pytest.raises(CommitConflict, match=r"shop.day has changed since snapshot 1 \(if_snapshot=1\)"):
        take_off("shop.night", "shop.day")
    assert night.scan().to_arrow().to_pylist() == [{"k": 1, "n": 1}]


def test_the_tables_of_a_transaction_have_guards_of_their_own(catalog: Catalog) -> None:
    one = catalog.create_table("shop.one", KEYED, primary_key=["k"], options={"bucket": "8"})
    catalog.create_table("shop.two", KEYED, primary_key=["k"])
    one.upsert(counters({1: 1}))
    one.upsert(counters({2: 1}))
    commit_all(catalog, ("shop.one", {"if_unchanged": 1}, {1: 2}), ("shop.two", {"if_snapshot": 0}, {1: 1}))
    with pytest.raises(CommitConflict, match=r"shop.one has changed .*wrote to bucket \d with snapshot 2"):
        commit_all(catalog, ("shop.one", {"if_unchanged": 1}, {2: 2}), ("shop.two", {}, {1: 2}))
    # Of two guards of a table the stricter one counts, whichever was given first.
    with pytest.raises(CommitConflict, match="since snapshot 2"):
        commit_all(catalog, ("shop.one", {"if_snapshot": 2}, {}), ("shop.one", {"if_snapshot": 3}, {5: 1}))
    with pytest.raises(InvalidArgument, match=r"nothing is written to it\. Give if_snapshot"):
        commit_all(catalog, ("shop.one", {"if_unchanged": 1}, {}), ("shop.two", {}, {1: 2}))


def test_a_transaction_guards_the_rows_that_it_has_read(catalog: Catalog) -> None:
    """Only where rows of the scan's filter can lie; also where there is none yet."""
    stock = catalog.create_table("shop.stock", KEYED, primary_key=["k"], options={"bucket": "8"})
    orders = catalog.create_table("shop.orders", KEYED, primary_key=["k"])
    stock.upsert(counters({1: 5}))

    def order(seen: Scan, *more: Scan) -> int | None:
        with catalog.transaction() as tx:
            for scan in (seen, *more):
                tx.guard(scan)
            tx.table("shop.orders").upsert(counters({1: 1}))
        assert tx.result is not None
        return tx.result.snapshot_ids["shop.orders"]

    seen, absent, whole = stock.scan(filter="k = 1"), stock.scan(filter="k in (7, 8) and n > 3"), stock.scan()
    assert order(seen, absent, whole) == 1
    stock.upsert(counters({1: 5}), writer="other", identifier=1)
    assert order(absent) == 2
    for scans in ((seen,), (whole,), (absent, seen), (stock.scan(filter="n > 3", snapshot_id=1),)):
        with pytest.raises(CommitConflict, match=r"shop.stock has changed since snapshot 1 .*'other' wrote"):
            order(*scans)
    fresh = stock.scan(filter="k = 1")
    stock.upsert(counters({7: 1}))
    with pytest.raises(CommitConflict, match=r"'sdk-.*wrote to bucket \d with snapshot 3"):
        order(absent)
    assert order(fresh) == 3
    # Two reads of one table are judged from the older one on.
    with pytest.raises(CommitConflict, match="since snapshot 1 "):
        order(fresh, seen)
    assert orders.scan().count() == 1


def test_a_partition_that_was_read_is_guarded_before_it_exists(catalog: Catalog) -> None:
    schema = pa.schema([("day", pa.string()), ("n", pa.int64())])
    sales = catalog.create_table("shop.sales", schema, partition_by=["day"])
    catalog.create_table("shop.sums", schema)

    def sell(day: str) -> None:
        sales.append(pa.table({"day": [day], "n": [1]}, schema))

    def close(day: str) -> None:
        """Notes what was sold on a day, with a guard of what was read before someone else sold something."""
        seen = sales.scan(filter=f"day = '{day}'")
        rows = seen.to_arrow()
        between.pop()()
        with catalog.transaction() as tx:
            tx.guard(seen)
            tx.table("shop.sums").append(pa.table({"day": [day], "n": [rows.num_rows]}, schema))

    between = [lambda: sell("mon"), lambda: sell("tue"), lambda: sell("mon")]
    with pytest.raises(CommitConflict, match="wrote to partition day=mon with snapshot 1"):
        close("mon")
    close("mon")
    with pytest.raises(CommitConflict, match="wrote to partition day=mon with snapshot 3"):
        close("mon")
    assert catalog.table("shop.sums").scan().to_arrow().to_pylist() == [{"day": "mon", "n": 1}]


def test_changes_are_no_rows_to_guard_and_tables_may_go(catalog: Catalog) -> None:
    table, gone = make_keyed(catalog), catalog.create_table("shop.gone", KEYED, primary_key=["k"])
    table.upsert(counters({1: 1}))
    tx = catalog.transaction()
    for changes in (table.changes(0, 1), table.changes(0, 0)):
        with pytest.raises(
            InvalidArgument, match=r"shows what changed in shop.counters.*tx.table\('shop.counters', if_"
        ):
            tx.guard(changes)
    for other in (table, table.scan().to_arrow(), 1):
        with pytest.raises(InvalidArgument, match=rf"A {type(other).__name__} is not a scan.*Give the scan whose rows"):
            tx.guard(other)  # type: ignore[arg-type]
    tx.guard(gone.scan())
    tx.table("shop.counters").upsert(counters({1: 2}))
    catalog.drop_table("shop.gone")
    with pytest.raises(NotFound, match=r"shop.gone was dropped"):
        tx.commit()
    with pytest.raises(InvalidArgument, match="has ended"):
        tx.guard(table.scan())
    assert table.scan().to_arrow().to_pylist() == [{"k": 1, "n": 1}]
