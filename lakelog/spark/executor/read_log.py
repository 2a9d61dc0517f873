"""Runs in Spark's Python workers when changes come from a table's log.

A task reads its ranges of the topic and shows what the files would show. If the log cannot be used, it goes on with the
files, which it received too. It connects to brokers with the secrets of the executor's environment.
"""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from lakelog.clock import ForwardClock, SystemClock
from lakelog.errors import LakelogError, SnapshotExpired
from lakelog.format.filter.condition import parse_filter
from lakelog.format.tables.snapshot import Snapshot
from lakelog.log.columns import take_fetched
from lakelog.log.opening import open_table_log
from lakelog.log.records import FetchedRecords
from lakelog.reads.log.changes import LogChanges
from lakelog.reads.log.plan import has_topic_buckets, to_topic_partition
from lakelog.reads.log.sources import ChangeSource, ChangeSources, can_do_without_log
from lakelog.spark.connection import open_caches, open_table_store
from lakelog.spark.executor.log_span import LogSpan, SpanPart
from lakelog.spark.executor.read_changes import ChangeSplit, PlannedStates, read_from_files, to_emitted_names, to_target
from lakelog.spark.stream.log_splits import LogSplit
from lakelog.spark.task_errors import errors_to_driver
from lakelog.storage.parquet.live_file import LiveFile

_log = logging.getLogger(__name__)

_REST_S: Final = 10.0
"""How long the tasks of a process read files before they try a failed log again."""

_clock: Final = ForwardClock(SystemClock())

_resting: Final[dict[str, float]] = {}
"""By topic: the end of this time, by the monotonic clock."""


@dataclass
class _Progress:
    """How far a task has handed out what it reads.

    Args:
        done: By partition of the topic: the last snapshot whose rows were all handed out.
        is_torn: Whether some rows of another snapshot were handed out.
    """

    done: dict[int, int] = field(default_factory=dict)
    is_torn: bool = False


def read_log_split(split: LogSplit, target: pa.Schema, condition: str | None) -> Iterator[pa.RecordBatch]:
    """Reads the rows of a task, per bucket in the order of the snapshots. Runs on executors.

    Args:
        split: What to read.
        target: The columns to return, as Spark wants them.
        condition: The condition of the rows to return, in lakelog's meaning; None: all.
    """
    with errors_to_driver():
        progress = _Progress()
        if time.monotonic() < _resting.get(split.topic, 0.0):
            yield from read_from_files(split.files, target, condition)
            return
        try:
            yield from _read_log(split, target, condition, progress)
        except LakelogError as error:
            # Spark repeats a task as a whole, which then uses the log as it is.
            stays = progress.is_torn or (progress.done and not can_pick_rest(split))
            if stays or not can_do_without_log(error, requires_log=split.requires_log):
                raise
            _log.warning("%s: files are read instead of the log: %s", split.files.table.name, error)
            if not isinstance(error, SnapshotExpired):
                _resting[split.topic] = time.monotonic() + _REST_S
            yield from read_from_files(pick_rest(split, progress.done), target, condition)


def _read_log(
    split: LogSplit, target: pa.Schema, condition: str | None, progress: _Progress
) -> Iterator[pa.RecordBatch]:
    table = split.files.table
    changes = LogChanges(
        table,
        to_emitted_names(target),
        None if condition is None else parse_filter(condition, table.schema.arrow),
        open_table_store(table.location),
        PlannedStates({}, ()) if split.states is None else split.states,
        open_caches(),
    )
    snapshots = {each.snapshot_id: each for each in split.snapshots}
    times_ms = {each.snapshot_id: each.committed_at_ms for each in split.snapshots}
    as_logged = split.source is ChangeSource.AS_LOGGED
    sources = ChangeSources.of(table)
    # Checked before, so that nothing is read in vain, and again after the existing records were read.
    _check_age(sources, split.snapshots, 0)
    with contextlib.closing(open_table_log(split.options).open_reader(split.topic)) as reader:
        span = LogSpan(reader, split.topic, split.starts, split.ends, split.snapshots, whole=not as_logged)
        for part in span.read():
            _check_age(sources, split.snapshots, progress.done.get(part.partition, 0))
            if as_logged:
                batches = changes.show(part.records, topic=split.topic)
            else:
                batches = changes.emit(split.source, _by_snapshot(part.records, snapshots), topic=split.topic)
            for batch in batches:
                progress.is_torn = True
                yield to_target(batch, target, times_ms)
            _note(progress, part)
        for partition in split.ends:
            _check_age(sources, split.snapshots, progress.done.get(partition, 0))


def _check_age(sources: ChangeSources, snapshots: Sequence[Snapshot], done: int) -> None:
    """Checks the oldest snapshot that a partition must still show, perhaps without any record left."""
    place = bisect.bisect_right(snapshots, done, key=lambda each: each.snapshot_id)
    if place < len(snapshots):
        sources.check_age(snapshots[place], _clock.now_ms())


def _by_snapshot(records: FetchedRecords, snapshots: dict[int, Snapshot]) -> list[tuple[Snapshot, FetchedRecords]]:
    ids, starts = np.unique(records.snapshot_ids.to_numpy(zero_copy_only=False), return_index=True)
    ends = [*starts[1:].tolist(), len(records)]
    return [
        (snapshots[each], take_fetched(records, slice(start, end)))
        for each, start, end in zip(ids.tolist(), starts.tolist(), ends, strict=True)
    ]


def _note(progress: _Progress, part: SpanPart) -> None:
    progress.is_torn = not part.is_whole
    if part.is_whole:
        progress.done[part.partition] = int(part.records.snapshot_ids[-1].as_py())


def can_pick_rest(split: LogSplit) -> bool:
    """Whether it is known which files belong to which partitions of the topic. Pure."""
    return split.partitions > 0 or has_topic_buckets(split.files.table)


def pick_rest(split: LogSplit, done: dict[int, int]) -> ChangeSplit:
    """The files of what must still be shown. Pure.

    Args:
        split: The whole work of the task.
        done: By partition of the topic: the last snapshot that was shown.
    """
    if not done:
        return split.files
    has_buckets = has_topic_buckets(split.files.table)

    def is_open(file: LiveFile) -> bool:
        partition = to_topic_partition(file, split.partitions, has_buckets=has_buckets)
        return file.added_snapshot > done.get(partition, 0)

    return dataclasses.replace(
        split.files,
        files=tuple(filter(is_open, split.files.files)),
        parts=tuple(dataclasses.replace(each, files=tuple(filter(is_open, each.files))) for each in split.files.parts),
    )
