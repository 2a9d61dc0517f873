"""What is wrong with waiting work: jobs, logs, consumers, and snapshots that cannot expire. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from lakelog.format.jobs.overview import Overview
from lakelog.format.jobs.presence import COMPACTOR, PUBLISHER, Liveness, Service
from lakelog.format.jobs.queue import JobQueue
from lakelog.format.jobs.waiting_work import ConsumerLag, ConsumerLags, LogLag, WaitingWork
from lakelog.format.retention.expiry import OverdueSnapshots, SnapshotLeaseKind
from lakelog.health.problem import Problem, Severity, bound, cut, say_remedy

LEFT_AFTER_MS: Final = 60_000
"""A compactor takes a job within a second. If jobs wait for so long and none is running, there is probably none."""

LATE_LOG_MS: Final = 60_000
"""A publisher publishes a snapshot within a second."""

LATE_CONSUMER_MS: Final = 600_000
"""Consumers may read in batches."""

_FAILED, _WARNING = Severity.FAILED, Severity.WARNING


def find_in_overview(overview: Overview, services: Sequence[Service] | None) -> list[Problem]:
    """All that is wrong with waiting work.

    Args:
        overview: Has the work.
        services: Those that report; None: the caller may not see them.
    """
    work, now_ms = overview.work, overview.now_ms
    present = None if services is None else {each.kind for each in services if each.liveness is not Liveness.GONE}
    problems = _find_in_overdue(overview.overdue)
    if work is not None:
        at_ms = now_ms - overview.work_age_ms
        problems = [
            *_find_in_queues(work.queues, at_ms, present),
            *_find_in_jobs(work, at_ms),
            *_find_in_logs(work, at_ms, present),
            *_find_in_consumers(work.consumers, at_ms),
            *problems,
        ]
    return problems


def is_left(queues: Sequence[JobQueue]) -> bool:
    """Whether jobs have been due for long, and none is being done."""
    waits_ms = max((queue.oldest_due_ms for queue in queues if queue.due_count), default=0)
    return waits_ms >= LEFT_AFTER_MS and not any(queue.leased_count for queue in queues)


def _find_in_queues(queues: Sequence[JobQueue], at_ms: int, present: set[str] | None) -> Iterator[Problem]:
    if not is_left(queues):
        return
    count = sum(queue.due_count for queue in queues)
    since_ms = at_ms - max(queue.oldest_due_ms for queue in queues)
    jobs = f"{count:,} jobs wait" if count != 1 else "A job waits"
    if present is None or COMPACTOR in present:
        remedy = say_remedy("jobs", "list")
        yield Problem(_WARNING, "compactor", "", since_ms, f"{jobs}, and no compactor does any of them.", remedy)
    else:
        remedy = say_remedy("compactor", "run")
        yield Problem(_FAILED, "compactor", "", since_ms, f"{jobs}, and no compactor runs.", remedy)


def _find_in_jobs(work: WaitingWork, at_ms: int) -> list[Problem]:
    found = [
        Problem(
            _FAILED,
            "job",
            job.table,
            at_ms - job.failed_ms,
            f"Job {job.job_id} ({job.kind}) of {job.table} has failed for good: {cut(job.reason)}",
            say_remedy("jobs", "retry", str(job.job_id)),
            job.table,
        )
        for job in work.failed_jobs
    ]
    count = sum(queue.failed_count for queue in work.queues)
    return bound(found, count, say_remedy("jobs", "list"))


def _find_in_logs(work: WaitingWork, at_ms: int, present: set[str] | None) -> list[Problem]:
    logs = work.logs.named
    # A log that is being made has a problem without a text, for a moment.
    broken = [each for each in logs if each.problem]
    late = [each for each in logs if not each.problem and each.behind_ms >= LATE_LOG_MS]
    # Those that are not named lag for less time; where all that is named is late, they may be as well.
    unnamed = work.logs.lagging_count - sum(each.snapshots_behind > 0 for each in logs)
    count = len(late) + unnamed if logs and logs[-1] in late else len(late)
    no_publisher = present is not None and PUBLISHER not in present
    return [
        *bound([_of_broken_log(each, at_ms) for each in broken], remedy=say_remedy("log", "status")),
        *bound([_of_late_log(each, at_ms, no_publisher) for each in late], count, say_remedy("log", "status")),
    ]


def _of_broken_log(lag: LogLag, at_ms: int) -> Problem:
    since_ms = at_ms - lag.behind_ms if lag.behind_ms else None
    summary = f"The log of {lag.table} cannot be published: {cut(lag.problem)}"
    return Problem(_FAILED, "log", lag.table, since_ms, summary, say_remedy("log", "status", lag.table), lag.table)


def _of_late_log(lag: LogLag, at_ms: int, no_publisher: bool) -> Problem:
    snapshots = "1 snapshot" if lag.snapshots_behind == 1 else f"{lag.snapshots_behind:,} snapshots"
    summary = f"The log of {lag.table} is {snapshots} behind{', and no publisher runs' if no_publisher else ''}."
    words = ("publisher", "run") if no_publisher else ("log", "status", lag.table)
    severity = _FAILED if no_publisher else _WARNING
    return Problem(severity, "log", lag.table, at_ms - lag.behind_ms, summary, say_remedy(*words), lag.table)


def _find_in_consumers(consumers: Sequence[ConsumerLags], at_ms: int) -> list[Problem]:
    listed = []
    for lags in consumers:
        late = [each for each in lags.named if each.behind_ms >= LATE_CONSUMER_MS]
        listed += bound([_of_consumer(each, lags.state, at_ms) for each in late])
    return listed


def _of_consumer(lag: ConsumerLag, state: str, at_ms: int) -> Problem:
    snapshots = "1 snapshot" if lag.snapshots == 1 else f"{lag.snapshots:,} snapshots"
    rows = "" if lag.rows is None else f", {lag.rows:,} rows,"
    reads = " No program reads under its name." if state == "silent" else ""
    summary = f"Consumer {cut(lag.consumer_id)[:-1]} of {lag.table} is {snapshots}{rows} behind.{reads}"
    remedy = say_remedy("consumers", "list", lag.table)
    return Problem(_WARNING, "consumer", lag.table, at_ms - lag.behind_ms, summary, remedy, lag.table)


def _find_in_overdue(overdue: Sequence[OverdueSnapshots]) -> list[Problem]:
    return bound([_of_overdue(each) for each in overdue])


def _of_overdue(found: OverdueSnapshots) -> Problem:
    table, holder = found.table, cut(found.lease.holder)[:-1]
    match found.lease.kind:
        case SnapshotLeaseKind.CONSUMER:
            who, remedy = f"consumer {holder}", say_remedy("consumers", "delete", names=(table, found.lease.holder))
        case SnapshotLeaseKind.READER:
            who, remedy = f"reader {holder}", say_remedy("table", "describe", table)
        case SnapshotLeaseKind.CHANGELOG:
            who, remedy = "a changelog that is still to be made", say_remedy("jobs", "list", table)
        case SnapshotLeaseKind.PUBLISHER:
            who, remedy = f"the publisher of topic {holder}", say_remedy("log", "status", table)
    count = "1 snapshot" if found.count == 1 else f"{found.count:,} snapshots"
    summary = f"{count} of {table} would have expired, but {who} needs {'it' if found.count == 1 else 'them'}."
    return Problem(_WARNING, "expiry", table, found.since_ms, summary, remedy, table)
