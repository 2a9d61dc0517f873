"""The initial rows of a stream: cut into batches at files and buckets (semantics 5.7).

A batch goes from one count of files to a later one, in an order that is the same for every planning: the files of a
snapshot by bucket, those of a bucket by key. Counts include all files of the snapshot, so the condition of a query
decides what is read, but not where batches are cut.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import InvalidArgument
from lakelog.format.merge.sections import KeyRange, split_sections
from lakelog.format.tables.plan import AtSnapshot, Plan
from lakelog.format.tables.table import TableInfo
from lakelog.reads.continued_columns import ContinuedColumns
from lakelog.reads.reading import make_parser, plan_files
from lakelog.spark.executor.read_changes import ChangeSplit
from lakelog.spark.stream.limits import ReadSize, TriggerLimits
from lakelog.spark.stream.packing import group_units, sum_bytes
from lakelog.spark.stream.splits import READ_BYTES, to_units
from lakelog.storage.lookup.bucket_changes import group_by_bucket
from lakelog.storage.parquet.live_file import LiveFile, to_live_files


@dataclass(frozen=True)
class RowsAt:
    """The initial rows of a stream.

    Args:
        table: The table.
        snapshot_id: The snapshot of their state.
        since_ms: Only rows of files committed at or after this time; None: all.
        baseline: Use what streams have shown by then, which differs from the state if full compactions emit changes.
        continued: The columns that the stream began with.
    """

    table: TableInfo
    snapshot_id: int
    since_ms: int | None
    baseline: bool
    continued: ContinuedColumns

    def plan(self, metastore: Metastore, condition: str | None) -> tuple[Plan, list[LiveFile]]:
        """The files that may have rows of a condition; blocks."""
        at = AtSnapshot(self.snapshot_id)
        parse = make_parser(condition)
        plan, _ = plan_files(metastore, self.table, at, parse, baseline=self.baseline, continued=self.continued)
        since_ms = self.since_ms
        files = to_live_files(plan.files)
        return plan, [file for file in files if since_ms is None or file.order_time_ms >= since_ms]


@dataclass(frozen=True)
class FirstRows:
    """The files of a state, in the order in which batches take them.

    Args:
        chunks: Files that batches never separate: files of a bucket with common keys, or one file of a table without
            keys.
        table_name: The table's name, for messages.
    """

    chunks: Sequence[Sequence[LiveFile]]
    table_name: str

    @staticmethod
    def find(metastore: Metastore, rows: RowsAt) -> FirstRows:
        """Plans the files; blocks. Raises as a plan does."""
        plan, files = rows.plan(metastore, None)
        return FirstRows(cut(files, has_key=bool(plan.schema.primary_key)), str(plan.table.name))

    @cached_property
    def file_count(self) -> int:
        """The number of files in all chunks."""
        return sum(map(len, self.chunks))

    def pick_end(self, done: int, limits: TriggerLimits) -> int:
        """How many files are done after the batch that begins after `done` files: at least one chunk more. Pure."""
        size, end = ReadSize(), done
        for chunk in self._chunks_after(done):
            size = size.plus(ReadSize(len(chunk), sum_bytes(chunk), sum(file.row_count for file in chunk)))
            if end > done and not limits.admit(size):
                break
            end += len(chunk)
        return end

    def pick_paths(self, done: int, end: int | None) -> set[str]:
        """The paths of the files of a batch; `end` None: it is the last batch. Pure."""
        paths: set[str] = set()
        for chunk in self._chunks_after(done):
            if end is not None and done >= end:
                break
            paths.update(file.path for file in chunk)
            done += len(chunk)
        return paths

    def check_count(self, file_count: int | None) -> None:
        """Raises InvalidArgument if the number of files differs from the checkpoint's; None: it stores none."""
        if file_count is not None and file_count != self.file_count:
            raise InvalidArgument(
                f"The checkpoint counts {file_count} files of {self.table_name} that the stream begins with, but with "
                f"the options of this query they are {self.file_count}. Give the options that it was begun with, or a "
                "new checkpoint.",
                reason="CHECKPOINT_INVALID",
                metadata={"field": "checkpointLocation", "table": self.table_name},
            )

    def _chunks_after(self, done: int) -> Sequence[Sequence[LiveFile]]:
        count = 0
        for place, chunk in enumerate(self.chunks):
            if count >= done:
                return self.chunks[place:]
            count += len(chunk)
        return ()


def cut(files: Sequence[LiveFile], *, has_key: bool) -> list[list[LiveFile]]:
    """The chunks of the files of a state, in the order of batches. Pure.

    Args:
        files: The files in a plan's order.
        has_key: Whether files may have rows of one key, only one of which is shown.
    """
    chunks: list[list[LiveFile]] = []
    for _, found in sorted(group_by_bucket(files).items()):
        if has_key:
            sections = split_sections([KeyRange(file.min_key, file.max_key) for file in found])
            chunks += [[found[place] for place in section] for section in sections]
        else:
            chunks += [[file] for file in found]
    return chunks


def plan_row_splits(
    metastore: Metastore, rows: RowsAt, condition: str | None, paths: set[str] | None
) -> tuple[Plan, list[ChangeSplit]]:
    """The tasks that read the initial rows of a stream; blocks.

    Args:
        metastore: Plans the read.
        rows: Which rows.
        condition: The condition of the wanted rows; None: all.
        paths: Only rows of these files; None: of all.
    """
    plan, files = rows.plan(metastore, condition)
    assert plan.snapshot is not None, "it was asked for by its number"
    whole = dataclasses.replace(plan.table, schema=plan.schema)
    times = {rows.snapshot_id: plan.snapshot.committed_at_ms}
    units = to_units(plan, [file for file in files if paths is None or file.path in paths])
    return plan, [
        ChangeSplit(whole, tuple(group), times, rows_at=rows.snapshot_id) for group in group_units(units, READ_BYTES)
    ]
