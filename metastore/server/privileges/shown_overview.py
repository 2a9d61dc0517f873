"""The part of the overview that a caller without a role may see. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lakelog.format.jobs.overview import Overview
from lakelog.format.jobs.waiting_work import ConsumerLags, LogLags, WaitingWork
from lakelog.rpc.job import OVERVIEW

from ...grants.needs import HeldGrants


def show_overview(response: Any, sums: Overview, held: HeldGrants) -> Any:
    """What a caller sees of the answer of GetOverview.

    Args:
        response: The answer, about all tables.
        sums: Those over the caller's tables.
        held: Its grants.
    """

    def may_see(table: str) -> bool:
        database, _, name = table.partition(".")
        return held.may_see(database, name)

    found = OVERVIEW.from_proto(response)
    shown = replace(
        sums,
        work=None if found.work is None else _show_work(found.work, may_see),
        work_age_ms=found.work_age_ms,
        overdue=tuple(each for each in found.overdue if may_see(each.table)),
    )
    return OVERVIEW.to_proto(shown)


def _show_work(work: WaitingWork, may_see: Callable[[str], bool]) -> WaitingWork:
    """Without numbers of jobs; logs and consumers as if there were only those that are named and that it may see."""
    logs = tuple(lag for lag in work.logs.named if may_see(lag.table))
    return WaitingWork(
        failed_jobs=tuple(job for job in work.failed_jobs if may_see(job.table)),
        logs=LogLags(
            sum(lag.snapshots_behind > 0 for lag in logs),
            sum(lag.snapshots_behind for lag in logs),
            max((lag.behind_ms for lag in logs), default=0),
            logs,
        ),
        consumers=tuple(
            ConsumerLags(
                lags.state,
                len(named),
                max(lag.snapshots for lag in named),
                max(lag.behind_ms for lag in named),
                named,
            )
            for lags in work.consumers
            if (named := tuple(lag for lag in lags.named if may_see(lag.table)))
        ),
    )
