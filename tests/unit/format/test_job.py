"""Scopes of jobs on buckets, and what becomes of what is asked for."""

from __future__ import annotations

import pytest

from lakelog.errors import InvalidArgument
from lakelog.format.jobs.job import (
    COMPACT,
    DUE,
    FULL,
    MINOR,
    STRATEGY,
    Job,
    JobState,
    merge_payloads,
    parse_bucket_scope,
    plan_request,
    take_requested,
    to_bucket_scope,
)
from lakelog.format.keys.encoding import MAX_PARTITION_BYTES


@pytest.mark.parametrize(
    ("partition", "bucket", "scope"),
    [
        (b"", 0, "/0"),
        (b"\x01a\x00\x00", 12, "01610000/12"),
        (b"\xff" * MAX_PARTITION_BYTES, (1 << 31) - 1, "ff" * MAX_PARTITION_BYTES + "/2147483647"),
    ],
)
def test_a_scope_names_a_bucket_and_says_which(partition: bytes, bucket: int, scope: str) -> None:
    assert to_bucket_scope(partition, bucket) == scope
    assert parse_bucket_scope(scope) == (partition, bucket)


@pytest.mark.parametrize(
    "scope",
    [
        "",
        "/",
        "0",
        "01",
        "/-1",
        "/01",
        "/1 ",
        "/1\n",
        "/2147483648",
        "/9999999999999",
        "0/1",
        "AB/1",
        "a b/1",
        "01/1/2",
        "/\u0661",
        "ff" * (MAX_PARTITION_BYTES + 1) + "/0",
    ],
)
def test_what_names_no_bucket_is_refused(scope: str) -> None:
    with pytest.raises(InvalidArgument, match="names no bucket") as error:
        parse_bucket_scope(scope)
    assert error.value.metadata["field"] == "scope"


@pytest.mark.parametrize(
    ("waiting", "asked", "strategy"),
    [
        ({STRATEGY: DUE}, {}, DUE),
        ({}, {STRATEGY: MINOR}, MINOR),
        ({STRATEGY: DUE}, {STRATEGY: MINOR}, MINOR),
        ({STRATEGY: MINOR}, {}, MINOR),
        ({STRATEGY: FULL}, {STRATEGY: MINOR}, FULL),
        ({STRATEGY: MINOR}, {STRATEGY: FULL}, FULL),
    ],
)
def test_the_stronger_strategy_stays(waiting: dict[str, str], asked: dict[str, str], strategy: str) -> None:
    assert merge_payloads(waiting, asked) == {STRATEGY: strategy}


def test_other_kinds_of_jobs_have_no_strategy() -> None:
    assert merge_payloads({"a": "1"}, {"b": "2"}) == {"a": "1", "b": "2"}


@pytest.mark.parametrize(
    ("state", "payload", "requested", "asked", "next_strategy"),
    [
        (None, "", "", MINOR, MINOR),
        (JobState.DONE, FULL, "", MINOR, MINOR),
        (JobState.DUE, FULL, "", MINOR, FULL),
        (JobState.FAILED, FULL, "", MINOR, FULL),
        (JobState.LEASED, FULL, "", MINOR, MINOR),
        (JobState.LEASED, MINOR, FULL, MINOR, FULL),
    ],
)
def test_what_is_asked_for_comes_to_what_waits_and_not_to_what_is_being_done(
    state: JobState | None, payload: str, requested: str, asked: str, next_strategy: str
) -> None:
    job = None if state is None else _job(state, payload, requested)
    assert plan_request(job, {STRATEGY: asked}) == {STRATEGY: next_strategy}


def test_what_was_not_done_is_done_with_what_was_asked_for_since() -> None:
    job = take_requested(_job(JobState.LEASED, FULL, MINOR))
    assert (job.payload, job.requested) == ({STRATEGY: FULL}, {})
    assert take_requested(job) is job


def _job(state: JobState, strategy: str, requested: str) -> Job:
    return Job(
        job_id=1,
        table_uuid="0" * 32,
        table="shop.orders",
        kind=COMPACT,
        scope="/0",
        state=state,
        priority=0,
        payload={STRATEGY: strategy},
        attempts=0,
        reason="",
        outcome="",
        epoch=1,
        holder="",
        remaining_ms=0,
        created_at_ms=0,
        updated_at_ms=0,
        requested={STRATEGY: requested} if requested else {},
    )
