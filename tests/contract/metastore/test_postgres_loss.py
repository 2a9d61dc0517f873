"""C8, C10: connections that break, answers that are lost, a Postgres that goes and comes back."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from lakelog.client.metastore.metastore import WatchPosition
from lakelog.embedded.postgres import EmbeddedPostgres
from lakelog.errors import InvalidArgument, OutcomeUnknown, Unavailable
from lakelog.format.commit.request import CommitRequest, CommitResult
from lakelog.format.tables.plan import PlanRequest
from lakelog.format.tables.table import TableInfo
from metastore.postgres import PostgresStore, check_current, migrate
from metastore.postgres.connection.connections import _check_durable, _check_version, libpq_url
from metastore.postgres.schema.migration import differences
from metastore.testing import InProcessMetastore
from tests.support.metastore.cutting_proxy import Cut, CuttingProxy
from tests.support.metastore.making import append, empty, make_change, make_file, make_table, snapshot_ids
from tests.support.metastore.opening import open_in_process


@pytest.fixture
def proxied(postgres_server: EmbeddedPostgres, migrated_url: str) -> Iterator[tuple[CuttingProxy, InProcessMetastore]]:
    name = psycopg.conninfo.conninfo_to_dict(libpq_url(migrated_url))["dbname"]
    direct = psycopg.conninfo.conninfo_to_dict(libpq_url(postgres_server.url(str(name), over_tcp=True)))
    with CuttingProxy(int(str(direct["port"]))) as proxy:
        url = psycopg.conninfo.make_conninfo("", **{**direct, "port": proxy.port})
        metastore = open_in_process(url)
        try:
            yield proxy, metastore
        finally:
            metastore.close()


def repeat(metastore: InProcessMetastore, request: CommitRequest) -> CommitResult:
    """What a client does: the same request until there is an answer."""
    for _ in range(100):
        try:
            return metastore.commit(request)
        except (Unavailable, OutcomeUnknown):
            time.sleep(0.02)
    raise AssertionError("no answer after 100 tries")


@pytest.mark.parametrize(("cut", "applied"), [(Cut.AFTER, [1]), (Cut.BEFORE, [])])
def test_a_lost_answer_is_an_unknown_outcome(
    proxied: tuple[CuttingProxy, InProcessMetastore], migrated_url: str, cut: Cut, applied: list[int]
) -> None:
    proxy, metastore = proxied
    table = make_table(metastore)
    attempt = metastore.stage_attempt([table.table_uuid], "w").attempt_id
    request = CommitRequest("w", 1, (make_change(table, [make_file(attempt)]),), attempt)
    proxy.cut = cut
    with pytest.raises(OutcomeUnknown, match="repeat the same request, and delete no file"):
        metastore.commit(request)
    assert proxy.cuts == 1
    assert snapshot_ids(metastore, table) == applied
    first = metastore.commit(request)
    assert first.attempt_id == attempt
    assert metastore.commit(request) == first
    assert snapshot_ids(metastore, table) == [1]


def test_a_watcher_learns_of_a_commit_whose_answer_was_lost(
    proxied: tuple[CuttingProxy, InProcessMetastore],
) -> None:
    proxy, metastore = proxied
    table = make_table(metastore)
    metastore.commit(empty(table, 1))
    watch = metastore.watch([WatchPosition(table.table_uuid, 0)])
    events = iter(watch)
    assert [snapshot.snapshot_id for snapshot in next(events).snapshots] == [1]
    proxy.cut = Cut.AFTER
    with pytest.raises(OutcomeUnknown):
        metastore.commit(empty(table, 2))
    metastore.commit(empty(table, 3))
    found: list[int] = []
    while len(found) < 2:
        found += [snapshot.snapshot_id for snapshot in next(events).snapshots]
    assert found == [2, 3]
    watch.close()


def test_an_unknown_outcome_of_a_group_is_that_of_each(proxied: tuple[CuttingProxy, InProcessMetastore]) -> None:
    proxy, metastore = proxied
    table = make_table(metastore)
    proxy.cut = Cut.AFTER
    with ThreadPoolExecutor(16) as pool:
        results = list(
            pool.map(lambda n: repeat(metastore, empty(table, 0, writer=f"w{n}")).results[0].snapshot_id, range(16))
        )
    assert proxy.cuts == 1
    assert sorted(results, key=int) == snapshot_ids(metastore, table) == list(range(1, 17))  # type: ignore[arg-type]


def test_connections_killed_while_many_commit(migrated_url: str) -> None:
    """Each commit is applied exactly once, whatever is killed when."""
    metastore = open_in_process(migrated_url)
    table = make_table(metastore)
    done = threading.Event()
    kills = 0

    def kill() -> None:
        nonlocal kills
        with psycopg.connect(libpq_url(migrated_url), autocommit=True) as connection:
            while not done.wait(0.05):
                kills += len(
                    connection.execute(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
                        "AND application_name = 'lakelog-metastore'"
                    ).fetchall()
                )

    def write(number: int) -> int:
        written = 0
        while written < 30 or kills < 10:
            repeat(metastore, CommitRequest(f"w{number}", written, (make_change(table, allow_empty=True),)))
            written += 1
        return written

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        with ThreadPoolExecutor(8) as pool:
            total = sum(pool.map(write, range(8)))
    finally:
        done.set()
        killer.join()
    snapshots = metastore.list_snapshots(table.table_uuid, limit=total + 1).snapshots
    assert [snapshot.snapshot_id for snapshot in snapshots] == list(range(1, total + 1))
    assert len({(snapshot.writer, snapshot.identifier) for snapshot in snapshots}) == total
    metastore.close()


def hold_head(url: str, table: TableInfo) -> psycopg.Connection[tuple[object, ...]]:
    connection = psycopg.connect(libpq_url(url))
    connection.execute("SELECT FROM table_head WHERE table_uuid = %s FOR UPDATE", (table.table_uuid,))
    return connection


def test_killed_in_the_middle_nothing_has_happened(migrated_url: str) -> None:
    metastore = open_in_process(migrated_url)
    table = make_table(metastore)
    with hold_head(migrated_url, table) as holder, ThreadPoolExecutor(1) as pool:
        commit = pool.submit(metastore.commit, empty(table, 1))
        killed: list[tuple[object, ...]] = []
        while not killed:
            killed = holder.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
                "AND application_name = 'lakelog-metastore' AND datname = current_database()"
            ).fetchall()
        holder.rollback()
        # Before COMMIT was sent it is certain that nothing happened, so the metastore itself has tried again.
        assert commit.result().results[0].snapshot_id == 1
    assert snapshot_ids(metastore, table) == [1]
    metastore.close()


def wait_until(happens: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 15
    while not happens() and time.monotonic() < deadline:
        time.sleep(0.02)


@pytest.fixture
def own_server() -> Iterator[EmbeddedPostgres]:
    with (
        tempfile.TemporaryDirectory(prefix="ll-", ignore_cleanup_errors=True) as folder,
        EmbeddedPostgres(Path(folder)) as server,
    ):
        yield server


@pytest.mark.parametrize("stop", ["stop", "kill"])
def test_postgres_goes_and_comes_back(own_server: EmbeddedPostgres, stop: str) -> None:
    migrate(own_server.url())
    metastore = open_in_process(own_server.url())
    table = make_table(metastore)
    append(metastore, table, 1)
    watch = metastore.watch([WatchPosition(table.table_uuid, 1)])
    reported: list[int] = []
    reader = threading.Thread(target=lambda: reported.extend(s.snapshot_id for event in watch for s in event.snapshots))
    reader.start()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: metastore.commit(empty(table, n, writer="warm")), range(8)))
    wait_until(lambda: len(reported) == 8)

    getattr(own_server, stop)()
    for call in (
        lambda: metastore.commit(empty(table, 2)),
        lambda: metastore.plan(PlanRequest(table.table_uuid)),
        lambda: metastore.get_table(table.name),
        lambda: metastore.register_writer("w"),
        lambda: metastore.acquire_lease("l", "h", 5000),
        lambda: metastore.stage_attempt([table.table_uuid], "w"),
    ):
        started = time.monotonic()
        with pytest.raises(Unavailable, match="nothing happened"):
            call()
        assert time.monotonic() - started < 5

    own_server.start()
    assert metastore.commit(empty(table, 2)).results[0].snapshot_id == 10
    assert metastore.plan(PlanRequest(table.table_uuid)).files.num_rows == 1
    assert snapshot_ids(metastore, table) == list(range(1, 11))
    wait_until(lambda: len(reported) == 9)
    watch.close()
    reader.join()
    assert reported == list(range(2, 11))
    metastore.close()


def test_commits_are_durable_or_it_is_said(migrated_url: str, caplog: pytest.LogCaptureFixture) -> None:
    """C10."""

    async def setting(store: PostgresStore) -> str:
        await store.check()
        async with store.transaction() as transaction:
            row = await transaction._session.read_one("SHOW synchronous_commit")  # type: ignore[attr-defined]
        await store.close()
        return str(row[0])

    metastore = open_in_process(migrated_url)
    with psycopg.connect(libpq_url(migrated_url), autocommit=True) as connection:
        # What an administrator sets does not weaken it.
        connection.execute("ALTER ROLE CURRENT_USER SET synchronous_commit = off")
        try:

            async def durable() -> str:
                return await setting(PostgresStore(migrated_url))

            assert metastore.run(durable()) == "on"
            assert not caplog.records

            async def relaxed() -> str:
                return await setting(PostgresStore(migrated_url, durability="off_may_lose_acknowledged_commits"))

            assert metastore.run(relaxed()) == "off"
            assert "loses commits that were acknowledged" in caplog.text
        finally:
            connection.execute("ALTER ROLE CURRENT_USER RESET synchronous_commit")
    metastore.close()


def test_a_database_that_does_not_let_commits_be_durable_is_refused_at_start(
    migrated_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C10: as behind a proxy that swallows settings; and the control, in which nobody asks what became of them."""
    name = psycopg.conninfo.conninfo_to_dict(libpq_url(migrated_url))["dbname"]
    with psycopg.connect(libpq_url(migrated_url), autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    monkeypatch.setattr("metastore.postgres.connection.connections._assignments", lambda _: "1")
    with pytest.raises(InvalidArgument, match="has synchronous_commit='off' and does not let it be 'on'") as error:
        open_in_process(migrated_url)
    assert error.value.reason == "NOT_DURABLE"
    monkeypatch.setattr("metastore.postgres.connection.connections._check_durable", lambda *_: None)
    metastore = open_in_process(migrated_url)
    assert metastore.commit(empty(make_table(metastore), 1)).results[0].snapshot_id == 1, "acknowledged all the same"
    metastore.close()


@pytest.mark.parametrize(
    ("found", "message"), [(("on", "off"), "fsync=off"), (("off", "on"), "synchronous_commit='off'"), (None, "None")]
)
def test_what_counts_as_durable(found: tuple[str, str] | None, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        _check_durable(found, "on")
    _check_durable(("on", "on"), "on")
    _check_durable(("off", "off"), "off")


def test_migrations_are_complete_and_checked(postgres_url: str) -> None:
    with pytest.raises(InvalidArgument, match=r"revision \(none\), this metastore needs .* metastore migrate"):
        check_current(postgres_url)
    with ThreadPoolExecutor(3) as pool:
        (revision,) = set(pool.map(migrate, [postgres_url] * 3))
    check_current(postgres_url)
    assert migrate(postgres_url) == revision
    assert differences(postgres_url) == []
    with psycopg.connect(libpq_url(postgres_url), autocommit=True) as connection:
        connection.execute("UPDATE lakelog_schema_version SET version_num = '9999'")
    for act in (check_current, migrate):
        with pytest.raises(InvalidArgument, match="a newer metastore migrated it"):
            act(postgres_url)


def test_a_database_that_is_not_there() -> None:
    with pytest.raises(Unavailable, match="cannot be reached"):
        migrate("postgresql://nobody@127.0.0.1:1/nowhere")
    with pytest.raises(Unavailable, match="cannot be reached"):
        open_in_process("postgresql://nobody@127.0.0.1:1/nowhere")
    with pytest.raises(InvalidArgument, match="URL is not one"):
        migrate("mysql://x")
    with pytest.raises(InvalidArgument, match="URL is not one"):
        open_in_process("mysql://x")


def test_a_server_that_is_too_old_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="is PostgreSQL 15, and lakelog needs 16 or newer"):
        _check_version(150_013)
    _check_version(160_000)
