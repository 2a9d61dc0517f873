"""Dropped tables: restored as they were, or purged; what is made under their names shares nothing with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from lakelog.client.metastore.metastore import Metastore, WatchPosition
from lakelog.errors import AlreadyExists, Fenced, InvalidArgument, NotFound
from lakelog.format.jobs.job import COMPACT, PURGE, STRATEGY, Job
from lakelog.format.retention.consumer import ConsumerPosition
from lakelog.format.retention.dropped import DroppedTable
from lakelog.format.tables.plan import PlanRequest
from lakelog.format.tables.snapshot import ChangelogState
from lakelog.format.tables.table import TableInfo, TableName
from metastore.memory import MemoryStore
from metastore.postgres.dropped import OWNED
from metastore.store.transaction import Store, Transaction, run_transaction
from metastore.tables import dropped
from metastore.testing import InProcessMetastore, in_process
from metastore.use_cases import UseCases
from tests.support.metastore.making import append, empty, make_table, snapshot_ids
from tests.support.metastore.opening import WAREHOUSE, make_brief_use_cases, open_in_process


def find_dropped(metastore: Metastore, table: TableInfo) -> DroppedTable:
    (found,) = [each for each in metastore.list_dropped_tables("shop") if each.table_uuid == table.table_uuid]
    return found


def find_purge(metastore: Metastore, table: TableInfo) -> Job:
    (job,) = metastore.list_jobs([table.table_uuid])
    assert job.kind == PURGE
    return job


def lease_purge(metastore: Metastore, table: TableInfo, holder: str = "c") -> Job:
    """Takes the table's job; it must be due soon."""
    leased = metastore.lease_job([PURGE], [table.table_uuid], holder, duration_ms=1000, wait_ms=5000)
    assert leased is not None
    return leased


def purge(metastore: Metastore, table: TableInfo) -> None:
    job = lease_purge(metastore, table)
    metastore.begin_purge(job.job_id, job.epoch)
    while metastore.purge_rows(job.job_id, job.epoch):
        pass
    assert not metastore.finish_job(job.job_id, job.epoch)


def test_a_restored_table_is_what_it_was(metastore: Metastore) -> None:
    table = make_table(metastore, options={"bucket": "4", "target-file-size": "1 mb"})
    for number in range(1, 4):
        append(metastore, table, number, writer="w")
    (consumer,) = metastore.open_consumer("etl", [table.table_uuid], "somebody")
    metastore.advance_consumer("etl", [ConsumerPosition(table.table_uuid, consumer.epoch, 2)])
    attempt = metastore.stage_attempt([table.table_uuid], "other").attempt_id
    before = metastore.get_table(table.name)
    snapshots, files = metastore.list_snapshots(table.table_uuid), metastore.plan(PlanRequest(table.table_uuid)).files
    assert metastore.drop_table(table.name)
    dropped = find_dropped(metastore, table)
    assert (dropped.name, dropped.location, dropped.is_purged) == (table.name, table.location, False)
    assert dropped.kept_until_ms - dropped.dropped_at_ms == 86_400_000
    restored = metastore.restore_table(table.name)
    assert (restored.table, restored.others, restored.dropped_at_ms) == (before, 0, dropped.dropped_at_ms)
    assert metastore.get_table(table.name) == before == metastore.get_table_by_uuid(table.table_uuid)
    assert metastore.list_snapshots(table.table_uuid) == snapshots
    assert metastore.plan(PlanRequest(table.table_uuid)).files == files
    assert metastore.list_consumers(table.table_uuid)[0].snapshot_id == 2
    assert metastore.get_writer_progress("w", table.table_uuid).last_identifier == 3
    # What was applied before is not applied again, and whoever was writing all the while may commit.
    assert append(metastore, table, 4, writer="w").results[0].snapshot_id == 4
    metastore.abandon_attempt(attempt)
    assert metastore.list_dropped_tables("shop") == []
    assert metastore.list_jobs([table.table_uuid]) == []


def test_a_request_for_a_dropped_table_names_the_way_to_restore_it(metastore: Metastore) -> None:
    table = make_table(metastore)
    attempt = metastore.stage_attempt([table.table_uuid], "w").attempt_id
    metastore.drop_table(table.name)
    reported = (
        rf"Table {table.name} \({table.table_uuid}\) was dropped at .* UTC\. Until .* can be restored: lakelog table "
    )
    reported += rf"restore {table.name} --uuid {table.table_uuid}"
    asked: list[Callable[[], object]] = [
        lambda: metastore.get_table_by_uuid(table.table_uuid),
        lambda: metastore.plan(PlanRequest(table.table_uuid)),
        lambda: metastore.list_snapshots(table.table_uuid),
        lambda: metastore.list_latest([table.table_uuid]),
        lambda: metastore.stage_attempt([table.table_uuid], "w"),
        lambda: metastore.commit(replace(empty(table, 1), attempt_id=attempt)),
        lambda: metastore.alter_table(table.table_uuid, set_options={"write-only": "true"}, unset_options=[]),
        lambda: metastore.request_jobs(table.table_uuid, COMPACT, ["/0"], {STRATEGY: "full"}),
        lambda: metastore.list_consumers(table.table_uuid),
        lambda: next(iter(metastore.watch([WatchPosition(table.table_uuid, 0)]))),
    ]
    for ask in asked:
        with pytest.raises(NotFound, match=reported) as caught:
            ask()
        assert caught.value.reason == "TABLE_NOT_FOUND"
        assert caught.value.metadata["table"] == str(table.name)
    with pytest.raises(NotFound, match=r"does not exist\. .* One of this name was dropped at .* can be restored"):
        metastore.get_table(table.name)


def test_a_table_made_under_its_name_shares_nothing_with_it(brief_metastore: Metastore) -> None:
    metastore = brief_metastore
    old = make_table(metastore)
    append(metastore, old, 1, writer="w")
    metastore.drop_table(old.name)
    new, created = metastore.create_table(old.name, old.schema.arrow, primary_key=["id"], options={"bucket": "4"})
    assert created
    assert new.location != old.location
    assert metastore.get_writer_progress("w", new.table_uuid).last_identifier is None
    assert append(metastore, new, 1, writer="w").results[0].snapshot_id == 1
    with pytest.raises(
        AlreadyExists, match=rf"Table '{old.name}' exists.* restore {old.name} --as {old.name}_restored"
    ):
        metastore.restore_table(old.name)
    other = TableName("shop", f"{old.name.name}_before")
    restored = metastore.restore_table(old.name, new_name=other).table
    assert (restored.table_uuid, restored.name) == (old.table_uuid, other)
    assert metastore.get_table(other).table_uuid == old.table_uuid
    assert metastore.get_table(old.name).table_uuid == new.table_uuid
    purged = append(metastore, new, 2)
    metastore.drop_table(new.name)
    purge(metastore, new)
    assert purged.results[0].snapshot_id == 2
    assert snapshot_ids(metastore, restored) == [1]
    assert metastore.plan(PlanRequest(old.table_uuid)).files.num_rows == 1


def test_of_several_the_newest_or_the_one_that_is_named(metastore: Metastore) -> None:
    first = make_table(metastore)
    metastore.drop_table(first.name)
    tables = [first]
    for _ in range(2):
        made, _ = metastore.create_table(first.name, first.schema.arrow)
        metastore.drop_table(first.name)
        tables.append(made)
    listed = [each.table_uuid for each in metastore.list_dropped_tables()]
    assert set(listed) == {each.table_uuid for each in tables}
    assert listed[0] == tables[2].table_uuid
    restored = metastore.restore_table(first.name)
    assert (restored.table.table_uuid, restored.others) == (tables[2].table_uuid, 2)
    metastore.drop_table(first.name)
    named = metastore.restore_table(first.name, table_uuid=first.table_uuid)
    assert (named.table.table_uuid, named.others) == (first.table_uuid, 2)
    with pytest.raises(NotFound, match=f"No dropped table {first.name} has the uuid {first.table_uuid}"):
        metastore.restore_table(first.name, table_uuid=first.table_uuid)


def test_a_dropped_database_is_made_again_with_its_table(metastore: Metastore) -> None:
    table = make_table(metastore)
    metastore.create_database("away")
    metastore.drop_database("shop", cascade=True)
    assert find_dropped(metastore, table).name == table.name
    with pytest.raises(NotFound, match="Database 'nowhere' does not exist"):
        metastore.restore_table(table.name, new_name=TableName("nowhere", "t"))
    with pytest.raises(NotFound, match=r"There is no dropped table 'shop\.other'"):
        metastore.restore_table(TableName("shop", "other"))
    assert [each.name for each in metastore.list_databases()] == ["away"], "nothing was restored into it"
    moved = metastore.restore_table(table.name, new_name=TableName("away", "t")).table
    assert moved.name == TableName("away", "t")
    metastore.drop_table(moved.name)
    metastore.drop_database("away")
    assert metastore.restore_table(moved.name).table.name == moved.name
    assert metastore.list_tables("away") == ["t"]


def test_what_is_open_waits_for_a_compactor_again(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1, changelog=ChangelogState.PENDING)
    before = metastore.lease_job(["changelog"], [table.table_uuid], "a", duration_ms=60_000)
    assert before is not None
    metastore.drop_table(table.name)
    with pytest.raises(NotFound, match=f"no job {before.job_id}"):
        metastore.finish_job(before.job_id, before.epoch)
    metastore.restore_table(table.name)
    job = metastore.lease_job(["changelog"], [table.table_uuid], "b", duration_ms=60_000)
    assert job is not None
    assert job.job_id != before.job_id


def test_a_watch_begun_behind_a_restore_reports_commits(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1)
    before = metastore.watch([WatchPosition(table.table_uuid, 0)])
    events = iter(before)
    assert next(events).snapshots
    metastore.drop_table(table.name)
    assert next(events).dropped
    metastore.restore_table(table.name)
    watch = metastore.watch([WatchPosition(table.table_uuid, 1)])
    append(metastore, table, 2)
    assert [each.snapshot_id for each in next(iter(watch)).snapshots] == [2]
    watch.close()
    before.close()


def test_a_purged_table_is_gone_for_good(brief_metastore: Metastore) -> None:
    metastore = brief_metastore
    table, other = make_table(metastore), make_table(metastore)
    for each in (table, other):
        append(metastore, each, 1)
        metastore.open_consumer("etl", [each.table_uuid], "")
    attempt = metastore.stage_attempt([table.table_uuid], "w").attempt_id
    metastore.drop_table(table.name)
    job = lease_purge(metastore, table)
    with pytest.raises(InvalidArgument, match="can still be restored"):
        metastore.purge_rows(job.job_id, job.epoch)
    assert metastore.begin_purge(job.job_id, job.epoch).table_uuid == table.table_uuid
    assert metastore.begin_purge(job.job_id, job.epoch).is_purged
    with pytest.raises(NotFound, match="kept no longer"):
        metastore.restore_table(table.name)
    with pytest.raises(NotFound, match=r"was dropped at .*\. It is kept no longer and cannot be restored"):
        metastore.plan(PlanRequest(table.table_uuid))
    assert find_dropped(metastore, table).is_purged
    # It ends only when all is done, whatever its holder says.
    assert metastore.finish_job(job.job_id, job.epoch)
    job = lease_purge(metastore, table)
    deleted = 0
    while count := metastore.purge_rows(job.job_id, job.epoch):
        deleted += count
    assert deleted >= 3
    assert not metastore.finish_job(job.job_id, job.epoch, "gone")
    assert metastore.list_dropped_tables() == []
    assert metastore.list_jobs([table.table_uuid]) == []
    with pytest.raises(NotFound, match="it was dropped, or belongs to another metastore"):
        metastore.plan(PlanRequest(table.table_uuid))
    with pytest.raises(NotFound, match=r"There is no dropped table"):
        metastore.restore_table(table.name)
    with pytest.raises(NotFound, match=f"Attempt {attempt} is not known"):
        metastore.abandon_attempt(attempt)
    assert snapshot_ids(metastore, other) == [1]
    assert len(metastore.list_consumers(other.table_uuid)) == 1


def take_purge_early(metastore: InProcessMetastore, table: TableInfo) -> Job:
    """Takes the job as if something had made it due before its time."""
    waiting = find_purge(metastore, table)
    assert waiting.remaining_ms > 86_000_000

    async def make_due(tx: Transaction) -> None:
        await tx.put_job(waiting, 0)

    metastore.run(run_transaction(metastore.store, make_due))
    return lease_purge(metastore, table)


def test_no_one_purges_a_table_before_its_time(log_metastore: InProcessMetastore) -> None:
    table = make_table(log_metastore)
    append(log_metastore, table, 1)
    log_metastore.drop_table(table.name)
    with pytest.raises(InvalidArgument, match=rf"has not failed: it waits .* {table.name} is kept\. Wait, or restore"):
        log_metastore.retry_job(find_purge(log_metastore, table).job_id)
    assert log_metastore.lease_job([PURGE], [table.table_uuid], "c", duration_ms=1000) is None
    job = take_purge_early(log_metastore, table)
    for purges in (log_metastore.begin_purge, log_metastore.purge_rows):
        with pytest.raises(InvalidArgument, match=r"is kept until .* UTC, .* Purge it after that") as caught:
            purges(job.job_id, job.epoch)
        assert caught.value.reason == "TABLE_KEPT"
    # A job that has failed may be tried again, and that does not help either.
    log_metastore.fail_job(job.job_id, job.epoch, "broken")
    log_metastore.retry_job(job.job_id)
    again = lease_purge(log_metastore, table)
    with pytest.raises(InvalidArgument, match="is kept until"):
        log_metastore.begin_purge(again.job_id, again.epoch)
    log_metastore.restore_table(table.name)
    assert snapshot_ids(log_metastore, table) == [1]


def test_control_without_the_check_a_table_is_purged_before_its_time(
    log_metastore: InProcessMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check_nothing(*_: Any) -> None:
        """Leaves the protection out."""

    monkeypatch.setattr(dropped, "_check_kept", check_nothing)
    table = make_table(log_metastore)
    log_metastore.drop_table(table.name)
    job = take_purge_early(log_metastore, table)
    log_metastore.begin_purge(job.job_id, job.epoch)
    with pytest.raises(NotFound, match="kept no longer"):
        log_metastore.restore_table(table.name)


def test_only_who_does_the_job_purges(brief_metastore: Metastore) -> None:
    metastore = brief_metastore
    table = make_table(metastore)
    append(metastore, table, 1, changelog=ChangelogState.PENDING)
    other = metastore.lease_job(["changelog"], [table.table_uuid], "a", duration_ms=60_000)
    assert other is not None
    with pytest.raises(NotFound, match="no job"):
        metastore.begin_purge(other.job_id, other.epoch)
    metastore.drop_table(table.name)
    zombie = lease_purge(metastore, table, "zombie")
    job = lease_purge(metastore, table)
    for late in (metastore.begin_purge, metastore.purge_rows, metastore.finish_job):
        with pytest.raises(Fenced):
            late(zombie.job_id, zombie.epoch)
    assert not find_dropped(metastore, table).is_purged
    # Restoring takes the job away, also from who has it.
    metastore.restore_table(table.name)
    with pytest.raises(NotFound, match=f"no job {job.job_id}"):
        metastore.begin_purge(job.job_id, job.epoch)
    with pytest.raises(NotFound, match="no job 999"):
        metastore.begin_purge(999_999, 1)


@pytest.mark.parametrize(
    ("name", "uuid", "new_name", "message"),
    [
        (TableName("shop", "a b"), "", None, "The name of the table is 'a b'"),
        (TableName("1", "t"), "", None, "The name of the database is '1'"),
        (TableName("shop", "t"), "x", None, "table_uuid is 'x'"),
        (TableName("shop", "t"), "", TableName("shop", ""), "The name of the new_table is ''"),
    ],
)
def test_names_that_cannot_be_are_refused(
    metastore: Metastore, name: TableName, uuid: str, new_name: TableName | None, message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        metastore.restore_table(name, table_uuid=uuid, new_name=new_name)


@pytest.fixture(params=["memory", "postgres"])
def keeps_nothing(request: pytest.FixtureRequest) -> Iterator[InProcessMetastore]:
    url = request.getfixturevalue("migrated_url") if request.param == "postgres" else ""

    def make(store: Store) -> UseCases:
        return UseCases(store, WAREHOUSE, dropped_retention_ms=0)

    async def open_memory() -> Store:
        from lakelog.clock import SystemClock

        return MemoryStore(SystemClock())

    opened = open_in_process(url, make_use_cases=make) if url else in_process(open_memory, make)
    yield opened
    opened.close()


def test_without_a_grace_a_dropped_table_is_purged_at_once(keeps_nothing: InProcessMetastore) -> None:
    table = make_table(keeps_nothing)
    keeps_nothing.drop_table(table.name)
    assert find_purge(keeps_nothing, table).remaining_ms == 0
    with pytest.raises(NotFound, match="kept no longer"):
        keeps_nothing.restore_table(table.name)
    purge(keeps_nothing, table)
    assert keeps_nothing.list_dropped_tables() == []


def test_rows_go_some_at_a_time_wherever_they_stand(migrated_url: str) -> None:
    opened = open_in_process(migrated_url, make_use_cases=make_brief_use_cases)
    try:
        table, other = make_table(opened), make_table(opened)
        for number in range(1, 6):
            append(opened, table, number)
            append(opened, other, number)
        opened.drop_table(table.name)
        job = lease_purge(opened, table)
        opened.begin_purge(job.job_id, job.epoch)
        table_id = int(
            _query(migrated_url, f"SELECT table_id FROM catalog_table WHERE table_uuid = '{table.table_uuid}'")
        )

        async def delete_some(tx: Transaction) -> int:
            return await tx.delete_rows(table_id, 2)

        counts = []
        while count := opened.run(run_transaction(opened.store, delete_some)):
            counts.append(count)
        assert max(counts) == 2
        assert sum(counts) > 12
        for name in OWNED:
            assert _query(migrated_url, f"SELECT count(*) FROM {name} WHERE table_id = {table_id}") == 0, name
        assert not opened.finish_job(job.job_id, job.epoch)
        assert opened.plan(PlanRequest(other.table_uuid)).files.num_rows == 5
        known = _query(
            migrated_url,
            "SELECT array_agg(table_name::text) FROM information_schema.columns "
            "WHERE column_name = 'table_id' AND table_schema = 'public'",
        )
        assert set(known) == {*OWNED, "job", "catalog_table"}, "what belongs to a table goes with it"
    finally:
        opened.close()


def _query(url: str, sql: str) -> Any:
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        row = connection.execute(sql).fetchone()
        assert row is not None
        return row[0]


def test_of_a_restore_and_a_purge_at_once_one_wins(migrated_url: str) -> None:
    opened = open_in_process(migrated_url, make_use_cases=make_brief_use_cases)

    try:
        for _ in range(12):
            table = make_table(opened)
            opened.drop_table(table.name)
            job = lease_purge(opened, table)
            with ThreadPoolExecutor(2) as pool:
                restoring = pool.submit(opened.restore_table, table.name)
                beginning = pool.submit(opened.begin_purge, job.job_id, job.epoch)
                errors = [each.exception(10) for each in (restoring, beginning)]
            assert sum(error is None for error in errors) == 1, errors
            assert all(error is None or isinstance(error, NotFound) for error in errors)
            is_live = table.name.name in opened.list_tables("shop")
            assert is_live == (errors[0] is None)

    finally:
        opened.close()
