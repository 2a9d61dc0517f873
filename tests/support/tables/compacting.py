"""A worker in a thread that takes jobs as a compactor does and ends them, without compacting anything."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lakelog.client.metastore.metastore import Metastore
from lakelog.format.jobs.job import COMPACT, Job


@contextmanager
def working(metastore: Metastore, do: Callable[[Job], str]) -> Iterator[list[Job]]:
    """Takes jobs until the block ends; the list has those that were taken.

    Args:
        metastore: Who has the jobs.
        do: What is done with each, and says what was done; a ValueError fails the job for good.
    """
    taken: list[Job] = []
    ending = threading.Event()

    def work() -> None:
        while not ending.is_set():
            job = metastore.lease_job([COMPACT], (), "worker", duration_ms=60_000, wait_ms=100)
            if job is None:
                continue
            taken.append(job)
            try:
                outcome = do(job)
            except ValueError as error:
                metastore.fail_job(job.job_id, job.epoch, str(error), final=True)
            else:
                metastore.finish_job(job.job_id, job.epoch, outcome)

    thread = threading.Thread(target=work, name="worker")
    thread.start()
    try:
        yield taken
    finally:
        ending.set()
        thread.join(30)
