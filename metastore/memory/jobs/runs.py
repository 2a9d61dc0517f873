"""Runs of jobs in memory: listed, and bounded. `jobs.py` records them."""

from __future__ import annotations

from lakelog.format.jobs.job_run import JobRun, RunResult

from ...store.jobs import JobRunTransaction, RunFilter
from .listing import MemoryJobListing


class MemoryJobRuns(MemoryJobListing, JobRunTransaction):
    """See `metastore.store.jobs.JobRunTransaction`."""

    async def list_job_runs(self, wanted: RunFilter, before: int, limit: int) -> list[JobRun]:
        found = [
            run
            for table_id, run in reversed(self._state.job_runs.values())
            if (not wanted.table_uuids or run.table_uuid in wanted.table_uuids)
            and wanted.job_id in (0, run.job_id)
            and (not wanted.kinds or run.kind in wanted.kinds)
            and (not wanted.results or run.result in wanted.results)
            and (not before or run.run_id < before)
            and (wanted.readable is None or self._is_readable(table_id, wanted.readable))
        ]
        return found[:limit]

    async def forget_old_runs(self, after: str, most: int, age_ms: int, limit: int) -> tuple[str, list[str]]:
        tables = sorted(each.table_id for each in self._state.tables if each.table_id > int(after or 0))[:limit]
        counts: dict[tuple[int, bool], int] = {}
        old: list[int] = []
        for table_id, run in reversed(self._state.job_runs.values()):
            if table_id in tables:
                key = table_id, run.result in (RunResult.FAILED, RunResult.LOST)
                counts[key] = counts.get(key, 0) + 1
                if counts[key] > most or run.ended_at_ms < self._clock.now_ms() - age_ms:
                    old.append(run.run_id)
        for run_id in old:
            self._journal.pop(self._state.job_runs, run_id)
        return str(tables[-1]) if len(tables) == limit else "", [str(run_id) for run_id in old]
