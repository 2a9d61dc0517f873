"""The changes of a table with a primary key from its data files alone: each with the row that was there before.

Old rows are looked up in the table itself, so that nobody keeps all keys to tell what changed (SEMANTICS.md 3.3). Some
successive commits are told together: their old rows are looked up once, before the first of them, and what is old for
the later ones follows from the earlier ones. A commit of more rows than that is told piece by piece.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from lakelog.client.metastore import Metastore
from lakelog.format.changelog import ChangelogRules, fold_commits
from lakelog.format.merge import MergeRun
from lakelog.format.ordering import comparable_keys
from lakelog.format.plan import AtSnapshot, PlanRequest
from lakelog.format.rowkind import ROW_KIND_COLUMN, decode_kinds
from lakelog.format.table import TableInfo
from lakelog.options.values import TableOptions
from lakelog.storage.aligned_runs import read_aligned, read_run
from lakelog.storage.caches import Caches
from lakelog.storage.file_scan import OWN_FIELDS, SNAPSHOT_ID_COLUMN, ScanColumns
from lakelog.storage.key_lookup import KeyLookup
from lakelog.storage.live_file import LiveFile, to_live_files
from lakelog.storage.lookahead import look_ahead
from lakelog.storage.parquet_writer import plan_file_schema
from lakelog.storage.store import ObjectStore
from lakelog.storage.superseded import MergePolicy

TOLD_ROWS: Final = 1 << 19
"""Rows of commits that are told together; they, their old rows and the changes are in memory, for two such pieces."""

_AHEAD: Final = 2
_NAMED_PARTITIONS: Final = 500
"""A plan names at most so many partitions; beyond it, leaving out the others is not worth their names."""

_KIND_FIELD: Final = pa.field(ROW_KIND_COLUMN, pa.int8())

Bucket: TypeAlias = tuple[bytes, int]


@dataclass(frozen=True)
class NormalizedChanges:
    """The keyed changes that some commits made. Immutable but for the caches; may be iterated several times.

    Args:
        metastore: Who plans the states before.
        store: Where the files are.
        table: The table; its schema is what is read with.
        files: What the commits added, by commit, then in the order of their buckets.
        breaks: Ids of the snapshots in between that replaced rows: what they changed is not told.
        columns: What to read and return.
        policy: What decides between rows of one key.
        caches: Of this process; None: to be given before it is read.
        told_rows: Rows of commits that are told together.
    """

    metastore: Metastore
    store: ObjectStore
    table: TableInfo
    files: Sequence[LiveFile]
    breaks: Sequence[int]
    columns: ScanColumns
    policy: MergePolicy
    caches: Caches | None = field(repr=False)
    told_rows: int = TOLD_ROWS

    @property
    def returned_schema(self) -> pa.Schema:
        """The columns that are returned."""
        by_name = {each.name: each for each in self.table.schema.arrow} | OWN_FIELDS
        return pa.schema([by_name[name].remove_metadata() for name in self.columns.returned])

    def with_caches(self, caches: Caches | None) -> NormalizedChanges:
        """Itself with the caches of a process, or with none, to be taken to another one."""
        return dataclasses.replace(self, caches=caches)

    def read_batches(self) -> Iterator[pa.RecordBatch]:
        """Tells the changes, commit by commit.

        Yields:
            Batches with the columns of `returned_schema`, none of them empty.

        Raises:
            DataCorrupted: A file is damaged or missing; named.
            SnapshotExpired: The state before a commit is no longer kept.
        """
        with ThreadPoolExecutor(_AHEAD, thread_name_prefix="lakelog-changes") as pool:
            try:
                for batches in look_ahead(pool, self._tell, self._pieces(), _AHEAD):
                    yield from batches
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def count_rows(self) -> int:
        """Counts the rows that `read_batches` gives, by telling them."""
        return sum(batch.num_rows for batch in self.read_batches())

    def _pieces(self) -> Iterator[_Piece]:
        """Commits to tell together; of a larger one its buckets, of a larger bucket its key ranges."""
        for window in self._windows():
            base = self._plan_before(window)
            if sum(file.row_count for file in window) <= self.told_rows:
                yield _Piece(base, [file.added_snapshot for file in window], window, None)
                continue
            for bucket, files in _by_bucket(window).items():
                if sum(file.row_count for file in files) <= self.told_rows:
                    yield _Piece(base, [files[0].added_snapshot], files, None)
                    continue
                fields = [*self._fields(), _KIND_FIELD]
                for tables in read_aligned(self.store, files, fields, self.policy.key):
                    yield _Piece({bucket: base.get(bucket, [])}, [files[0].added_snapshot], files, tables)

    def _windows(self) -> Iterator[list[LiveFile]]:
        """Files of successive commits that are told together."""
        window: list[LiveFile] = []
        for snapshot_id, files in itertools.groupby(self.files, lambda file: file.added_snapshot):
            commit = list(files)
            rows = sum(file.row_count for file in (*window, *commit))
            broken = window and any(window[-1].added_snapshot < each < snapshot_id for each in self.breaks)
            if window and (broken or rows > self.told_rows):
                yield window
                window = []
            window += commit
        if window:
            yield window

    def _plan_before(self, window: Sequence[LiveFile]) -> Mapping[Bucket, list[LiveFile]]:
        """The files that were live before the first commit of a window, of the buckets it touches."""
        before = window[0].added_snapshot - 1
        if before == 0:
            return {}
        partitions = {file.partition for file in window}
        firsts, lasts = ([getattr(file, name) for file in window] for name in ("min_key", "max_key"))
        plan = self.metastore.plan(
            PlanRequest(
                self.table.table_uuid,
                AtSnapshot(before),
                buckets=tuple(sorted({file.bucket for file in window})),
                partitions=tuple(sorted(partitions)) if len(partitions) <= _NAMED_PARTITIONS else (),
                first_key=None if None in firsts else min(firsts),
                last_key=None if None in lasts else max(lasts),
            )
        )
        return _by_bucket(to_live_files(plan.files))

    def _tell(self, piece: _Piece) -> list[pa.RecordBatch]:
        commits = list(dict.fromkeys(piece.commits))
        told: dict[int, list[pa.Table]] = {commit: [] for commit in commits}
        for bucket, files in _by_bucket(piece.files).items():
            tables = piece.tables or [self._read(file) for file in files]
            runs: dict[int, list[MergeRun]] = {commit: [] for commit in commits}
            for file, table in zip(files, tables, strict=True):
                if piece.tables is not None and not file.delete_count:
                    # Read beside files that have kinds; its own rows are all there to stay.
                    table = table.drop_columns([ROW_KIND_COLUMN])
                runs[file.added_snapshot].append(MergeRun(table, file.order_time_ms))
            changes = self._fold(piece.base.get(bucket, []), [runs[commit] for commit in commits])
            for commit, table in zip(commits, changes, strict=True):
                told[commit].append(table)
        return [
            batch
            for commit, parts in told.items()
            for table in parts
            for batch in self._project(table, commit).to_batches()
            if batch.num_rows
        ]

    def _fold(self, base: Sequence[LiveFile], commits: Sequence[Sequence[MergeRun]]) -> list[pa.Table]:
        rules = ChangelogRules(
            self.policy.key,
            self.policy.sequence,
            self.policy.sequence_descending,
            self.policy.delete_retention_ms,
            drop_equal=True,
            compared=tuple(each.name for each in self.columns.read if each.name != ROW_KIND_COLUMN),
        )
        old = None
        if base:
            assert self.caches is not None, "a detached read is not read"
            copies = self.caches.find_copies(self.table.table_uuid, TableOptions(self.table.options))
            lookup = KeyLookup(self.store, self.table.schema, self.policy, copies, self._fields())
            old = lookup.find(base, _distinct_keys(commits, self.policy.key))
        return fold_commits(old, commits, rules)

    def _fields(self) -> list[pa.Field]:
        """What to read, as files store it: those of the key and of the sequence decide."""
        names = {*self.policy.key, *self.policy.sequence, *(each.name for each in self.columns.read)}
        return [each for each in plan_file_schema(self.table.schema, with_row_kind=False) if each.name in names]

    def _read(self, file: LiveFile) -> pa.Table:
        fields = self._fields()
        return read_run(self.store, file, [*fields, _KIND_FIELD] if file.delete_count else fields)

    def _project(self, changes: pa.Table, commit: int) -> pa.Table:
        if self.columns.filter is not None:
            changes = changes.filter(self.columns.filter)
        own = {
            ROW_KIND_COLUMN: lambda: decode_kinds(changes.column(ROW_KIND_COLUMN)),
            SNAPSHOT_ID_COLUMN: lambda: pa.repeat(pa.scalar(commit, pa.int64()), changes.num_rows),
        }
        schema = self.returned_schema
        return pa.Table.from_arrays(
            [own[name]() if name in own else changes.column(name) for name in schema.names], schema=schema
        )


@dataclass(frozen=True)
class _Piece:
    """Commits to tell together.

    Args:
        base: The files that were live before them, by bucket.
        commits: Ids of the snapshots, rising.
        files: What they added.
        tables: The rows of the files, where they are told by key ranges; None: to be read.
    """

    base: Mapping[Bucket, list[LiveFile]]
    commits: Sequence[int]
    files: Sequence[LiveFile]
    tables: Sequence[pa.Table] | None


def _by_bucket(files: Sequence[LiveFile]) -> dict[Bucket, list[LiveFile]]:
    found: dict[Bucket, list[LiveFile]] = defaultdict(list)
    for file in files:
        found[file.partition, file.bucket].append(file)
    return dict(found)


def _distinct_keys(commits: Sequence[Sequence[MergeRun]], key: Sequence[str]) -> pa.Table:
    """The keys that some commits touched, rising, each once."""
    tables = [pa.table(run.table).select(list(key)) for runs in commits for run in runs]
    keys = pa.concat_tables(tables).combine_chunks()
    _, first = np.unique(comparable_keys(keys.columns), return_index=True)
    return keys.take(pa.array(first))
