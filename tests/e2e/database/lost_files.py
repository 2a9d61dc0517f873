"""What a compactor does after its plan, whatever happened to the database meanwhile."""

from __future__ import annotations

from typing import Final

from compactor.compactions.bucket_work import BucketWork, run_rewrite_task, to_work_change
from lakelog.format.commit.request import BucketRef, CommitRequest, CommitResult
from lakelog.sdk.tables.table import Table
from metastore.testing import InProcessMetastore

BUCKET: Final = BucketRef(b"", 0)
"""The only one of a table."""


def compact(metastore: InProcessMetastore, table: Table, work: BucketWork, identifier: int = 1) -> CommitResult:
    """Opens an attempt, rewrites the files of a plan, and commits."""
    attempt_id = metastore.stage_attempt([table.uuid], "compactor").attempt_id
    store = table._context.open_store(work.info)
    done = [run_rewrite_task(store, work.info, attempt_id, task) for task in work.rewrite_tasks]
    change = to_work_change(work, done, work.moved)
    return metastore.commit(CommitRequest("compactor", identifier, (change,), attempt_id))
