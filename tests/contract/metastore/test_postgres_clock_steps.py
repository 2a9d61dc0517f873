"""The wall clock of Postgres, which judges leases and stamps commits, steps forward and back while it runs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakelog.embedded import postgres as embedded
from lakelog.embedded.postgres import EmbeddedPostgres
from lakelog.errors import Fenced
from lakelog.format.jobs.job import COMPACT, to_bucket_scope
from lakelog.format.jobs.presence import Liveness
from metastore.postgres import migrate
from metastore.postgres import publishing as publishing_module
from metastore.postgres.connection.connections import libpq_url
from metastore.postgres.jobs import work as work_module
from metastore.postgres.jobs.jobs import _IS_DUE, PostgresJobs
from metastore.testing import InProcessMetastore
from tests.support.clock_steps import DAY_S, HOUR_S, SteppedClock
from tests.support.metastore.making import append, make_table
from tests.support.metastore.opening import open_in_process
from tests.support.metastore.reports import COMPACTOR

FORWARD_AND_BACK = pytest.mark.parametrize("step_s", [HOUR_S, -HOUR_S, DAY_S, -DAY_S])
BACK = pytest.mark.parametrize("step_s", [-HOUR_S, -DAY_S])
LEASE_MS = 60_000
SCOPE = to_bucket_scope(b"", 0)


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[SteppedClock, str]]:
    with (
        tempfile.TemporaryDirectory(prefix="ll-clk-", ignore_cleanup_errors=True) as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        clock = SteppedClock()
        plain = embedded._server_environment
        patch.setattr(embedded, "_server_environment", lambda programs: {**plain(programs), **clock.environment})
        with EmbeddedPostgres(Path(folder) / "postgres") as postgres:
            migrate(postgres.url())
            yield clock, libpq_url(postgres.url())


@pytest.fixture
def clock(server: tuple[SteppedClock, str]) -> Iterator[SteppedClock]:
    server[0].step(0)
    yield server[0]
    server[0].step(0)


@pytest.fixture
def metastore(server: tuple[SteppedClock, str]) -> Iterator[InProcessMetastore]:
    opened = open_in_process(server[1])
    yield opened
    opened.close()


def test_commits_go_on_and_their_times_never_go_back(metastore: InProcessMetastore, clock: SteppedClock) -> None:
    table = make_table(metastore)
    append(metastore, table, 1)
    for identifier, step_s in enumerate([HOUR_S, -HOUR_S, DAY_S, -DAY_S, 0], start=2):
        clock.step(step_s)
        append(metastore, table, identifier)
    page = metastore.list_snapshots(table.table_uuid)
    found = sorted(page.snapshots, key=lambda each: each.snapshot_id)
    assert [each.snapshot_id for each in found] == [1, 2, 3, 4, 5, 6]
    times = [each.committed_at_ms for each in found]
    assert times == sorted(times)
    assert times[1] - times[0] >= HOUR_S * 1000, "the clock was not stepped"
    assert times[3] == times[-1], "after the step back the time stands still"


@FORWARD_AND_BACK
def test_epochs_only_grow(metastore: InProcessMetastore, clock: SteppedClock, step_s: int) -> None:
    first = metastore.register_writer("stepped")
    clock.step(step_s)
    second = metastore.register_writer("stepped")
    clock.step(0)
    assert first < second < metastore.register_writer("stepped")


@FORWARD_AND_BACK
def test_a_dead_holder_keeps_its_lease_no_longer(
    metastore: InProcessMetastore, clock: SteppedClock, step_s: int
) -> None:
    name = f"dead/{step_s}"
    dead = metastore.acquire_lease(name, "dead", LEASE_MS)
    assert dead.acquired
    assert not metastore.acquire_lease(name, "other", LEASE_MS).acquired
    clock.step(step_s)
    other = metastore.acquire_lease(name, "other", LEASE_MS)
    assert other.acquired
    assert other.epoch > dead.epoch
    with pytest.raises(Fenced):
        metastore.renew_lease(name, dead.epoch, LEASE_MS)
    # The one that lives keeps it, with the new time.
    assert metastore.renew_lease(name, other.epoch, LEASE_MS) > 0
    assert not metastore.acquire_lease(name, "third", LEASE_MS).acquired


@FORWARD_AND_BACK
def test_a_living_holder_goes_on(metastore: InProcessMetastore, clock: SteppedClock, step_s: int) -> None:
    name = f"living/{step_s}"
    held = metastore.acquire_lease(name, "living", LEASE_MS)
    clock.step(step_s)
    assert 0 < metastore.renew_lease(name, held.epoch, LEASE_MS) <= LEASE_MS
    assert not metastore.acquire_lease(name, "other", LEASE_MS).acquired


@BACK
def test_control_with_the_deadline_alone_a_dead_holder_keeps_its_lease(
    metastore: InProcessMetastore, clock: SteppedClock, step_s: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = work_module._ACQUIRE.replace(work_module.IS_OVER, "lease.deadline <= clock_timestamp()")
    monkeypatch.setattr(work_module, "_ACQUIRE", plain)
    name = f"control/{step_s}"
    metastore.acquire_lease(name, "dead", LEASE_MS)
    clock.step(step_s)
    assert not metastore.acquire_lease(name, "other", LEASE_MS).acquired


def test_jobs_are_due_and_leased_by_the_new_time(metastore: InProcessMetastore, clock: SteppedClock) -> None:
    table = make_table(metastore)
    uuids = [table.table_uuid]

    def lease(holder: str) -> int | None:
        job = metastore.lease_job([COMPACT], uuids, holder, duration_ms=LEASE_MS)
        return None if job is None else job.epoch

    (requested,) = metastore.request_jobs(table.table_uuid, COMPACT, [SCOPE], {"strategy": "full"})
    # What was due before is due after it.
    clock.step(-DAY_S)
    dead = lease("dead")
    assert dead is not None
    assert lease("other") is None
    # The next step back: its holder may be dead, and the job is taken over.
    clock.step(-2 * DAY_S)
    other = lease("other")
    assert other is not None
    assert other > dead
    with pytest.raises(Fenced):
        metastore.heartbeat_job(requested.job_id, dead, LEASE_MS)
    # A holder that lives renews it by the new time.
    clock.step(-3 * DAY_S)
    assert 0 < metastore.heartbeat_job(requested.job_id, other, LEASE_MS) <= LEASE_MS
    assert lease("third") is None
    clock.step(0)
    assert lease("third") is not None


def test_control_with_the_time_alone_jobs_wait_until_the_clock_is_there_again(
    metastore: InProcessMetastore, clock: SteppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = PostgresJobs.lease_sql.replace(_IS_DUE, "j.due_at <= clock_timestamp()")
    monkeypatch.setattr(PostgresJobs, "lease_sql", plain)
    table = make_table(metastore)
    metastore.request_jobs(table.table_uuid, COMPACT, [SCOPE], {"strategy": "full"})
    clock.step(-DAY_S)
    assert metastore.lease_job([COMPACT], [table.table_uuid], "any", duration_ms=LEASE_MS) is None


@FORWARD_AND_BACK
def test_silent_writers_are_silent_and_living_ones_report_again(
    metastore: InProcessMetastore, clock: SteppedClock, step_s: int
) -> None:
    table = make_table(metastore)
    attempts = [metastore.stage_attempt([table.table_uuid], f"w{n}", identifier=1).attempt_id for n in range(2)]
    metastore.renew_attempts(attempts)
    assert not any(each.is_silent for each in metastore.find_attempts(table.table_uuid, attempts).values())
    clock.step(step_s)
    metastore.renew_attempts(attempts[:1])
    found = metastore.find_attempts(table.table_uuid, attempts)
    assert [found[each].is_silent for each in attempts] == [False, True]


def test_control_by_the_latest_time_a_dead_writer_lives_until_the_clock_is_there_again(
    metastore: InProcessMetastore, clock: SteppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = publishing_module._FIND_ATTEMPTS.replace("abs(", "(")
    monkeypatch.setattr(publishing_module, "_FIND_ATTEMPTS", plain)
    table = make_table(metastore)
    attempt = metastore.stage_attempt([table.table_uuid], "w", identifier=1).attempt_id
    clock.step(-HOUR_S)
    assert not metastore.find_attempts(table.table_uuid, [attempt])[attempt].is_silent


@FORWARD_AND_BACK
def test_a_service_that_reports_no_more_is_not_shown_as_present(
    metastore: InProcessMetastore, clock: SteppedClock, step_s: int
) -> None:
    metastore.report_presence(COMPACTOR)
    clock.step(step_s)
    assert [each.liveness for each in metastore.list_services()] in ([Liveness.GONE], [])
    metastore.report_presence(COMPACTOR)
    assert [each.liveness for each in metastore.list_services()] == [Liveness.PRESENT]
