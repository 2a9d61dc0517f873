"""Lists and counts jobs in memory."""

from __future__ import annotations

from collections import Counter

from lakelog.format.jobs.job import Job, JobCount, JobPage

from ...store.grants import Readable
from ...store.jobs import JobFilter, JobListingTransaction, JobPlace
from ..state import StoredJob
from .jobs import MemoryJobs


class MemoryJobListing(MemoryJobs, JobListingTransaction):
    """See `metastore.store.jobs.JobListingTransaction`."""

    async def list_job_page(self, wanted: JobFilter, after: JobPlace | None, limit: int) -> JobPage:
        placed = {_find_place(stored): stored for stored in self._find_jobs(wanted)}
        places = [place for place in sorted(placed) if after is None or place > after]
        jobs = tuple(self._show(placed[place]) for place in places[:limit])
        return JobPage(jobs, places[limit - 1].to_cursor() if len(places) > limit else "")

    async def list_jobs(self, wanted: JobFilter, limit: int) -> list[Job]:
        found = [self._show(stored) for stored in self._find_jobs(wanted)]
        return sorted(found, key=lambda job: (job.table, job.kind, job.scope))[:limit]

    async def count_jobs(self, wanted: JobFilter) -> list[JobCount]:
        jobs = [self._show(stored) for stored in self._find_jobs(wanted)]
        counts = Counter((job.kind, job.status.value) for job in jobs)
        statuses = {job.status.value: job.status for job in jobs}
        return [JobCount(kind, statuses[status], count) for (kind, status), count in sorted(counts.items())]

    def _find_jobs(self, wanted: JobFilter) -> list[StoredJob]:
        return [
            stored
            for stored in self._state.jobs.values()
            if (job := self._show(stored))
            and (not wanted.table_uuids or job.table_uuid in wanted.table_uuids)
            and (not wanted.job_ids or job.job_id in wanted.job_ids)
            and (not wanted.kinds or job.kind in wanted.kinds)
            and (not wanted.statuses or job.status in wanted.statuses)
            and (wanted.readable is None or self._is_readable(stored.table_id, wanted.readable))
        ]

    def _is_readable(self, table_id: int, readable: Readable) -> bool:
        table = self._table(table_id)
        is_there = table.new.name.database in readable.databases and not table.database_gone
        return is_there or table.new.table_uuid in readable.table_uuids


def _find_place(stored: StoredJob) -> JobPlace:
    return JobPlace(stored.table_id, stored.job.kind, stored.job.scope)
