"""Compacts all files of an append table, as a compactor does it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Final

from lakelog.format.commit.request import BucketRef, CommitRequest, CompactionGroup, DroppedGroup
from lakelog.format.tables.files import DataFile
from lakelog.format.tables.plan import PlanRequest
from lakelog.options.values import TableOptions
from lakelog.sdk.tables.table import Table
from lakelog.storage.lookup.bucket_changes import group_by_bucket
from lakelog.storage.parquet.live_file import to_live_files
from lakelog.storage.rewrite.append import FileRewrite, rewrite_files
from lakelog.writes.change import to_compaction_change

identifiers: Final = itertools.count(1)


def compact_append(table: Table, before_commit: Callable[[], object] = lambda: None) -> Sequence[DroppedGroup]:
    """Rewrites the files of each bucket into one; returns the groups that were dropped.

    Args:
        table: An append table.
        before_commit: Called when the files are written.
    """
    metastore = table._context.metastore
    plan = metastore.plan(PlanRequest(table.uuid, None))
    assert plan.snapshot is not None, "there is something to compact"
    info = plan.table
    attempt_id = metastore.stage_attempt([table.uuid], "compactor").attempt_id
    groups: list[CompactionGroup] = []
    made: list[DataFile] = []
    for number, ((partition, bucket), files) in enumerate(group_by_bucket(to_live_files(plan.files)).items()):
        rewrite = FileRewrite(f"c{number}", tuple(files))
        written = rewrite_files(
            table._context.open_store(info), info.schema, TableOptions(info.options), attempt_id, rewrite
        )
        made += written
        groups.append(
            CompactionGroup(BucketRef(partition, bucket), tuple(file.file_id for file in files), len(written))
        )
    before_commit()
    change = to_compaction_change(info, plan.snapshot, groups, made)
    (result,) = metastore.commit(CommitRequest("compactor", next(identifiers), (change,), attempt_id)).results
    return result.dropped
