"""Telling what commits changed in one bucket: their rows, the old rows looked up, the difference."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from lakelog.format.changelog import ChangelogRules, fold_commits
from lakelog.format.merge import MergeRun
from lakelog.format.ordering import comparable_keys
from lakelog.format.plan import AtSnapshot, PlanRequest
from lakelog.format.rowkind import ROW_KIND_COLUMN
from lakelog.format.schema import TableSchema
from lakelog.storage.aligned_runs import RunPart, read_aligned, read_run
from lakelog.storage.copy_cache import CopyCache
from lakelog.storage.data_files import DataFiles
from lakelog.storage.key_lookup import KeyLookup
from lakelog.storage.live_file import LiveFile
from lakelog.storage.store import ObjectStore
from lakelog.storage.superseded import MergePolicy

Bucket: TypeAlias = tuple[bytes, int]
"""An encoded partition and the number of a bucket in it."""

_NAMED_PARTITIONS: Final = 500
"""A plan names at most so many partitions; beyond it, leaving out the others is not worth their names."""

_KIND_FIELD: Final = pa.field(ROW_KIND_COLUMN, pa.int8())


@dataclass(frozen=True)
class BucketChanges:
    """Reads the rows of commits to one bucket and tells what they changed. Threads may share it.

    Args:
        store: Where the files are.
        schema: What to read with.
        policy: What decides between rows of one key.
        fields: The columns to read, as files store them; those of the key and of the sequence are among them.
        rules: How to tell the changes.
        copies: Local copies of data files, for looking up old rows; None: no old rows are asked for.
    """

    store: ObjectStore
    schema: TableSchema
    policy: MergePolicy
    fields: Sequence[pa.Field]
    rules: ChangelogRules
    copies: CopyCache | None

    def read(self, file: LiveFile) -> MergeRun:
        """Reads a file's rows at once.

        Raises:
            DataCorrupted: The file is damaged or missing; named.
        """
        fields = [*self.fields, _KIND_FIELD] if file.delete_count else self.fields
        return to_run(read_run(DataFiles(self.store), RunPart(file, fields)), file)

    def read_by_key_ranges(self, files: Sequence[LiveFile]) -> Iterator[list[pa.Table]]:
        """Reads the rows of files side by side, a row group of each at a time; see `read_aligned`."""
        parts = [RunPart(file, [*self.fields, _KIND_FIELD]) for file in files]
        for step in read_aligned(DataFiles(self.store), parts, self.policy.key):
            yield [each.rows for each in step]

    def fold(self, base: Sequence[LiveFile], commits: Sequence[Sequence[MergeRun]]) -> list[pa.Table]:
        """The changelog of each of some successive commits to the bucket.

        Args:
            base: The files that were live before the first of them.
            commits: The runs of each in their order.

        Raises:
            DataCorrupted: A file is damaged or missing; named.
        """
        old = None
        if base:
            assert self.copies is not None, "a detached read is not read"
            lookup = KeyLookup(self.store, self.schema, self.policy, self.copies, self.fields)
            old = lookup.find(base, _distinct_keys(commits, self.policy.key))
        return fold_commits(old, commits, self.rules)


def to_run(rows: pa.Table, file: LiveFile) -> MergeRun:
    """A file's rows as a run: without kinds where all are there to stay, though they were read beside others'."""
    if not file.delete_count and ROW_KIND_COLUMN in rows.schema.names:
        rows = rows.drop_columns([ROW_KIND_COLUMN])
    return MergeRun(rows, file.order_time_ms)


def group_by_bucket(files: Sequence[LiveFile]) -> dict[Bucket, list[LiveFile]]:
    """Files by their bucket, in the order in which they came."""
    found: dict[Bucket, list[LiveFile]] = defaultdict(list)
    for file in files:
        found[file.partition, file.bucket].append(file)
    return dict(found)


def to_plan_request(table_uuid: str, at: AtSnapshot | None, touching: Sequence[LiveFile]) -> PlanRequest:
    """Asks for the files of a state that can hold the keys of some others. Pure."""
    partitions = {file.partition for file in touching}
    firsts, lasts = ([getattr(file, name) for file in touching] for name in ("min_key", "max_key"))
    return PlanRequest(
        table_uuid,
        at,
        buckets=tuple(sorted({file.bucket for file in touching})),
        partitions=tuple(sorted(partitions)) if len(partitions) <= _NAMED_PARTITIONS else (),
        first_key=None if None in firsts else min(firsts),
        last_key=None if None in lasts else max(lasts),
    )


def _distinct_keys(commits: Sequence[Sequence[MergeRun]], key: Sequence[str]) -> pa.Table:
    """The keys that some commits touched, rising, each once."""
    tables = [pa.table(run.table).select(list(key)) for runs in commits for run in runs]
    keys = pa.concat_tables(tables).combine_chunks()
    _, first = np.unique(comparable_keys(keys.columns), return_index=True)
    return keys.take(pa.array(first))
