"""What commits make due: found beside them, forgotten by nobody, asked again where only time passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import pytest

from lakelog.clock import SystemClock
from lakelog.errors import InvalidArgument, Unavailable
from lakelog.format.jobs.job import COMPACT, DUE, FULL, PURGE, STRATEGY, DueJob, JobState, to_bucket_scope
from metastore.jobs.due_work import DueWork, TableWork
from metastore.memory import MemoryStore
from metastore.postgres import PostgresStore
from metastore.store.transaction import Store, Transaction
from metastore.testing import in_process
from metastore.use_cases import UseCases
from tests.support.metastore.making import append, make_table
from tests.support.metastore.opening import WAREHOUSE

SCOPE = to_bucket_scope(b"", 0)


@dataclass
class Recorder:
    """Tells that these jobs are due, and remembers what it was asked."""

    delays_ms: dict[str, int] = field(default_factory=dict)
    seen: list[tuple[str, int, int]] = field(default_factory=list)
    fails_at: dict[str, Exception] = field(default_factory=dict)

    async def __call__(self, tx: Transaction, work: TableWork) -> Sequence[DueJob]:
        if work.head.table_uuid in self.fails_at:
            raise self.fails_at[work.head.table_uuid]
        self.seen.append((work.head.table_uuid, work.after, work.until))
        return [
            DueJob(work.head.table_id, COMPACT, scope, 3, {STRATEGY: DUE}, delay_ms)
            for scope, delay_ms in self.delays_ms.items()
        ]


class Planned:
    """A metastore whose work is planned by a recorder, when the test says so."""

    def __init__(self, open_store: Callable[[], Store]) -> None:
        self.recorder = Recorder()

        async def make_store() -> Store:
            return open_store()

        self.metastore = in_process(make_store, lambda store: UseCases(store, WAREHOUSE, planners=[self.recorder]))
        # Nobody else plans meanwhile.
        self.metastore.stop_background()

    def step(self) -> int:
        return self.metastore.run(self.metastore.use_cases.due_work.step())

    def step_of_another(self) -> int:
        """A metastore that was started just now, over the same store."""
        other = DueWork(self.metastore.store, SystemClock(), [self.recorder], lambda: None)

        async def step() -> int:
            return await other.step()

        return self.metastore.run(step())


@pytest.fixture(params=["memory", "postgres"])
def planned(request: pytest.FixtureRequest) -> Iterator[Planned]:
    if request.param == "memory":
        found = Planned(lambda: MemoryStore(SystemClock()))
    else:
        url = request.getfixturevalue("migrated_url")
        found = Planned(lambda: PostgresStore(url, pool_size=4))
    try:
        yield found
    finally:
        found.metastore.close()


def test_each_snapshot_is_planned_once(planned: Planned) -> None:
    table = make_table(planned.metastore)
    planned.step()
    planned.recorder.seen.clear()
    for count in range(3):
        append(planned.metastore, table, count)
    assert planned.step() == 1
    append(planned.metastore, table, 3)
    assert planned.step() == 1
    assert planned.step() == 0
    assert planned.recorder.seen == [(table.table_uuid, 0, 3), (table.table_uuid, 3, 4)]


@pytest.mark.parametrize("is_planned", [False, True], ids=["forgotten", "control"])
def test_what_a_metastore_forgets_when_it_dies_is_found_at_the_next_start(planned: Planned, is_planned: bool) -> None:
    table = make_table(planned.metastore)
    append(planned.metastore, table, 0)
    if is_planned:
        planned.step()
    planned.recorder.seen.clear()
    assert planned.step_of_another() == (not is_planned)
    assert planned.recorder.seen == ([] if is_planned else [(table.table_uuid, 0, 1)])


def test_a_job_that_ends_and_an_option_that_changes_have_the_table_planned_again(planned: Planned) -> None:
    table = make_table(planned.metastore)
    planned.recorder.delays_ms = {SCOPE: 0}
    append(planned.metastore, table, 0)
    planned.step()
    planned.recorder.delays_ms.clear()
    job = planned.metastore.lease_job([COMPACT], [], "a", duration_ms=60_000)
    assert job is not None
    planned.metastore.finish_job(job.job_id, job.epoch)
    planned.recorder.seen.clear()
    # Also if whoever ended it dies before it has planned.
    assert planned.step_of_another() == 1
    planned.metastore.alter_table(table.table_uuid, set_options={"write-only": "true"}, unset_options=[])
    assert planned.step_of_another() == 1
    assert planned.step_of_another() == 0
    assert planned.recorder.seen == [(table.table_uuid, 1, 1)] * 2


@pytest.mark.parametrize("error", [RuntimeError("no"), InvalidArgument("no")], ids=["bug", "lakelog"])
def test_a_planner_that_fails_stops_no_one_else_and_is_asked_again(planned: Planned, error: Exception) -> None:
    table, other = make_table(planned.metastore), make_table(planned.metastore)
    planned.step()
    planned.recorder.fails_at = {table.table_uuid: error}
    planned.recorder.seen.clear()
    append(planned.metastore, table, 0)
    append(planned.metastore, other, 0)
    assert planned.step() == 1
    assert planned.recorder.seen == [(other.table_uuid, 0, 1)]
    planned.recorder.fails_at.clear()
    assert planned.step_of_another() == 1
    assert planned.recorder.seen[1:] == [(table.table_uuid, 0, 1)]


def test_what_is_touched_while_the_store_is_lost_is_planned_later(planned: Planned) -> None:
    table = make_table(planned.metastore)
    append(planned.metastore, table, 0)
    planned.recorder.fails_at = {table.table_uuid: Unavailable("the database is away")}
    with pytest.raises(Unavailable):
        planned.step()
    planned.recorder.fails_at.clear()
    planned.recorder.seen.clear()
    assert planned.step() == 1
    assert planned.recorder.seen == [(table.table_uuid, 0, 1)]


def test_what_another_metastore_plans_at_this_moment_is_looked_at_again(planned: Planned) -> None:
    """It may have looked before the commit that came here."""
    table = make_table(planned.metastore)
    planned.step()
    append(planned.metastore, table, 0)
    planned.recorder.seen.clear()

    async def step_beside_another() -> list[int]:
        store = planned.metastore.store
        async with store.transaction() as tx:
            head = (await tx.find_heads([table.table_uuid]))[table.table_uuid]
            assert await tx.lock_work_cursor(head.table_id) is not None
            beside = await planned.metastore.use_cases.due_work.step()
        return [beside, await planned.metastore.use_cases.due_work.step()]

    if not isinstance(planned.metastore.store, PostgresStore):
        pytest.skip("in memory there is one transaction at a time")
    assert planned.metastore.run(step_beside_another()) == [0, 1]
    assert planned.recorder.seen == [(table.table_uuid, 0, 1)]


def test_jobs_are_due_after_their_delay_and_never_put_off(planned: Planned) -> None:
    table = make_table(planned.metastore)
    later = to_bucket_scope(b"", 1)
    planned.recorder.delays_ms = {SCOPE: 0, later: 60_000}
    append(planned.metastore, table, 0)
    planned.step()
    remaining = {job.scope: job.remaining_ms for job in planned.metastore.list_jobs([table.table_uuid])}
    assert remaining[SCOPE] == 0
    assert 50_000 < remaining[later] <= 60_000
    job = planned.metastore.lease_job([COMPACT], [], "a", duration_ms=60_000)
    assert job is not None
    assert job.scope == SCOPE
    assert planned.metastore.lease_job([COMPACT], [], "a", duration_ms=60_000) is None
    # The one is remembered behind its end; the other is not put off, but may come forward.
    planned.recorder.delays_ms = {SCOPE: 0, later: 90_000}
    append(planned.metastore, table, 1)
    planned.step()
    jobs = {job.scope: job for job in planned.metastore.list_jobs([table.table_uuid])}
    assert jobs[SCOPE].requested == {STRATEGY: DUE}
    assert jobs[later].remaining_ms <= 60_000
    planned.recorder.delays_ms = {later: 0}
    append(planned.metastore, table, 2)
    planned.step()
    assert {job.remaining_ms for job in planned.metastore.list_jobs([table.table_uuid]) if job.scope == later} == {0}


def test_what_is_due_by_itself_weakens_nothing_and_revives_nothing(planned: Planned) -> None:
    table = make_table(planned.metastore)
    append(planned.metastore, table, 0)
    planned.metastore.request_jobs(table.table_uuid, COMPACT, [SCOPE], {STRATEGY: FULL}, priority=50)
    planned.recorder.delays_ms = {SCOPE: 0}
    planned.step()
    (job,) = planned.metastore.list_jobs([table.table_uuid])
    assert (job.state, job.payload, job.priority) == (JobState.DUE, {STRATEGY: FULL}, 50)
    taken = planned.metastore.lease_job([COMPACT], [], "a", duration_ms=60_000)
    assert taken is not None
    planned.metastore.fail_job(taken.job_id, taken.epoch, "damaged", final=True)
    append(planned.metastore, table, 1)
    planned.step()
    (job,) = planned.metastore.list_jobs([table.table_uuid])
    assert (job.state, job.payload, job.reason) == (JobState.FAILED, {STRATEGY: FULL}, "damaged")


def test_a_table_that_is_dropped_has_no_jobs(planned: Planned) -> None:
    table = make_table(planned.metastore)
    append(planned.metastore, table, 0)
    planned.metastore.drop_table(table.name)
    planned.recorder.delays_ms = {SCOPE: 0}
    assert planned.step() == 0
    # But for that of its end.
    assert [job.kind for job in planned.metastore.list_jobs()] == [PURGE]
