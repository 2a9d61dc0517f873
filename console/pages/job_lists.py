"""Which jobs an address asks for, and where a page of them begins: shared by the pages with lists of jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakelog.client.job_pages import NeedPlace, list_jobs_by_need
from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import InvalidArgument
from lakelog.format.jobs.job import KINDS, Job, JobStatus

from .page import PAGE_ROWS

RETRIED: Final = (JobStatus.FAILED, JobStatus.RESTING)
"""Jobs that stand so can be tried again."""

STATES: Final = tuple(each.value for each in JobStatus)


def load_page(metastore: Metastore, query: Mapping[str, str], table_uuids: list[str]) -> tuple[list[Job], str | None]:
    """The jobs of a page, those that need somebody first, and where the next page begins; None: this is the last.

    Args:
        metastore: Where they are.
        query: The parameters of the address: `state`, `kind` and `after` count.
        table_uuids: Of these tables; empty: of all.

    Raises:
        InvalidArgument: There is no such state or kind, or the place is none of this list.
    """
    statuses = [JobStatus(state)] if (state := _choose(query, "state", STATES)) else []
    kinds = [kind] if (kind := _choose(query, "kind", KINDS)) else []
    start = _read_place(query.get("after", ""), statuses)
    jobs, following = list_jobs_by_need(
        metastore, table_uuids, kinds=kinds, statuses=statuses, start=start, limit=PAGE_ROWS
    )
    return jobs, None if following is None else f"{following.status.value}:{following.cursor}"


def _choose(query: Mapping[str, str], name: str, known: tuple[str, ...]) -> str:
    value = query.get(name, "")
    if value and value not in known:
        raise InvalidArgument(f"{name}={value!r:.80} is none of {', '.join(known)}.", metadata={"field": name})
    return value


def _read_place(text: str, statuses: list[JobStatus]) -> NeedPlace | None:
    if not text:
        return None
    state, _, cursor = text.partition(":")
    if state not in STATES or (statuses and JobStatus(state) not in statuses):
        raise InvalidArgument(
            f"after={text!r:.80} is no place in this list. Leave it out, to begin with the first jobs.",
            metadata={"field": "after"},
        )
    return NeedPlace(JobStatus(state), cursor)
