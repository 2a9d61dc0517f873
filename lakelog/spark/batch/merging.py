"""Merges the small files that the tasks of a write have made, arranged by the driver program (semantics 6.4).

A task whose rows are all in one bucket merges its own files. Otherwise files of many tasks are merged once all have
written: small amounts in the driver program, which needs no job, and more by tasks, each with some of the groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from pyspark.sql import SparkSession

from lakelog.format.tables.files import DataFile
from lakelog.spark.batch.lookup import SLICES_A_CORE, deal
from lakelog.spark.executor.write import merge_in_task
from lakelog.spark.executor_check import mark_version
from lakelog.spark.task_errors import lakelog_errors
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.rewrite.commit_merge import CommitMerger, MergeFiles, MergeTask, merge_in_threads

MAX_DRIVER_BYTES: Final = 16 << 20
MAX_DRIVER_FILES: Final = 200
"""Files that the driver program merges itself, in about half a second: 2000 files of 72 MB take it 2.2 seconds, and
the smallest job takes 0.3."""


def file_merger(spark: SparkSession, location: str) -> MergeFiles:
    """Merges small amounts in the driver program, and more by a job; raises the errors of its tasks.

    Args:
        spark: The session that runs the tasks.
        location: The table's location.
    """

    def merge(merger: CommitMerger, store: ObjectStore, works: Sequence[MergeTask]) -> Sequence[Sequence[DataFile]]:
        is_little = sum(work.size_bytes for work in works) <= MAX_DRIVER_BYTES
        if len(works) < 2 or (is_little and sum(len(work.files) for work in works) <= MAX_DRIVER_FILES):
            return merge_in_threads(merger, store, works)
        context = spark.sparkContext
        mark_version(context)
        shares = deal(works, lambda work: work.size_bytes, context.defaultParallelism * SLICES_A_CORE)
        with lakelog_errors():
            found = context.parallelize(shares, len(shares)).flatMap(partial(merge_in_task, location, merger)).collect()
        made = dict(found)
        return [made[work.name] for work in works]

    return merge
