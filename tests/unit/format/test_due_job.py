"""What commits make due by themselves weakens nothing that waits, and is remembered while the job is being done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from lakelog.format.jobs.due_job import is_requested, merge_due, plan_due, take_delay
from lakelog.format.jobs.job import (
    COMPACT,
    DUE,
    FULL,
    HAS_WAITED,
    MINOR,
    NOT_BEFORE,
    STRATEGY,
    DueJob,
    Job,
    JobState,
    plan_request,
    take_requested,
)

NOW = {STRATEGY: DUE, "added_after": "7"}
LATER = {**NOW, HAS_WAITED: "true"}
EARLIER = {STRATEGY: DUE, "added_after": "3"}


def make_job(state: JobState, payload: Mapping[str, str], **more: object) -> Job:
    fields = {"attempts": 0, "reason": "", "outcome": "", "epoch": 1, "holder": "", "remaining_ms": 0}
    fields |= {"created_at_ms": 0, "updated_at_ms": 0, **more}
    return Job(1, "0" * 32, "shop.t", COMPACT, "/0", state, 3, payload, **fields)  # type: ignore[arg-type]


def due(payload: Mapping[str, str] = NOW, delay_ms: int = 0) -> DueJob:
    return DueJob(1, COMPACT, "/0", 5, payload, delay_ms)


@pytest.mark.parametrize("state", [JobState.DUE, JobState.FAILED])
@pytest.mark.parametrize("strategy", [MINOR, FULL])
def test_what_was_asked_for_stays_as_strong(state: JobState, strategy: str) -> None:
    assert plan_due(make_job(state, {STRATEGY: strategy}), due(), 0).payload[STRATEGY] == strategy


def test_of_two_that_are_due_by_themselves_the_newer_one_counts() -> None:
    assert plan_due(make_job(JobState.DUE, EARLIER), due(), 0).payload == NOW
    assert plan_due(make_job(JobState.DUE, LATER, remaining_ms=5), due(), 0) == due()
    assert plan_due(make_job(JobState.FAILED, EARLIER), due(), 0).payload == NOW
    assert plan_due(make_job(JobState.DONE, {STRATEGY: FULL}), due(), 0) == due()
    assert plan_due(None, due(), 0) == due()


def test_what_is_due_already_does_not_become_what_has_waited() -> None:
    assert plan_due(make_job(JobState.DUE, EARLIER), due(LATER, 100), 0).payload == EARLIER
    assert plan_due(make_job(JobState.DUE, LATER, remaining_ms=5), due(LATER, 100), 0).payload == LATER


def test_what_is_due_later_is_remembered_with_its_time_while_the_job_is_done() -> None:
    job = make_job(JobState.LEASED, {STRATEGY: FULL})
    behind = plan_due(job, due(LATER, 100), 1000)
    assert (behind.payload, behind.delay_ms) == ({**LATER, NOT_BEFORE: "1100"}, 0)
    assert take_delay(behind.payload, 1030) == (LATER, 70)
    assert take_delay(behind.payload, 5000) == (LATER, 0)
    assert take_delay(NOW, 5000) == (NOW, 0)
    waiting = replace(job, requested=behind.payload)
    # What is due at once need not wait, and neither need what is asked for.
    assert plan_due(waiting, due(), 1050).payload == NOW
    assert plan_request(waiting, {STRATEGY: MINOR})[STRATEGY] == MINOR
    assert NOT_BEFORE not in plan_request(waiting, {STRATEGY: MINOR})
    assert NOT_BEFORE not in take_requested(waiting).payload
    # And they are not put off again.
    assert plan_due(replace(job, requested=NOW), due(LATER, 100), 1050).payload == NOW
    assert plan_due(replace(job, requested={STRATEGY: FULL}), due(LATER, 100), 1050).payload == {STRATEGY: FULL}


def test_what_is_more_than_due_but_was_not_asked_for_is_not_weakened_and_not_taken_for_a_request() -> None:
    job = make_job(JobState.LEASED, NOW)
    full = due({STRATEGY: FULL})
    behind = plan_due(job, full, 0).payload
    assert behind[STRATEGY] == FULL
    assert not is_requested(behind)
    # What is due besides does not weaken it, and what is asked for makes it a request.
    waiting = replace(job, requested=behind)
    again = plan_due(waiting, due(), 0).payload
    assert (again[STRATEGY], is_requested(again)) == (FULL, False)
    assert is_requested(plan_request(waiting, {STRATEGY: MINOR}))
    asked = replace(job, requested={STRATEGY: MINOR})
    assert is_requested(plan_due(asked, full, 0).payload)
    assert plan_due(asked, full, 0).payload[STRATEGY] == FULL
    # It does it behind the end, or with what was not done, and knows no more who wanted it.
    assert take_delay(behind, 0) == ({STRATEGY: FULL}, 0)
    assert take_requested(waiting).payload == {**NOW, STRATEGY: FULL}


def test_what_several_planners_make_due_is_one_job() -> None:
    other = DueJob(1, COMPACT, "/1", 1, NOW)
    merged = merge_due([due(LATER, 100), other, DueJob(1, COMPACT, "/0", 9, {STRATEGY: FULL})])
    assert merged == [DueJob(1, COMPACT, "/0", 9, {**LATER, STRATEGY: FULL}), other]
    assert merge_due([due({STRATEGY: FULL}), due(NOW)])[0].payload == {**NOW, STRATEGY: FULL}
    assert merge_due([]) == []


def test_other_kinds_of_jobs_have_their_arguments() -> None:
    job = replace(make_job(JobState.DONE, {}), kind="expire")
    planned = DueJob(1, "expire", "", 0, {"until": "3"}, 500)
    assert plan_due(job, planned, 0) == planned
