"""Answers lost on their way: between the metastore and Postgres at COMMIT, and between client and metastore."""

from __future__ import annotations

import dataclasses
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakelog.client.connection.retry import Deadlines, RetryPolicy
from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.embedded.postgres import EmbeddedPostgres
from lakelog.errors import DataCorrupted, Effect, LakelogError, OutcomeUnknown, Unavailable
from lakelog.format.commit.request import Change, CommitRequest
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.sdk.catalog import Catalog
from lakelog.storage.objects.stores import LocationStores
from lakelog.testing.postgres_proxy import CutPlace, PostgresProxy
from lakelog.testing.proxy import TcpProxy
from lakelog.writes.attempt import CommitAttempt
from tests.e2e.faults.lab import Lab
from tests.e2e.faults.writer_process import LOG, SCHEMA
from tests.support.forked_stack import ForkedStack

pytestmark = pytest.mark.e2e

# One try, and what it got: the wait before a second one is longer than all tries together may take.
ONCE = RetryPolicy(first_backoff_s=1e9, max_backoff_s=1e9)


@dataclasses.dataclass
class Proxied:
    """A lab whose metastore reaches Postgres, and whose clients reach the metastore, through proxies."""

    lab: Lab
    database: PostgresProxy
    service: TcpProxy

    def catalog(self, *, try_s: float = 10.0, retries: RetryPolicy | None = None) -> Catalog:
        metastore = GrpcMetastore(
            self.service.target, deadlines=Deadlines(call_s=try_s), retries=retries or RetryPolicy()
        )
        return Catalog(metastore, LocationStores())


@pytest.fixture(scope="module")
def running() -> Iterator[Proxied]:
    with tempfile.TemporaryDirectory(prefix="ll-prx-", ignore_cleanup_errors=True) as text:
        folder = Path(text)
        with (
            EmbeddedPostgres(folder / "postgres", port=0) as postgres,
            PostgresProxy(int(postgres.url(over_tcp=True).rpartition(":")[2].partition("/")[0])) as database,
        ):
            direct = postgres.url(over_tcp=True)
            url = f"{direct.rpartition(':')[0]}:{database.port}/postgres"
            with (
                ForkedStack(folder, database_url=url) as stack,
                TcpProxy(stack.port) as service,
            ):
                yield Proxied(Lab(stack, folder), database, service)


@pytest.fixture
def proxied(running: Proxied) -> Iterator[Proxied]:
    running.lab.make_tables()
    yield running
    running.database.heal()
    running.service.heal()
    running.lab.end_processes()


def rows(*values: str) -> pa.Table:
    return pa.table({"k": list(range(len(values))), "v": list(values)}, schema=SCHEMA)


def logged(catalog: Catalog) -> list[str]:
    return sorted(catalog.table(LOG).scan().to_arrow().column("v").to_pylist())


def empty_commit(catalog: Catalog, identifier: int) -> CommitRequest:
    table = catalog.table(LOG)
    info = table._info
    change = Change(info.table_uuid, SnapshotKind.APPEND, info.schema.schema_id, -1, allow_empty=True)
    return CommitRequest("raw", identifier, (change,))


@pytest.mark.parametrize(("place", "happened"), [("before_commit", False), ("after_commit", True)])
def test_a_connection_lost_at_commit_is_an_unknown_outcome_and_the_repeated_request_settles_it(
    proxied: Proxied, place: CutPlace, happened: bool
) -> None:
    with proxied.catalog(retries=ONCE) as catalog:
        request = empty_commit(catalog, 1)
        cuts = proxied.database.cuts
        proxied.database.cut_at_commit(place)
        with pytest.raises(OutcomeUnknown, match=r"lost while committing.*repeat the same request, and delete no file"):
            catalog.metastore.commit(request)
        assert proxied.database.cuts == cuts + 1
        assert catalog.table(LOG).snapshots().num_rows == int(happened), "the fault was not the one meant"
        first = catalog.metastore.commit(request)
        assert catalog.metastore.commit(request) == first
        assert catalog.table(LOG).snapshots().num_rows == 1


@pytest.mark.parametrize("place", ["before_commit", "after_commit"])
def test_the_sdk_repeats_until_it_knows_and_applies_once(proxied: Proxied, place: CutPlace) -> None:
    with proxied.catalog() as catalog:
        table = catalog.table(LOG)
        cuts = proxied.database.cuts
        for identifier in range(1, 6):
            # The attempt is opened by a commit of its own, before the rows are written.
            with catalog.transaction(writer="w", identifier=identifier) as transaction:
                transaction.table(LOG).append(rows(f"w.{identifier}"))
                proxied.database.cut_at_commit(place)
        assert proxied.database.cuts >= cuts + 5
        assert proxied.database.cuts_to_come == 0
        assert logged(catalog) == [f"w.{identifier}" for identifier in range(1, 6)]
        assert table.snapshots().column("id").to_pylist() == [1, 2, 3, 4, 5]
        assert proxied.lab.orphans() == {}


def test_control_a_repetition_under_another_number_writes_twice(proxied: Proxied) -> None:
    with proxied.catalog(retries=ONCE) as catalog:
        proxied.database.cut_at_commit("after_commit")
        with pytest.raises(OutcomeUnknown):
            catalog.metastore.commit(empty_commit(catalog, 1))
        catalog.metastore.commit(empty_commit(catalog, 2))
        assert catalog.table(LOG).snapshots().num_rows == 2


def test_control_a_client_that_deletes_on_an_unknown_outcome_breaks_the_table(
    proxied: Proxied, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C8: as if an unknown outcome meant that nothing had happened, and as if that were all one had to know."""
    monkeypatch.setattr(OutcomeUnknown, "effect", Effect.NONE)
    monkeypatch.setattr(CommitAttempt, "abandon", CommitAttempt._delete_files)
    monkeypatch.setattr("lakelog.writes.attempt.call_repeatedly", lambda attempt, **_: attempt(0.0))
    with proxied.catalog(retries=ONCE) as catalog:
        transaction = catalog.transaction(writer="w", identifier=1)
        transaction.table(LOG).append(rows("w.1"))
        proxied.database.cut_at_commit("after_commit")
        with pytest.raises(OutcomeUnknown):
            transaction.commit()
        assert catalog.table(LOG).snapshots().num_rows == 1
        with pytest.raises(DataCorrupted, match="is missing, though the table refers to it"):
            logged(catalog)
    with pytest.raises(DataCorrupted):
        proxied.lab.check()


def test_many_writers_under_cut_commits_are_applied_once_each(proxied: Proxied) -> None:
    lab = proxied.lab
    writers = [lab.start_writer(f"w{n}", count=8) for n in range(3)]
    stop = threading.Event()

    def cut() -> None:
        while not stop.wait(0.15):
            if proxied.database.cuts_to_come == 0:
                proxied.database.cut_at_commit("after_commit" if proxied.database.cuts % 2 else "before_commit")

    cuts = proxied.database.cuts
    cutter = threading.Thread(target=cut)
    cutter.start()
    try:
        assert [writer.wait() for writer in writers] == [0, 0, 0]
    finally:
        stop.set()
        cutter.join()
        proxied.database.heal()
    assert proxied.database.cuts > cuts, "no fault took effect"
    assert lab.check() == []


@pytest.mark.parametrize("swallowed", ["answers", "everything"])
def test_a_client_that_receives_nothing_gets_an_unknown_outcome_and_goes_on_when_the_net_is_back(
    proxied: Proxied, swallowed: str
) -> None:
    with proxied.catalog(try_s=1.0, retries=ONCE) as catalog:
        request = empty_commit(catalog, 1)
        if swallowed == "answers":
            proxied.service.lose_answers()
        else:
            proxied.service.black_hole()
        began_s = time.monotonic()
        # The client asks first whether anybody is there, so a net that is silent from the start is no unknown outcome.
        with pytest.raises((OutcomeUnknown, Unavailable)):
            catalog.metastore.commit(request)
        assert time.monotonic() - began_s < 15
        proxied.service.heal()
    with proxied.catalog() as catalog:
        catalog.metastore.commit(request)
        assert catalog.table(LOG).snapshots().num_rows == 1


def test_requests_and_answers_cut_at_every_length_never_give_a_wrong_answer(proxied: Proxied) -> None:
    for number, length in enumerate([1, 10, 60, 200, 500, 900, 1500]):
        for direction in ("requests", "answers"):
            with proxied.catalog() as catalog:
                table = catalog.table(LOG)
                before = table.snapshots().num_rows
                proxied.service.cut_after(length, direction)
                table.append(rows(f"{direction}.{number}"), writer=direction, identifier=number)
                assert table.snapshots().num_rows == before + 1
    with proxied.lab.connect() as catalog:
        assert len(set(logged(catalog))) == 14
    assert proxied.lab.orphans() == {}
    assert proxied.service.cuts > 0


def test_a_slow_net_is_only_slow(proxied: Proxied) -> None:
    with proxied.catalog() as catalog:
        proxied.service.delay(0.05)
        proxied.database.delay(0.02)
        catalog.table(LOG).append(rows("slow"))
        assert logged(catalog) == ["slow"]


def test_a_database_that_is_silent_makes_calls_fail_in_bounded_time_and_comes_back(proxied: Proxied) -> None:
    with proxied.catalog(try_s=25.0, retries=ONCE) as catalog:
        request = empty_commit(catalog, 1)
        proxied.database.black_hole()
        failures: list[LakelogError] = []

        def ask(call: Any) -> None:
            try:
                call()
            except LakelogError as error:
                failures.append(error)

        asking = [
            threading.Thread(target=ask, args=(lambda: catalog.metastore.commit(request),)),
            threading.Thread(target=ask, args=(lambda: catalog.metastore.list_databases(),)),
        ]
        began_s = time.monotonic()
        for thread in asking:
            thread.start()
        time.sleep(2)
        proxied.database.refuse()
        for thread in asking:
            thread.join(30)
        assert time.monotonic() - began_s < 30
        assert failures
        assert all(isinstance(failure, (Unavailable, OutcomeUnknown)) for failure in failures), failures
        proxied.database.heal()
    with proxied.catalog() as catalog:
        catalog.metastore.commit(request)
        assert catalog.table(LOG).snapshots().num_rows == 1
