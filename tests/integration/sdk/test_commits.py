"""Commits of the SDK when all goes well and when something breaks: semantics 7.1, 7.4, reliability C2, C4, C8."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakelog.errors import CommitConflict, InvalidArgument, LakelogError, OutcomeUnknown, Unavailable
from lakelog.format.commit.request import CommitRequest, CommitResult
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from metastore.testing import InProcessMetastore
from tests.support.tables.data_files import data_files
from tests.support.tables.faulty import FaultyMetastore, FaultyStores

KEYED = pa.schema([("id", pa.int64()), ("v", pa.string())])


@pytest.fixture
def stores() -> FaultyStores:
    return FaultyStores()


@pytest.fixture
def gate(metastore: InProcessMetastore) -> FaultyMetastore:
    return FaultyMetastore(metastore)


@pytest.fixture
def catalog(gate: FaultyMetastore, stores: FaultyStores) -> Catalog:
    catalog = Catalog(gate, stores)
    catalog.create_database("shop")
    return catalog


@pytest.fixture
def table(catalog: Catalog) -> Table:
    return catalog.create_table("shop.t", KEYED, primary_key=["id"], options={"bucket": "2"})


def rows(*ids: int, v: str = "x") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array([v] * len(ids), pa.string())})


def found(table: Table) -> dict[int, str]:
    return {row["id"]: row["v"] for row in table.scan().to_arrow().to_pylist()}


# Identity


def test_a_repeated_commit_is_applied_once_and_leaves_no_file(table: Table, warehouse: Path) -> None:
    first = table.upsert(rows(1, 2), writer="job", identifier=5)
    table.upsert(rows(3))
    before = data_files(warehouse)
    again = table.upsert(rows(1, 2, 77, v="other rows"), writer="job", identifier=5)
    assert (first.snapshot_id, first.already_applied) == (1, False)
    assert (again.snapshot_id, again.already_applied) == (1, True)
    assert found(table) == {1: "x", 2: "x", 3: "x"}
    assert data_files(warehouse) == before


def test_an_empty_commit_makes_no_snapshot_but_its_identifier_counts(table: Table) -> None:
    empty = table.upsert(rows(), writer="job", identifier=1)
    assert (empty.snapshot_id, empty.already_applied) == (None, False)
    later = table.upsert(rows(1), writer="job", identifier=1)
    assert (later.snapshot_id, later.already_applied) == (None, True)
    assert found(table) == {}
    assert table.upsert(rows(), allow_empty=True).snapshot_id == 1
    assert table.scan().snapshot_id == 1


def test_a_gap_in_a_writers_numbers_is_refused(table: Table, warehouse: Path) -> None:
    table.upsert(rows(1), writer="job", identifier=1)
    before = data_files(warehouse)
    with pytest.raises(LakelogError, match="job"):
        table.upsert(rows(2), writer="job", identifier=4, previous_identifier=3)
    assert data_files(warehouse) == before
    table.upsert(rows(2), writer="job", identifier=2, previous_identifier=1)
    assert set(found(table)) == {1, 2}


@pytest.mark.parametrize(
    ("arguments", "missing"),
    [({"writer": "w"}, "identifier="), ({"identifier": 1}, "writer="), ({"previous_identifier": 1}, "together with")],
)
def test_half_an_identity_is_refused(table: Table, arguments: dict[str, Any], missing: str) -> None:
    with pytest.raises(InvalidArgument, match=missing):
        table.upsert(rows(1), **arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"writer": "", "identifier": 1}, "writer='' is no name"),
        ({"writer": 5, "identifier": 1}, "writer=5 is no name"),
        ({"writer": "w", "identifier": "1"}, "identifier='1' is no number"),
        ({"writer": "w", "identifier": True}, "identifier=True is no number"),
        ({"writer": "w", "identifier": 1.0}, "identifier=1.0 is no number"),
        ({"writer": "w", "identifier": 1, "previous_identifier": "0"}, "previous_identifier='0' is no number"),
        ({"properties": {"a": 1}}, "properties has 1 for 'a'"),
        ({"properties": {1: "a"}}, "properties has 'a' for 1"),
        ({"properties": "a"}, "properties is a str"),
    ],
)
def test_what_a_commit_cannot_be_known_by_is_refused(table: Table, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        table.upsert(rows(1), **arguments)
    assert table.snapshots().num_rows == 0


def test_the_watermark_never_falls(table: Table) -> None:
    moment = dt.datetime.fromtimestamp(2.048, dt.UTC)
    for number, watermark in enumerate([None, 1024, 600, None, moment]):
        table.upsert(rows(number), watermark=watermark)
    assert table.snapshots().column("watermark").to_pylist() == [None, 1024, 1024, 1024, 2048]
    with pytest.raises(InvalidArgument, match="watermark="):
        table.upsert(rows(9), watermark="now")


# Transactions


def test_a_transaction_is_all_or_nothing(catalog: Catalog, table: Table, warehouse: Path) -> None:
    log = catalog.create_table("shop.log", KEYED)
    with catalog.transaction(writer="w", identifier=1, properties={"a": "b"}) as tx:
        tx.table("shop.t").upsert(rows(1, 2))
        tx.table("shop.log").append(rows(7))
        tx.table("shop.t").delete(pa.table({"id": [2]}))
        tx.table("shop.log").append(rows(8))
    assert tx.result is not None
    assert tx.result.snapshot_ids == {"shop.t": 1, "shop.log": 1}
    assert found(table) == {1: "x"}
    assert [row["id"] for row in log.scan().to_arrow().to_pylist()] == [7, 8]
    assert log.snapshots().column("properties").to_pylist() == [[("a", "b")]]
    before = data_files(warehouse)
    with pytest.raises(ZeroDivisionError), catalog.transaction() as broken:  # noqa: PT012
        broken.table("shop.t").upsert(rows(3))
        broken.table("shop.log").append(rows(9))
        raise ZeroDivisionError
    assert broken.result is None
    assert (found(table), log.scan().count(), data_files(warehouse)) == ({1: "x"}, 2, before)
    with pytest.raises(InvalidArgument, match="has ended"):
        broken.table("shop.t")


def test_a_repeated_transaction_is_applied_once(catalog: Catalog, table: Table, warehouse: Path) -> None:
    log = catalog.create_table("shop.log", KEYED)
    results = []
    for _ in range(2):
        with catalog.transaction(writer="w", identifier=9) as tx:
            tx.table("shop.t").upsert(rows(1))
            tx.table("shop.log").append(rows(1))
        results.append(tx.result)
        files = data_files(warehouse)
    assert [result is not None and result.already_applied for result in results] == [False, True]
    assert results[0] is not None
    assert results[1] is not None
    assert results[1].snapshot_ids == results[0].snapshot_ids
    assert (log.scan().count(), len(files)) == (1, 2)


def test_a_table_may_join_after_files_were_written(catalog: Catalog, warehouse: Path) -> None:
    tables = [
        catalog.create_table(f"shop.t{n}", KEYED, primary_key=["id"], options={"write-buffer-size": "1 kb"})
        for n in range(3)
    ]
    with catalog.transaction() as tx:
        for table in tables:
            tx.table(table.name).upsert(rows(*range(500)))
            tx.table("shop.t0").upsert(rows(*range(100), v="again"))
    assert [table.scan().count() for table in tables] == [500, 500, 500]
    assert found(tables[0])[99] == "again"
    listed = {f"{table.uuid}/{path}" for table in tables for path in table.files().column("path").to_pylist()}
    assert set(data_files(warehouse)) == listed
    assert len({path.split("/")[2] for path in listed}) == 1


def test_overwrite_comes_first_in_a_transaction(catalog: Catalog, table: Table) -> None:
    table.upsert(rows(1, 2))
    with catalog.transaction() as tx:
        tx.table("shop.t").overwrite(rows(5))
        tx.table("shop.t").upsert(rows(6))
    assert set(found(table)) == {5, 6}
    with pytest.raises(InvalidArgument, match="Overwrite it first"), catalog.transaction() as tx:  # noqa: PT012
        tx.table("shop.t").upsert(rows(7))
        tx.table("shop.t").overwrite(rows(8))
    assert set(found(table)) == {5, 6}


def test_a_transaction_without_writes_does_nothing(catalog: Catalog, table: Table, gate: FaultyMetastore) -> None:
    with catalog.transaction() as tx:
        tx.table("shop.t")
    assert tx.result is not None
    assert tx.result.snapshot_ids == {}
    assert gate.commits == []


# Failures


@pytest.mark.parametrize("operation", ["create", "commit"])
@pytest.mark.parametrize("number", [1, 2, 3, 6])
def test_a_failing_store_leaves_nothing_visible_and_no_file_behind(
    catalog: Catalog, stores: FaultyStores, warehouse: Path, operation: str, number: int
) -> None:
    keyed = catalog.create_table(
        "shop.keyed", KEYED, primary_key=["id"], options={"bucket": "2", "write-buffer-size": "4 kb"}
    )
    plain = catalog.create_table("shop.plain", KEYED, options={"target-file-size": "2 kb"})
    random = np.random.default_rng(1)
    data = pa.table({"id": random.permutation(3000), "v": [f"{n}" for n in random.integers(0, 10**12, 3000)]})
    writes: list[tuple[Table, Callable[[Any], Any]]] = [(keyed, keyed.upsert), (plain, plain.append)]
    for table, write in writes:
        write(data.slice(0, 5))
        before = data_files(warehouse)
        stores.fail_at(operation, number)
        failures = stores.failures
        with pytest.raises(Unavailable, match="told to fail"):
            write(data)
        assert stores.failures > failures
        stores.heal()
        assert data_files(warehouse) == before
        assert table.scan().count() == 5
        write(data)
        assert table.snapshots().num_rows == 2


def test_an_iterator_that_fails_leaves_nothing_behind(catalog: Catalog, warehouse: Path) -> None:
    table = catalog.create_table("shop.log", KEYED, options={"target-file-size": "2 kb"})

    def source() -> Iterator[pa.Table]:
        for start in range(0, 5000, 500):
            yield rows(*range(start, start + 500))
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="the source broke"):
        table.append(source())
    assert table.snapshots().num_rows == 0
    assert data_files(warehouse) == []


def test_rows_that_do_not_fit_late_in_an_iterator_leave_nothing_behind(table: Table, warehouse: Path) -> None:
    with pytest.raises(InvalidArgument, match="colour"):
        table.upsert(iter([rows(1), pa.table({"id": [1], "colour": ["red"]})]))
    assert table.snapshots().num_rows == 0
    assert data_files(warehouse) == []


def test_a_lost_answer_is_found_out_by_repeating(table: Table, gate: FaultyMetastore, warehouse: Path) -> None:
    def lose_first_answer(request: CommitRequest) -> CommitResult:
        result = gate.inner.commit(request)
        if len(gate.commits) == 1:
            raise OutcomeUnknown("the answer was lost")
        return result

    gate.on_commit = lose_first_answer
    result = table.upsert(rows(1, 2))
    assert (result.snapshot_id, result.already_applied) == (1, False)
    assert gate.commits[0] == gate.commits[1]
    assert found(table) == {1: "x", 2: "x"}
    assert len(data_files(warehouse)) == table.files().num_rows


def test_a_lost_request_is_repeated(table: Table, gate: FaultyMetastore) -> None:
    def lose_two(request: CommitRequest) -> CommitResult:
        if len(gate.commits) <= 2:
            raise (OutcomeUnknown if len(gate.commits) == 1 else Unavailable)("lost")
        return gate.inner.commit(request)

    gate.on_commit = lose_two
    assert table.upsert(rows(1)).snapshot_id == 1
    assert len(gate.commits) == 3


def test_an_outcome_that_stays_unknown_deletes_nothing(
    table: Table, gate: FaultyMetastore, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakelog.writes.attempt._COMMIT_TOTAL_S", 0.2)

    def never_answer(request: CommitRequest) -> CommitResult:
        if len(gate.commits) == 1:
            gate.inner.commit(request)
        raise OutcomeUnknown("the answer was lost")

    gate.on_commit = never_answer
    with pytest.raises(OutcomeUnknown):
        table.upsert(rows(1, 2), writer="w", identifier=1)
    gate.on_commit = None
    assert found(table) == {1: "x", 2: "x"}
    assert table.upsert(rows(1, 2), writer="w", identifier=1).already_applied
    assert len(data_files(warehouse)) == table.files().num_rows


def test_a_refused_commit_gives_its_attempt_up_and_deletes_its_files(
    table: Table, gate: FaultyMetastore, warehouse: Path
) -> None:
    def refuse(request: CommitRequest) -> CommitResult:
        raise CommitConflict("somebody was faster")

    gate.on_commit = refuse
    with pytest.raises(CommitConflict, match="somebody was faster"):
        table.upsert(rows(1))
    assert data_files(warehouse) == []
    with pytest.raises(LakelogError, match="given up"):
        gate.inner.commit(gate.commits[0])


def test_files_of_an_attempt_that_could_not_be_given_up_stay(
    table: Table, gate: FaultyMetastore, warehouse: Path
) -> None:
    def refuse(request: CommitRequest) -> CommitResult:
        raise CommitConflict("somebody was faster")

    def unreachable(attempt_id: str) -> None:
        raise Unavailable("no metastore")

    gate.on_commit, gate.on_abandon = refuse, unreachable
    with pytest.raises(CommitConflict):
        table.upsert(rows(1))
    assert len(data_files(warehouse)) == 1


def test_many_threads_share_a_table(table: Table) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(5):
                table.upsert(rows(number * 10 + turn, v=f"{number}"))
                assert table.scan(filter=f"id = {number * 10 + turn}").count() == 1
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert table.scan().count() == 20
    assert table.snapshots().column("id").to_pylist() == list(range(1, 21))
