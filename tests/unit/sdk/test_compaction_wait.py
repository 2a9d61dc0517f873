"""Waiting for jobs, by a clock that the test moves: when it ends, how often it asks, what counts as progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import pyarrow as pa
import pytest

from lakelog.cli.failures import ExitCode, exit_code_of
from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import JobFailed, Unavailable
from lakelog.format.jobs.job import COMPACT, MAX_ATTEMPTS, Job, JobPage, JobState
from lakelog.format.tables.table import TableInfo, TableName
from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.sdk.maintenance.compaction_request import RequestedCompaction
from lakelog.sdk.maintenance.compaction_result import BucketCompaction, CompactionResult, CompactionState
from lakelog.sdk.maintenance.compaction_wait import CompactionProgress, wait_for_compactions

SCHEMA = TableSchema(0, assign_field_ids(pa.schema([("id", pa.int64())])), (), ())
INFO = TableInfo("a" * 32, TableName("shop", "orders"), "file:///w/a/", SCHEMA, {}, 0, 0, "")
DUE = Job(1, "a" * 32, "shop.orders", COMPACT, "/0", JobState.DUE, 50, {}, 0, "", "", 4, "", 0, 0, 0, {}, 3)
LEASED = replace(DUE, state=JobState.LEASED, epoch=5, attempts=1, holder="c", remaining_ms=60_000)
DONE = replace(DUE, state=JobState.DONE, epoch=5, done_epoch=5, outcome="rewrote it")


class Clock:
    """Moves when somebody sleeps."""

    def __init__(self) -> None:
        self.time_s = 0.0
        self.slept: list[float] = []

    def now_ms(self) -> int:
        return int(self.time_s * 1000)

    def monotonic_s(self) -> float:
        return self.time_s

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time_s += seconds


class Jobs:
    """A metastore whose job is what the time says."""

    def __init__(self, at: Callable[[float], Job], clock: Clock) -> None:
        self._at = at
        self._clock = clock

    def list_job_page(self, table_uuids: Sequence[str] = (), **_: Any) -> JobPage:
        return JobPage((self._at(self._clock.time_s),))


def wait(
    at: Callable[[float], Job], timeout_s: float = 100.0, asked: Job = DUE
) -> tuple[BucketCompaction, Clock, list[CompactionProgress]]:
    clock = Clock()
    reported: list[CompactionProgress] = []
    bucket = BucketCompaction({}, 0, 3, 300, CompactionState.REQUESTED, "Asked for.", 1)
    requested = RequestedCompaction(INFO, CompactionResult("shop.orders", 1, pa.schema([]), (bucket,)), {0: asked})
    metastore = cast(Metastore, Jobs(at, clock))
    (result,) = wait_for_compactions(metastore, [requested], timeout_s=timeout_s, clock=clock, report=reported.append)
    return result.buckets[0], clock, reported


def test_it_asks_in_pauses_that_grow_until_the_job_was_done_after_the_request() -> None:
    bucket, clock, reported = wait(lambda time_s: DONE if time_s > 30 else LEASED if time_s > 10 else DUE)
    assert (bucket.state, bucket.outcome) == (CompactionState.DONE, "rewrote it")
    assert clock.slept[0] == 0.05
    assert clock.slept == sorted(clock.slept)
    assert max(clock.slept) == 2.0
    assert len(clock.slept) < 30
    assert reported[0] == CompactionProgress(1, 0, 0)
    assert CompactionProgress(1, 0, 1) in reported
    assert reported[-1] == CompactionProgress(1, 1, 0)


@pytest.mark.parametrize("state", [JobState.DUE, JobState.LEASED], ids=["due again", "being done again"])
def test_a_job_that_others_have_asked_for_since_is_done_all_the_same(state: JobState) -> None:
    bucket, _, _ = wait(lambda _: replace(DONE, state=state, epoch=6, remaining_ms=1000))
    assert bucket.state is CompactionState.DONE


def test_the_end_of_what_ran_at_the_request_is_not_its_end() -> None:
    asked = replace(LEASED, requested={"strategy": "full"})

    def at(time_s: float) -> Job:
        if time_s < 5:
            return asked
        # What ran has ended well, under its own epoch; the request is due.
        return replace(DONE, state=JobState.DUE) if time_s < 20 else replace(DONE, epoch=6, done_epoch=6)

    _, clock, _ = wait(at, asked=asked)
    assert clock.time_s >= 20


def test_a_job_that_is_being_done_is_progress_however_long_it_takes() -> None:
    _, clock, _ = wait(lambda time_s: DONE if time_s > 1000 else LEASED)
    assert clock.time_s > 1000


@pytest.mark.parametrize(
    "job",
    [DUE, replace(LEASED, remaining_ms=0), replace(DUE, epoch=5, attempts=2, reason="away", remaining_ms=1000)],
    ids=["waits", "abandoned", "rests"],
)
def test_what_no_one_does_is_no_progress(job: Job) -> None:
    with pytest.raises(Unavailable, match="there was no progress for 100 s") as error:
        wait(lambda _: job)
    assert error.value.reason == "COMPACTION_WAITS"
    assert job.reason in str(error.value)


@pytest.mark.parametrize(
    "job",
    [
        replace(DUE, state=JobState.FAILED, epoch=5, attempts=1, reason="x.parquet is damaged"),
        replace(DUE, epoch=20, attempts=MAX_ATTEMPTS, reason="x.parquet is damaged", remaining_ms=300_000),
    ],
    ids=["for good", "again and again"],
)
def test_what_fails_ends_the_wait_with_its_reason(job: Job) -> None:
    with pytest.raises(JobFailed, match=r"job 1 \(shop.orders, bucket 0\): x.parquet is damaged\.") as error:
        wait(lambda _: job)
    assert error.value.reason == "COMPACTION_FAILED"
    # Whoever repeats what may succeed by itself is not to repeat this, nor to think that lakelog was away.
    assert not error.value.retryable
    assert exit_code_of(error.value) is ExitCode.FAILED


def test_a_bucket_keeps_why_it_was_to_be_done_where_nothing_is_said() -> None:
    bucket, _, _ = wait(lambda _: replace(DONE, outcome=""))
    assert bucket.outcome == "Asked for."


def test_many_failures_are_counted_and_some_are_named() -> None:
    clock = Clock()
    jobs = [replace(DUE, job_id=n, state=JobState.FAILED, epoch=5, reason=f"reason {n}") for n in range(1, 9)]

    class Failing:
        def list_job_page(self, table_uuids: Any = (), **_: Any) -> JobPage:
            return JobPage(tuple(jobs))

    buckets = tuple(
        BucketCompaction({"dt": "x"}, n, 3, 300, CompactionState.REQUESTED, "Asked for.", n) for n in range(1, 9)
    )
    requested = RequestedCompaction(
        INFO,
        CompactionResult("shop.orders", 1, pa.schema([("dt", pa.string())]), buckets),
        {place: replace(DUE, job_id=place + 1) for place in range(8)},
    )
    with pytest.raises(JobFailed) as error:
        wait_for_compactions(cast(Metastore, Failing()), [requested], timeout_s=1, clock=clock)
    text = str(error.value)
    assert "The compaction of 8 buckets has failed (0 of 8 jobs are done)" in text
    assert "job 5 (shop.orders, dt=x bucket 5): reason 5; and 3 more, see `lakelog jobs`" in text
