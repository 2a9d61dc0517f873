"""Computes the changes of a table with a primary key from its data files alone: each with the row before it.

Old rows are looked up in the table itself, so no reader has to keep all keys to find changes (semantics 3.3).
Successive commits are handled together: their old rows are looked up once, before the first of them, and the old rows
of the later ones follow from the earlier ones. A commit with more rows than that is handled in chunks.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from lakelog.client.metastore.metastore import Metastore
from lakelog.format.merge.changelog import ChangelogRules, find_difference
from lakelog.format.merge.runs import MergeRun, find_deleted_rows
from lakelog.format.tables.plan import AtSnapshot, PlanRequest
from lakelog.format.tables.snapshot import Snapshot
from lakelog.format.tables.table import TableInfo
from lakelog.format.types.rowkind import ROW_KIND_COLUMN, decode_kinds
from lakelog.options.values import TableOptions
from lakelog.storage.lookup.bucket_changes import (
    HELD_BYTES,
    NAMED_PARTITIONS,
    Bucket,
    BucketChanges,
    group_by_bucket,
    leave_out_added,
    to_request_before,
    to_run,
)
from lakelog.storage.lookup.caches import Caches
from lakelog.storage.lookup.key_lookup import FoundTooMuchError
from lakelog.storage.merging.aligned_runs import Room
from lakelog.storage.merging.merge_policy import MergePolicy
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.parquet.live_file import LiveFile, to_live_files
from lakelog.storage.parquet.lookahead import look_ahead
from lakelog.storage.parquet.own_columns import KIND_FIELD
from lakelog.storage.parquet.read_counts import ReadCounts, ReadMetrics
from lakelog.storage.parquet.writer import plan_file_schema
from lakelog.storage.scan.file_scan import OWN_FIELDS, SNAPSHOT_ID_COLUMN, ScanColumns
from lakelog.storage.write.routing import route_rows, to_routing

EMITTED_ROWS: Final = 1 << 19
"""Rows of commits that are handled together; they, their old rows and the changes are in memory, for two chunks."""

_AHEAD: Final = 2


class States(Protocol):
    """Returns the files of a table's states. Picklable if the changes that use it are."""

    def list_files(self, request: PlanRequest) -> Sequence[LiveFile]:
        """The live files of a state in a plan's order: the requested buckets, and perhaps other files of them."""
        ...


@dataclass(frozen=True)
class MetastoreStates:
    """Implements `States` by asking the metastore each time."""

    metastore: Metastore

    def list_files(self, request: PlanRequest) -> Sequence[LiveFile]:
        """Returns the live files of a state; blocks."""
        return to_live_files(self.metastore.plan(request).files)


@dataclass(frozen=True)
class ComparedStates:
    """Implements `States` as if one snapshot led from one state to another, however many there were in between.

    Args:
        states: Knows both states.
        before: The older state; 0: no rows.
        until: The newer one.
    """

    states: States
    before: int
    until: int

    def list_files(self, request: PlanRequest) -> Sequence[LiveFile]:
        """Returns the live files of the state `until`; for the snapshot before it those of `before`."""
        if request.at != AtSnapshot(self.until):
            request = dataclasses.replace(request, at=AtSnapshot(self.before))
            if self.before == 0:
                return ()
        return self.states.list_files(request)


@dataclass(frozen=True)
class NormalizedChanges:
    """The keyed changes of some commits. Immutable except for the caches; can be iterated several times.

    Args:
        states: Returns the files of the states before.
        store: Where the files are.
        table: The table; rows are read with its schema.
        files: The files that the commits added, by commit, then in the order of their buckets.
        breaks: Ids of the snapshots in between that replaced rows, rising.
        columns: The columns to read and return.
        policy: Decides between rows of one key.
        caches: The caches of this process; None: they must be given before reading.
        overwrites: Also emit what the snapshots of `breaks` changed.
        rules: How to emit changes; None: as readers do it (semantics 3.3).
        emitted_rows: How many rows of commits are handled together.
        counts: Counts what is read; None: nothing is counted.
    """

    states: States
    store: ObjectStore
    table: TableInfo
    files: Sequence[LiveFile]
    breaks: Sequence[int]
    columns: ScanColumns
    policy: MergePolicy
    caches: Caches | None = field(repr=False)
    overwrites: bool = False
    rules: ChangelogRules | None = None
    emitted_rows: int = EMITTED_ROWS
    counts: ReadCounts | None = field(default=None, repr=False, compare=False)

    @property
    def returned_schema(self) -> pa.Schema:
        """The returned columns."""
        by_name = {each.name: each for each in self.table.schema.arrow} | OWN_FIELDS
        return pa.schema([by_name[name].remove_metadata() for name in self.columns.returned])

    def with_caches(self, caches: Caches | None) -> NormalizedChanges:
        """A copy with the caches of a process, or without caches, to be sent to another process."""
        return dataclasses.replace(self, caches=caches, counts=None)

    def counted_by(self, counts: ReadCounts) -> NormalizedChanges:
        """A copy that counts what it reads of the commits' own files."""
        counts.add(ReadMetrics(files=len(self.files)))
        return dataclasses.replace(self, counts=counts)

    def read_batches(self, *, limit: int | None = None) -> Iterator[pa.RecordBatch]:
        """Emits the changes, commit by commit.

        Args:
            limit: As in `RowSource.read_batches`; with a limit, no commits are handled ahead at the beginning.

        Yields:
            Batches with the columns of `returned_schema`, none of them empty.

        Raises:
            DataCorrupted: A file is damaged or missing; named.
            SnapshotExpired: The state before a commit has expired.
        """
        with ThreadPoolExecutor(_AHEAD, thread_name_prefix="lakelog-changes") as pool:
            try:
                first = None if limit is None else 1
                for batches in look_ahead(pool, self._emit, self._chunks(), _AHEAD, first):
                    yield from batches
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    @property
    def emitted_columns(self) -> list[str]:
        """The columns that `emit_rows` needs: those to return, and those that decide the order and place of rows."""
        schema = self.table.schema
        names = {*schema.primary_key, *(each.name for each in self._fields())}
        return [name for name in schema.arrow.names if name in names]

    def emit_rows(self, commits: Sequence[tuple[Snapshot, pa.Table]]) -> Iterator[pa.RecordBatch]:
        """Emits the changes of successive commits from their rows, with the same result as from their files.

        Args:
            commits: Rows of commits without an overwrite in between, rising: the columns `emitted_columns` and
                `_row_kind` (int8 codes); the rows of each key in the order of arrival.

        Yields:
            As `read_batches`.

        Raises:
            DataCorrupted: A file of the state before is damaged or missing; named.
            SnapshotExpired: The state before the first commit has expired.
        """
        routing = to_routing(self.table.schema, TableOptions(self.table.options))
        schema = pa.schema([each.remove_metadata() for each in (*self._fields(), KIND_FIELD)])
        runs: dict[Bucket, dict[int, MergeRun]] = {}
        for snapshot, rows in commits:
            for routed in route_rows(rows, routing):
                own = rows if routed.indices is None else rows.take(pa.array(routed.indices))
                bucket = routed.partition, routed.bucket
                run = pa.Table.from_arrays([own.column(name) for name in schema.names], schema=schema)
                runs.setdefault(bucket, {})[snapshot.snapshot_id] = MergeRun(
                    run, snapshot.committed_at_ms, sorted_unique=False
                )
        base = self._plan_before_rows(commits[0][0], list(runs))
        emitted: dict[int, list[pa.Table]] = {snapshot.snapshot_id: [] for snapshot, _ in commits}
        emitter = self._make_emitter()
        for bucket, found in sorted(runs.items()):
            changes = emitter.fold(base.get(bucket, []), [[run] for run in found.values()])
            for commit, table in zip(found, changes, strict=True):
                emitted[commit].append(table)
        for snapshot_id, parts in emitted.items():
            for table in parts:
                yield from self._to_batches(table, snapshot_id)

    def _plan_before_rows(self, first: Snapshot, buckets: Sequence[Bucket]) -> Mapping[Bucket, list[LiveFile]]:
        partitions = {partition for partition, _ in buckets}
        request = PlanRequest(
            self.table.table_uuid,
            AtSnapshot(first.snapshot_id),
            buckets=tuple(sorted({number for _, number in buckets})),
            partitions=tuple(sorted(partitions)) if len(partitions) <= NAMED_PARTITIONS else (),
        )
        return group_by_bucket(leave_out_added(self.states.list_files(request), first.snapshot_id))

    def count_rows(self) -> int:
        """Counts the rows that `read_batches` returns, by emitting them."""
        return sum(batch.num_rows for batch in self.read_batches())

    def _chunks(self) -> Iterator[_Chunk]:
        """Splits the commits into chunks; a large commit by buckets, a large bucket by key ranges."""
        for window in self._windows():
            if isinstance(window, int):
                yield from self._overwrite_chunks(window)
                continue
            base = self._plan_before(window)
            if sum(file.row_count for file in window) <= self.emitted_rows:
                yield _Chunk(base, [file.added_snapshot for file in window], window, None)
                continue
            for bucket, files in group_by_bucket(window).items():
                if sum(file.row_count for file in files) <= self.emitted_rows:
                    yield _Chunk(base, [files[0].added_snapshot], files, None)
                    continue
                for step in self._make_emitter().read_by_key_ranges(files):
                    tables = [each.rows for each in step]
                    yield _Chunk({bucket: base.get(bucket, [])}, [files[0].added_snapshot], files, tables)

    def _windows(self) -> Iterator[list[LiveFile] | int]:
        """Files of successive commits that are handled together, and the ids of snapshots that replaced rows."""
        window: list[LiveFile] = []
        breaks = deque(self.breaks)
        for snapshot_id, files in itertools.groupby(self.files, lambda file: file.added_snapshot):
            commit = list(files)
            broken = breaks and breaks[0] < snapshot_id
            if window and (broken or sum(file.row_count for file in (*window, *commit)) > self.emitted_rows):
                yield window
                window = []
            while breaks and breaks[0] < snapshot_id:
                yield breaks.popleft()
            window += commit
        if window:
            yield window
        yield from breaks

    def _overwrite_chunks(self, snapshot_id: int) -> Iterator[_Chunk]:
        """What a snapshot replaced and added, by buckets, or by key ranges of a large bucket."""
        if not self.overwrites:
            return
        states = [
            {} if each == 0 else self._by_bucket_at(PlanRequest(self.table.table_uuid, AtSnapshot(each)))
            for each in (snapshot_id - 1, snapshot_id)
        ]
        for bucket in dict.fromkeys([*states[0], *states[1]]):
            old, new = (state.get(bucket, []) for state in states)
            if old == new:
                continue
            # In the order of rows: the output of a compaction takes the place of its inputs, before newer files.
            files = sorted({file.file_id: file for file in (*old, *new)}.values(), key=_place)
            kept = {file.file_id for file in new}, {file.file_id for file in old}
            sides = [file.file_id in kept[1] for file in files], [file.file_id in kept[0] for file in files]
            for step in self._make_emitter().read_by_key_ranges(files):
                yield _Chunk({}, [snapshot_id], files, [each.rows for each in step], sides)

    def _plan_before(self, window: Sequence[LiveFile]) -> Mapping[Bucket, list[LiveFile]]:
        """The files that were live before the first commit of a window, in the buckets that it touches."""
        first = window[0].added_snapshot
        if first == 1:
            return {}
        live = self.states.list_files(to_request_before(self.table.table_uuid, window))
        return group_by_bucket(leave_out_added(live, first))

    def _by_bucket_at(self, request: PlanRequest) -> dict[Bucket, list[LiveFile]]:
        return group_by_bucket(self.states.list_files(request))

    def _emit(self, chunk: _Chunk) -> Iterable[pa.RecordBatch]:
        if chunk.sides is not None:
            return self._to_batches(self._compare(chunk, chunk.sides), chunk.commits[0])
        if self.counts is not None:
            self.counts.add(ReadMetrics(files_opened=len(chunk.files)))
        try:
            return self._emit_at_once(chunk)
        except FoundTooMuchError:
            # Only when the caller wants them, so that no others are in memory.
            return self._emit_in_parts(chunk)

    def _emit_at_once(self, chunk: _Chunk) -> list[pa.RecordBatch]:
        emitter = self._make_emitter()
        commits = list(dict.fromkeys(chunk.commits))
        emitted: dict[int, list[pa.Table]] = {commit: [] for commit in commits}
        room = Room(HELD_BYTES)
        # One order, however many commits are handled together: a reader can resume after a row that it has.
        for bucket, files in sorted(group_by_bucket(chunk.files).items()):
            runs: dict[int, list[MergeRun]] = {commit: [] for commit in commits}
            for number, file in enumerate(files):
                read = emitter.read(file, room) if chunk.tables is None else to_run(chunk.tables[number], file)
                runs[file.added_snapshot].append(read)
            changes = emitter.fold(chunk.base.get(bucket, []), [runs[commit] for commit in commits], HELD_BYTES)
            for commit, table in zip(commits, changes, strict=True):
                emitted[commit].append(table)
        return [
            batch for commit, parts in emitted.items() for table in parts for batch in self._to_batches(table, commit)
        ]

    def _emit_in_parts(self, chunk: _Chunk) -> Iterator[pa.RecordBatch]:
        """Emits the same changes in the same order, a few keys of one commit at a time."""
        emitter = self._make_emitter()
        for commit in dict.fromkeys(chunk.commits):
            for bucket, files in sorted(group_by_bucket(chunk.files).items()):
                own = [file for file in files if file.added_snapshot == commit]
                base = [*chunk.base.get(bucket, []), *(file for file in files if file.added_snapshot < commit)]
                if not own:
                    continue
                steps: Iterable[Sequence[pa.Table]] = () if chunk.tables is None else (chunk.tables,)
                if chunk.tables is None:
                    steps = ([each.rows for each in step] for step in emitter.read_by_key_ranges(own))
                for tables in steps:
                    runs = [to_run(table, file) for table, file in zip(tables, own, strict=True)]
                    for part in emitter.fold_one(base, runs, [0] * len(runs)):
                        yield from self._to_batches(part.changes, commit)

    def _to_batches(self, changes: pa.Table, commit: int) -> list[pa.RecordBatch]:
        return [batch for batch in self._project(changes, commit).to_batches() if batch.num_rows]

    def _compare(self, chunk: _Chunk, sides: tuple[Sequence[bool], Sequence[bool]]) -> pa.Table:
        """The difference between two states of the same keys; each state is merged from its own runs."""
        assert chunk.tables is not None, "they are read already"
        states = []
        for side in sides:
            runs = [
                to_run(table, file) for table, file, there in zip(chunk.tables, chunk.files, side, strict=True) if there
            ]
            found = find_deleted_rows(
                runs,
                self.policy.key,
                self.policy.sequence,
                sequence_descending=self.policy.sequence_descending,
                delete_retention_ms=self.policy.delete_retention_ms,
                keep_first=self.policy.keep_first,
            )
            names = [each.name for each in self._fields()]
            empty = pa.schema([each.remove_metadata() for each in self._fields()]).empty_table()
            left = [
                run.table.select(names).take(pa.array(np.delete(np.arange(run.table.num_rows), gone)))
                for run, gone in zip(runs, found, strict=True)
            ]
            states.append(pa.concat_tables([empty, *left]))
        return find_difference(states[0], states[1], self._rules())

    def _make_emitter(self) -> BucketChanges:
        assert self.caches is not None, "a detached read is not read"
        copies = self.caches.find_copies(self.table.table_uuid, TableOptions(self.table.options))
        return BucketChanges(
            self.store, self.table.schema, self.policy, self._fields(), self._rules(), copies, self.counts
        )

    def _rules(self) -> ChangelogRules:
        if self.rules is not None:
            return self.rules
        return ChangelogRules(
            self.policy.key,
            self.policy.sequence,
            self.policy.sequence_descending,
            self.policy.delete_retention_ms,
            keep_first=self.policy.keep_first,
            drop_equal=True,
            compared=tuple(each.name for each in self.columns.read if each.name != ROW_KIND_COLUMN),
        )

    def _fields(self) -> list[pa.Field]:
        """The fields to read, as files store them, including those that decide the key and the sequence."""
        names = {*self.policy.key, *self.policy.sequence, *(each.name for each in self.columns.read)}
        return [each for each in plan_file_schema(self.table.schema, with_row_kind=False) if each.name in names]

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


def _place(file: LiveFile) -> tuple[int, int, int]:
    return file.order_snapshot, file.order_ordinal, file.file_id


@dataclass(frozen=True)
class _Chunk:
    """Commits whose changes are emitted together.

    Args:
        base: The files that were live before them, by bucket.
        commits: Ids of the snapshots, rising.
        files: The files that they added.
        tables: The rows of the files, if key ranges are emitted; None: still to be read.
        sides: For a snapshot that replaced rows: which files were live before it, and which are live after it.
    """

    base: Mapping[Bucket, list[LiveFile]]
    commits: Sequence[int]
    files: Sequence[LiveFile]
    tables: Sequence[pa.Table] | None
    sides: tuple[Sequence[bool], Sequence[bool]] | None = None
