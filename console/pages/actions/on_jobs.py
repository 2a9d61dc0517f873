"""The action on a job: try it again."""

from __future__ import annotations

from typing import Final

from lakelog.client.job_pages import find_jobs
from lakelog.errors import InvalidArgument, NotFound, PermissionDenied
from lakelog.format.jobs.job import Job

from ..job_lists import RETRIED
from ..page import PageRequest
from ..rights import may_write
from .action import Action, Question


def _find(request: PageRequest) -> Job:
    metastore, text = request.catalog.metastore, request.path["job"]
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else 0
    job = find_jobs(metastore, [number]).get(number) if number else None
    if job is None:
        raise NotFound(f"There is no job {text:.80}, or you may not see it.")
    if not may_write(request.catalog, job.table_uuid):
        raise PermissionDenied(f"You may read {job.table}, but not write to it: its owner grants it.")
    return job


def _ask(request: PageRequest, job: Job) -> Question:
    state = job.status.value
    if job.status not in RETRIED:
        raise InvalidArgument(f"Job {job.job_id} is {state}: only one that failed or rests is tried again.")
    why = f" It failed last because: {job.reason}" if job.reason else ""
    sentences = (f"Job {job.job_id} ({job.kind} of {job.table}) is {state}.{why}", "It becomes due at once.")
    return Question(sentences, ("jobs", "retry", str(job.job_id)))


def _do(request: PageRequest, job: Job) -> str:
    request.catalog.metastore.retry_job(job.job_id)
    return f"Job {job.job_id} is due now."


RETRY: Final = Action("Retry", _find, _ask, _do, lambda job: f"job {job.job_id}", lambda job: "/jobs", area="jobs")
