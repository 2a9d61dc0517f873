"""Listing and counting jobs, for people and for programs that wait for some of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from lakelog.errors import ResourceExhausted
from lakelog.format.jobs.job import COMPACT, Job, JobCount, JobPage, JobStatus
from lakelog.format.jobs.job_run import JobRun, RunResult

from ..store.grants import Readable
from ..store.jobs import JobFilter, JobPlace, RunFilter, parse_cursor
from ..store.limits import Limits
from ..store.transaction import Store, run_transaction
from ..store.validation import check_number, check_table_uuids, invalid

DEFAULT_LIMIT: Final = 1000
MAX_LIMIT: Final = 10_000

MAX_UNPAGED: Final = 100_000
"""Jobs of an answer without a limit, which clients of earlier versions request: some 30 MB."""

MAX_KINDS: Final = 100

_KIND: Final = re.compile(r"[a-z][a-z-]{0,63}")


class JobListing:
    """The use cases of listing jobs.

    Args:
        store: Where everything is stored.
        limits: How many tables and jobs may be named.
    """

    def __init__(self, store: Store, limits: Limits) -> None:
        self._store = store
        self._limits = limits

    async def list_jobs(self, table_uuids: Sequence[str] = (), *, readable: Readable | None = None) -> list[Job]:
        self._check_tables(table_uuids)
        return await run_transaction(
            self._store, lambda tx: tx.list_jobs(JobFilter(table_uuids, readable=readable), MAX_UNPAGED)
        )

    async def list_job_page(
        self,
        table_uuids: Sequence[str] = (),
        *,
        job_ids: Sequence[int] = (),
        kinds: Sequence[str] = (),
        statuses: Sequence[JobStatus] = (),
        cursor: str = "",
        limit: int = DEFAULT_LIMIT,
        readable: Readable | None = None,
    ) -> JobPage:
        """As the protocol says; of tables that are readable, if that is given."""
        self._check_tables(table_uuids)
        if len(job_ids) > self._limits.max_requested_jobs:
            raise invalid("job_ids", f"{len(job_ids)} jobs", f"Name at most {self._limits.max_requested_jobs}.")
        for job_id in job_ids:
            check_number("job_ids", job_id, 1)
        check_kinds(kinds)
        check_number("limit", limit, 0, MAX_LIMIT)
        wanted = JobFilter(table_uuids, job_ids, kinds, statuses, readable)
        if limit:
            place = _read_cursor(cursor)
            return await run_transaction(self._store, lambda tx: tx.list_job_page(wanted, place, limit))
        if cursor:
            raise invalid("cursor", cursor, "Give a limit with it: without one, all jobs come at once.")
        found = await run_transaction(self._store, lambda tx: tx.list_jobs(wanted, MAX_UNPAGED + 1))
        if len(found) > MAX_UNPAGED:
            raise ResourceExhausted(
                f"There are more than {MAX_UNPAGED} jobs, too many for one answer. Request them in pages: with a "
                "limit, and then with the cursor of the page before.",
                metadata={"limit": str(MAX_UNPAGED)},
            )
        return JobPage(tuple(found))

    async def count_jobs(self, table_uuids: Sequence[str] = (), *, readable: Readable | None = None) -> list[JobCount]:
        self._check_tables(table_uuids)
        wanted = JobFilter(table_uuids, readable=readable)
        return await run_transaction(self._store, lambda tx: tx.count_jobs(wanted))

    async def list_job_runs(
        self,
        table_uuids: Sequence[str] = (),
        *,
        job_id: int = 0,
        kinds: Sequence[str] = (),
        results: Sequence[RunResult] = (),
        before: int = 0,
        limit: int = 0,
        readable: Readable | None = None,
    ) -> list[JobRun]:
        """As the protocol says; of tables that are readable, if that is given."""
        self._check_tables(table_uuids)
        check_number("job_id", job_id, 0)
        check_kinds(kinds)
        check_number("before", before, 0)
        check_number("limit", limit, 0, MAX_LIMIT)
        wanted = RunFilter(table_uuids, job_id, kinds, results, readable)
        return await run_transaction(self._store, lambda tx: tx.list_job_runs(wanted, before, limit or DEFAULT_LIMIT))

    def _check_tables(self, table_uuids: Sequence[str]) -> None:
        if table_uuids:
            check_table_uuids("table_uuids", table_uuids, self._limits.max_watched_tables)


def _read_cursor(cursor: str) -> JobPlace | None:
    if not cursor:
        return None
    try:
        return parse_cursor(cursor)
    except ValueError as error:
        raise invalid("cursor", cursor, "Leave it out for the first page, then give that of the page.") from error


def check_kinds(kinds: Sequence[str]) -> None:
    """Checks kinds of jobs, of which there may be none."""
    if len(kinds) > MAX_KINDS:
        raise invalid("kinds", f"{len(kinds)} kinds", f"Name at most {MAX_KINDS} kinds of jobs.")
    for kind in kinds:
        if not _KIND.fullmatch(kind):
            raise invalid("kinds", kind, f"A kind of job is lower-case letters and '-', for instance '{COMPACT}'.")
