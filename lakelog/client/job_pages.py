"""Goes through jobs page by page, so that neither side holds all of them in one message."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from lakelog.client.metastore.metastore import Metastore
from lakelog.format.jobs.job import Job, JobStatus
from lakelog.format.jobs.job_run import JobRun, RunResult

_PAGE: Final = 5000
"""Some 1.5 MB."""

_LARGEST_PAGE: Final = 10_000
"""Jobs that one request may return."""

_MOST_IDS: Final = 4000
"""Jobs that one request may name."""


def find_jobs(metastore: Metastore, job_ids: Collection[int]) -> dict[int, Job]:
    """Those of some jobs that exist, by id, however many they are."""
    ids = sorted(set(job_ids))
    found: dict[int, Job] = {}
    for first in range(0, len(ids), _MOST_IDS):
        some = ids[first : first + _MOST_IDS]
        found |= {job.job_id: job for job in metastore.list_job_page(job_ids=some, limit=len(some)).jobs}
    return found


def list_jobs_paged(
    metastore: Metastore,
    table_uuids: Sequence[str] = (),
    *,
    kinds: Sequence[str] = (),
    statuses: Sequence[JobStatus] = (),
) -> Iterator[Job]:
    """Yields the jobs for which all that is given holds; arguments and order as of `Metastore.list_job_page`."""
    cursor = ""
    while True:
        page = metastore.list_job_page(table_uuids, kinds=kinds, statuses=statuses, cursor=cursor, limit=_PAGE)
        yield from page.jobs
        cursor = page.cursor
        if not cursor:
            return


@dataclass(frozen=True)
class NeedPlace:
    """A place in the list of `list_jobs_by_need`: among the jobs that stand so, behind that cursor."""

    status: JobStatus
    cursor: str = ""


def list_jobs_by_need(
    metastore: Metastore,
    table_uuids: Sequence[str] = (),
    *,
    kinds: Sequence[str] = (),
    statuses: Sequence[JobStatus] = (),
    start: NeedPlace | None = None,
    limit: int,
) -> tuple[list[Job], NeedPlace | None]:
    """Jobs in the order in which people need to know of them, which is that of `JobStatus`.

    Args:
        metastore: Where they are.
        table_uuids: As of `Metastore.list_job_page`.
        kinds: As there.
        statuses: As there.
        start: Where to begin; None: with the first.
        limit: At most this many, at least 1.

    Returns:
        The jobs, and where the next page begins; None: this was the last. A job that changes its status between two
        pages can come twice, or not at all.
    """
    start = start or NeedPlace(next(iter(JobStatus)))
    order = list(JobStatus)
    jobs: list[Job] = []
    for status in order[order.index(start.status) :]:
        if statuses and status not in statuses:
            continue
        cursor = start.cursor if status is start.status else ""
        while len(jobs) < limit:
            most = min(limit - len(jobs), _LARGEST_PAGE)
            page = metastore.list_job_page(table_uuids, kinds=kinds, statuses=[status], cursor=cursor, limit=most)
            jobs += page.jobs
            cursor = page.cursor
            if not cursor:
                break
        else:
            if cursor or metastore.list_job_page(table_uuids, kinds=kinds, statuses=[status], limit=1).jobs:
                return jobs, NeedPlace(status, cursor)
    return jobs, None


def list_runs_paged(
    metastore: Metastore,
    table_uuids: Sequence[str] = (),
    *,
    kinds: Sequence[str] = (),
    results: Sequence[RunResult] = (),
) -> Iterator[JobRun]:
    """Yields runs of jobs, the newest first; arguments as of `Metastore.list_job_runs`."""
    before = 0
    while True:
        runs = metastore.list_job_runs(table_uuids, kinds=kinds, results=results, before=before, limit=_PAGE)
        yield from runs
        if len(runs) < _PAGE:
            return
        before = runs[-1].run_id
