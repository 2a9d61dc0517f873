"""Waits for requested compactions, and reports what became of them.

The metastore is polled in pauses that grow. A job is done when the epoch of its last success is above its epoch at the
time of the request, even if others have requested more since.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from lakelog.client.cancellation import check_cancelled
from lakelog.client.job_pages import find_jobs
from lakelog.client.metastore.metastore import Metastore
from lakelog.clock import Clock
from lakelog.errors import InvalidArgument, JobFailed, LakelogError, Unavailable
from lakelog.format.jobs.job import MAX_ATTEMPTS, Job, JobState, JobStatus
from lakelog.progress.tracking import track
from lakelog.sdk.maintenance.compaction_request import RequestedCompaction
from lakelog.sdk.maintenance.compaction_result import BucketCompaction, CompactionResult, CompactionState

DEFAULT_TIMEOUT_S: Final = 600.0
"""Without any progress: longer than the longest pause of a failed job, so that a retry falls into this time."""

COMPACTION_FAILED: Final = "COMPACTION_FAILED"
COMPACTION_WAITS: Final = "COMPACTION_WAITS"

_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 2.0
_PAUSE_GROWTH: Final = 1.5
"""The end of a small compaction is seen at once, and one that takes hours costs half a call a second."""

_COUNTED: Final = 1000
"""Running jobs, of which there are never more than compactors."""

_SHOWN: Final = 5
"""Jobs that an error names; `lakelog jobs` shows all."""


@dataclass(frozen=True)
class CompactionProgress:
    """How far the awaited jobs have come.

    Args:
        jobs: All of them.
        ended: Those that are done or have failed.
        running: Those that a compactor works on now.
    """

    jobs: int
    ended: int
    running: int


def check_timeout(timeout: Any) -> float:
    """Returns the seconds to wait while nothing makes progress; raises InvalidArgument if it is not a duration."""
    if timeout is None:
        return DEFAULT_TIMEOUT_S
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 <= timeout <= 1e6:
        raise InvalidArgument(
            f"timeout={timeout!r:.80} is no time to wait: give seconds, 0 or more, or None for {DEFAULT_TIMEOUT_S:g}.",
            metadata={"field": "timeout"},
        )
    return float(timeout)


def wait_for_compactions(
    metastore: Metastore,
    requested: Sequence[RequestedCompaction],
    *,
    timeout_s: float,
    clock: Clock,
    report: Callable[[CompactionProgress], None] = lambda progress: None,
) -> list[CompactionResult]:
    """Waits until compactors have done all requested work; blocks. Arguments as of `watch_compactions`.

    Returns:
        The buckets of each request, `nothing` or `done`.

    Raises:
        JobFailed: Some jobs have failed; names jobs and reasons. All others have ended.
        Unavailable: Some jobs found no compactor in time.
        NotFound: A table was dropped.
    """
    results = watch_compactions(metastore, requested, timeout_s=timeout_s, clock=clock, report=report)
    check_ends(metastore, results, timeout_s)
    return results


def watch_compactions(
    metastore: Metastore,
    requested: Sequence[RequestedCompaction],
    *,
    timeout_s: float,
    clock: Clock,
    report: Callable[[CompactionProgress], None] = lambda progress: None,
) -> list[CompactionResult]:
    """Waits until no requested job makes progress any more, however it has ended; blocks.

    Args:
        metastore: Knows the jobs.
        requested: The requested compactions, of one or more tables.
        timeout_s: How long to wait without progress, that is while no job ends and no compactor works on one.
        clock: For the time.
        report: Called with the progress at each poll.

    Returns:
        The buckets of each request and what became of them; `check_ends` raises if that is not `nothing` or `done`.

    Raises:
        NotFound: A table was dropped.
    """
    waits = [_Wait(each) for each in requested]
    with track("compacting", "buckets", sum(len(each.jobs) for each in requested)) as work:

        def report_both(progress: CompactionProgress) -> None:
            work.done, work.detail = progress.ended, f"{progress.running} being compacted"
            report(progress)

        _watch(metastore, waits, timeout_s, clock, report_both)
    return [wait.to_result() for wait in waits]


def _watch(
    metastore: Metastore,
    waits: Sequence[_Wait],
    timeout_s: float,
    clock: Clock,
    report: Callable[[CompactionProgress], None],
) -> None:
    last_s, ended, pause_s = clock.monotonic_s(), 0, _FIRST_PAUSE_S
    while True:
        check_cancelled()
        for wait in waits:
            wait.look(metastore)
        progress = CompactionProgress(
            sum(wait.count for wait in waits),
            sum(wait.ended for wait in waits),
            sum(wait.running for wait in waits),
        )
        report(progress)
        now_s = clock.monotonic_s()
        if progress.ended > ended or progress.running:
            last_s = now_s
        if progress.ended > ended:
            pause_s = _FIRST_PAUSE_S
        ended = progress.ended
        if not any(wait.open for wait in waits):
            return
        if now_s - last_s >= timeout_s:
            return
        clock.sleep(min(pause_s, max(last_s + timeout_s - now_s, _FIRST_PAUSE_S)))
        pause_s = min(pause_s * _PAUSE_GROWTH, _LONGEST_PAUSE_S)


class _Wait:
    """The awaited jobs of one table."""

    def __init__(self, requested: RequestedCompaction) -> None:
        self._requested = requested
        self._jobs = dict(requested.jobs)
        self._states: dict[int, CompactionState] = {}
        self.open = set(requested.jobs)
        self.running = 0

    @property
    def count(self) -> int:
        """How many jobs there are."""
        return len(self._jobs)

    @property
    def ended(self) -> int:
        """How many jobs need no more waiting."""
        return len(self._jobs) - len(self.open)

    def look(self, metastore: Metastore) -> None:
        """Polls the state of the open jobs."""
        self.running = 0
        if not self.open:
            return
        uuid = self._requested.info.table_uuid
        found = find_jobs(metastore, [self._requested.jobs[place].job_id for place in self.open])
        for place in tuple(self.open):
            asked = self._requested.jobs[place]
            job = found.get(asked.job_id)
            if job is None:
                # Jobs are deleted with their table, so this raises.
                metastore.get_table_by_uuid(uuid)
                raise AssertionError(f"job {asked.job_id} of a table that exists is gone")
            self._jobs[place] = job
            state = _find_end(asked, job)
            if state is not None:
                self._states[place] = state
                self.open.remove(place)
            elif job.state is JobState.LEASED and job.remaining_ms:
                self.running += 1

    def to_result(self) -> CompactionResult:
        """What has become of all jobs."""
        buckets = list(self._requested.result.buckets)
        for place, job in self._jobs.items():
            state = self._states.get(place, CompactionState.WAITING)
            outcome = job.outcome if state is CompactionState.DONE else job.reason
            buckets[place] = replace(buckets[place], state=state, outcome=outcome or buckets[place].outcome)
        return replace(self._requested.result, buckets=tuple(buckets))


def _find_end(asked: Job, job: Job) -> CompactionState | None:
    """How a requested job has ended; None: it has not. Pure."""
    if job.done_epoch > asked.epoch:
        return CompactionState.DONE
    # It was requested again since, so this failure does not count for the earlier request.
    if job.state is JobState.FAILED and job.epoch > asked.epoch:
        return CompactionState.FAILED
    # Passing errors are retried for ever, but a caller that waits should hear of them.
    if job.state is JobState.DUE and job.remaining_ms and job.attempts >= MAX_ATTEMPTS:
        return CompactionState.FAILED
    return None


def check_ends(metastore: Metastore, results: Sequence[CompactionResult], timeout_s: float) -> None:
    """Raises as `wait_for_compactions` documents, unless all was done."""
    buckets = [(each.table, bucket) for each in results for bucket in each.buckets]
    counts = Counter(bucket.state for _, bucket in buckets)
    failed, waiting = counts[CompactionState.FAILED], counts[CompactionState.WAITING]
    done = f"{counts[CompactionState.DONE]} of {failed + waiting + counts[CompactionState.DONE]} jobs are done"
    if failed:
        shown = _show([(table, bucket, bucket.outcome) for table, bucket in buckets
                       if bucket.state is CompactionState.FAILED])  # fmt: skip
        still = f" {waiting} still wait." if waiting else ""
        raise JobFailed(
            f"The compaction of {_buckets(failed)} has failed ({done}): {shown}.{still} Fix the cause, then request it "
            "again; finished compactions stay.",
            reason=COMPACTION_FAILED,
            metadata={"failed": str(failed), "waiting": str(waiting)},
        )
    if waiting:
        shown = _show([(table, bucket, bucket.outcome) for table, bucket in buckets
                       if bucket.state is CompactionState.WAITING])  # fmt: skip
        raise Unavailable(
            f"No compactor has compacted {_buckets(waiting)}: there was no progress for {timeout_s:g} s ({done}). "
            f"{_blame(metastore)} They stay due, even if no one waits: {shown}.",
            reason=COMPACTION_WAITS,
            metadata={"waiting": str(waiting)},
        )


def _buckets(count: int) -> str:
    return f"{count} bucket" if count == 1 else f"{count} buckets"


def _blame(metastore: Metastore) -> str:
    """Why nothing makes progress, and what to do."""
    try:
        held = len(metastore.list_job_page(statuses=[JobStatus.LEASED], limit=_COUNTED).jobs)
    except LakelogError:
        held = 0
    if held:
        return (
            f"Compactors are busy with {held} other jobs: start more by `lakelog compactor run`, or wait with a "
            "longer timeout."
        )
    return "No compactor runs any job: start one by `lakelog compactor run`."


def _show(found: Sequence[tuple[str, BucketCompaction, str]]) -> str:
    shown = [
        f"job {bucket.job_id} ({table}, {bucket.name}): {text.rstrip('.')}" for table, bucket, text in found[:_SHOWN]
    ]
    more = [f"and {len(found) - _SHOWN} more, see `lakelog jobs`"] if len(found) > _SHOWN else []
    return "; ".join([*shown, *more])
