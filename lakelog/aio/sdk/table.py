"""A table, for asyncio; `Catalog.table` and `Catalog.create_table` make it. Tasks may share it.

`dev/aio_classes.py` writes this file from `lakelog.sdk.tables.table`; change that.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Unpack

import pyarrow as pa

from lakelog.aio.opening import Opening
from lakelog.aio.scans import Scan
from lakelog.aio.sdk.consumers import Consumers
from lakelog.aio.sdk.system_table import SystemTable
from lakelog.aio.sdk.tags import Tags
from lakelog.aio.subscription import Subscription, open_subscription
from lakelog.aio.wrapped import Wrapped
from lakelog.annotations import Condition, OptionValue, Parameters, Rows, SnapshotLike, TimeLike, Value
from lakelog.context import Context
from lakelog.format.tables.table import TableInfo
from lakelog.format.types.column_changes import ColumnChange
from lakelog.reads.complete_changes import DEFAULT_TIMEOUT_S
from lakelog.results import DeleteResult, MergeResult, UpdateResult, WriteResult
from lakelog.sdk.maintenance.checking.file_check_result import FileCheck
from lakelog.sdk.maintenance.compaction_result import CompactionResult
from lakelog.sdk.maintenance.expiry import ExpiryResult
from lakelog.sdk.maintenance.partition_expiry import PartitionExpiryResult
from lakelog.sdk.tables.table import Table as BlockingTable
from lakelog.storage.lookup.copy_cache import CacheStatistics
from lakelog.writes.commit_options import CommitOptions
from lakelog.writes.row_changes.clauses import Assignments, Clause

if TYPE_CHECKING:
    import pandas as pd


class Table(Wrapped[BlockingTable]):
    """A table, for asyncio; `Catalog.table` and `Catalog.create_table` make it. Tasks may share it."""

    @property
    def info(self) -> TableInfo:
        """The table as the catalog returned it when this handle was made, or last written to or altered."""
        return self._blocking.info

    @property
    def context(self) -> Context:
        """What it shares with its catalog: metastore, stores, caches and clock."""
        return self._blocking.context

    @property
    def name(self) -> str:
        """Its full name, `database.table`."""
        return self._blocking.name

    @property
    def uuid(self) -> str:
        """Its identity: 32 hexadecimal digits; another table of the same name has another one."""
        return self._blocking.uuid

    @property
    def location(self) -> str:
        """The URI of the folder with its files."""
        return self._blocking.location

    @property
    def comment(self) -> str:
        """What it is for; may be empty."""
        return self._blocking.comment

    @property
    def schema(self) -> pa.Schema:
        """Its columns, as this handle received them last (see the class)."""
        return self._blocking.schema

    @property
    def primary_key(self) -> tuple[str, ...]:
        """Names of the primary key's columns; empty for an append table."""
        return self._blocking.primary_key

    @property
    def partition_by(self) -> tuple[str, ...]:
        """Names of the partition columns; empty for none."""
        return self._blocking.partition_by

    @property
    def options(self) -> dict[str, str]:
        """The options that were set, by key, as this handle received them last (see the class)."""
        return self._blocking.options

    async def check_files(
        self, repair: bool = False, *, forget_lost: bool = False, older_than: dt.timedelta | None = None
    ) -> FileCheck:
        """Compares the files below the table's location with what it refers to, and its log with its history.

        See `lakelog.Table.check_files`.
        """
        return await self._workers.change(
            lambda: self._blocking.check_files(repair, forget_lost=forget_lost, older_than=older_than)
        )

    async def find_stored_rows(self, filter: Condition, *, params: Parameters | None = None) -> pa.Table:
        """Finds files that hold rows with a condition, though no read may show them: the proof of an erasure.

        See `lakelog.Table.find_stored_rows`.
        """
        return await self._workers.read(lambda: self._blocking.find_stored_rows(filter, params=params))

    async def expire_partitions(self, dry_run: bool = False) -> PartitionExpiryResult:
        """Removes the partitions that are older than `partition.expiration-time`, as compactors do by themselves.

        See `lakelog.Table.expire_partitions`.
        """
        return await self._workers.change(lambda: self._blocking.expire_partitions(dry_run))

    async def update(
        self,
        set: Assignments,
        where: Condition | None = None,
        *,
        params: Parameters | None = None,
        **commit: Unpack[CommitOptions],
    ) -> UpdateResult:
        """Gives columns of some rows new values, all in one commit.

        See `lakelog.Table.update`.
        """
        return await self._workers.change(lambda: self._blocking.update(set, where, params=params, **commit))

    async def merge(
        self,
        source: Rows,
        on: str | Sequence[str],
        *clauses: Clause,
        params: Parameters | None = None,
        **commit: Unpack[CommitOptions],
    ) -> MergeResult:
        """Compares the rows of a source with those of the table, and updates, deletes and inserts, all in one commit.

        See `lakelog.Table.merge`.
        """
        return await self._workers.change(lambda: self._blocking.merge(source, on, *clauses, params=params, **commit))

    async def append(self, data: Rows, *, fill_missing: bool = False, **commit: Unpack[CommitOptions]) -> WriteResult:
        """Adds rows; in a table with a primary key they replace the rows of the same key, as `upsert` does.

        See `lakelog.Table.append`.
        """
        return await self._workers.change(lambda: self._blocking.append(data, fill_missing=fill_missing, **commit))

    async def upsert(self, data: Rows, *, fill_missing: bool = False, **commit: Unpack[CommitOptions]) -> WriteResult:
        """Adds rows to a table with a primary key, or replaces those of the same key; arguments as of `append`.

        See `lakelog.Table.upsert`.
        """
        return await self._workers.change(lambda: self._blocking.upsert(data, fill_missing=fill_missing, **commit))

    async def delete(self, keys: Rows, *, latest: bool = False, **commit: Unpack[CommitOptions]) -> WriteResult:
        """Deletes rows by their key; keys without a row are no error. Arguments as of `append`.

        See `lakelog.Table.delete`.
        """
        return await self._workers.change(lambda: self._blocking.delete(keys, latest=latest, **commit))

    async def delete_where(
        self, filter: Condition, *, params: Parameters | None = None, **commit: Unpack[CommitOptions]
    ) -> DeleteResult:
        """Deletes the rows that fulfil a condition, as they are in the newest snapshot; all of them or none.

        See `lakelog.Table.delete_where`.
        """
        return await self._workers.change(lambda: self._blocking.delete_where(filter, params=params, **commit))

    async def write(self, data: Rows, *, fill_missing: bool = False, **commit: Unpack[CommitOptions]) -> WriteResult:
        """Writes rows of all kinds: a column `_row_kind` of `+I -U +U -D`, or the table's `rowkind.field`, says which.

        See `lakelog.Table.write`.
        """
        return await self._workers.change(lambda: self._blocking.write(data, fill_missing=fill_missing, **commit))

    async def overwrite(
        self,
        data: Rows,
        partition: Mapping[str, Value] | str | None = None,
        *,
        fill_missing: bool = False,
        **commit: Unpack[CommitOptions],
    ) -> WriteResult:
        """Replaces the rows of the table, or of partitions of it, when the commit takes effect (semantics 7.2).

        See `lakelog.Table.overwrite`.
        """
        return await self._workers.change(
            lambda: self._blocking.overwrite(data, partition, fill_missing=fill_missing, **commit)
        )

    async def rollback_to(self, snapshot_id_or_tag: SnapshotLike, **commit: Unpack[CommitOptions]) -> WriteResult:
        """Restores the rows of an earlier snapshot, as they are when the commit takes effect.

        See `lakelog.Table.rollback_to`.
        """
        return await self._workers.change(lambda: self._blocking.rollback_to(snapshot_id_or_tag, **commit))

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: Condition | None = None,
        limit: int | None = None,
        *,
        params: Parameters | None = None,
        snapshot_id: int | None = None,
        timestamp: TimeLike | None = None,
        tag: str | None = None,
        options: Mapping[str, OptionValue] | None = None,
    ) -> Scan:
        """Plans a read of the table; checks all arguments and fixes the snapshot now.

        See `lakelog.Table.scan`. It is planned when it is awaited, or first read.
        """
        return Scan(
            self._workers,
            lambda: self._blocking.scan(
                columns,
                filter,
                limit,
                params=params,
                snapshot_id=snapshot_id,
                timestamp=timestamp,
                tag=tag,
                options=options,
            ),
        )

    async def count(self, filter: Condition | None = None, *, params: Parameters | None = None) -> int:
        """Counts the rows of the newest snapshot, as a scan would return them.

        See `lakelog.Table.count`.
        """
        return await self._workers.read(lambda: self._blocking.count(filter, params=params))

    async def head(
        self,
        n: int = 10,
        filter: Condition | None = None,
        *,
        columns: Sequence[str] | None = None,
        params: Parameters | None = None,
    ) -> pa.Table:
        """Reads some rows, in no defined choice; stops reading as soon as there are enough.

        See `lakelog.Table.head`.
        """
        return await self._workers.read(lambda: self._blocking.head(n, filter, columns=columns, params=params))

    async def to_pandas(
        self,
        columns: Sequence[str] | None = None,
        filter: Condition | None = None,
        limit: int | None = None,
        *,
        params: Parameters | None = None,
    ) -> pd.DataFrame:
        """Reads the rows of the newest snapshot into a pandas data frame; needs pandas. Arguments as of `scan`.

        See `lakelog.Table.to_pandas`.
        """
        return await self._workers.read(lambda: self._blocking.to_pandas(columns, filter, limit, params=params))

    async def alter(
        self,
        *,
        set: Mapping[str, OptionValue] | None = None,
        unset: Sequence[str] = (),
        columns: Sequence[ColumnChange] = (),
        comment: str | None = None,
    ) -> Table:
        """Changes options, or columns and the comment.

        See `lakelog.Table.alter`.
        """
        await self._workers.change(lambda: self._blocking.alter(set=set, unset=unset, columns=columns, comment=comment))
        return self

    def changes(
        self,
        after: int | None = None,
        until: int | None = None,
        *,
        columns: Sequence[str] | None = None,
        filter: Condition | None = None,
        params: Parameters | None = None,
        limit: int | None = None,
        raw: bool = False,
        timeout: float = DEFAULT_TIMEOUT_S,
    ) -> Scan:
        """Plans a read of the changes of the snapshots after `after`, up to and including `until`, in their order.

        See `lakelog.Table.changes`. It is planned when it is awaited, or first read.
        """
        return Scan(
            self._workers,
            lambda: self._blocking.changes(
                after, until, columns=columns, filter=filter, params=params, limit=limit, raw=raw, timeout=timeout
            ),
        )

    def subscribe(
        self,
        scan_mode: str | None = None,
        consumer_id: str | None = None,
        auto_commit: bool = True,
        *,
        columns: Sequence[str] | None = None,
        filter: Condition | None = None,
        params: Parameters | None = None,
        options: Mapping[str, OptionValue] | None = None,
        reader: str | None = None,
    ) -> Opening[Subscription]:
        """Subscribes to the table's changes: batches arrive as they are committed, without polling.

        See `lakelog.Table.subscribe`.
        """
        return Opening(
            lambda: open_subscription(
                lambda: self._blocking.subscribe(
                    scan_mode,
                    consumer_id,
                    auto_commit,
                    columns=columns,
                    filter=filter,
                    params=params,
                    options=options,
                    reader=reader,
                ),
                self._workers,
            )
        )

    @property
    def consumers(self) -> Consumers:
        """Named readers of the table: `.list()`, `.reset(id, snapshot_id)`, `.delete(id)`."""
        return Consumers(self._blocking.consumers, self._workers)

    @property
    def tags(self) -> Tags:
        """Names of snapshots: `.create(name, snapshot_id=None)`, `.list()`, `.delete(name)`."""
        return Tags(self._blocking.tags, self._workers)

    @property
    def lookup_metrics(self) -> CacheStatistics:
        """Counts of the lookups of old rows in this process: hits of local copies, bytes read, copies made, evicted."""
        return self._blocking.lookup_metrics

    async def compact(
        self,
        full: bool = False,
        partitions: Sequence[Mapping[str, Value]] | None = None,
        where: Condition | None = None,
        wait: bool = True,
        timeout: float | None = None,
        dry_run: bool = False,
        *,
        params: Parameters | None = None,
    ) -> CompactionResult:
        """Requests a compaction of the table's files, so that reads cost less; what they show never changes.

        See `lakelog.Table.compact`.
        """
        return await self._workers.change(
            lambda: self._blocking.compact(full, partitions, where, wait, timeout, dry_run, params=params)
        )

    async def expire_snapshots(
        self, older_than: TimeLike | None = None, retain_last: int | None = None, dry_run: bool = False
    ) -> ExpiryResult:
        """Expires snapshots that are not needed now; compactors also do this by themselves, by the table's options.

        See `lakelog.Table.expire_snapshots`.
        """
        return await self._workers.change(lambda: self._blocking.expire_snapshots(older_than, retain_last, dry_run))

    async def snapshots(self, limit: int | None = None) -> pa.Table:
        """Lists the retained snapshots, oldest first.

        See `lakelog.Table.snapshots`.
        """
        return await self._workers.read(lambda: self._blocking.snapshots(limit))

    async def system_table(self, name: str) -> SystemTable:
        """Returns one of its system tables, for instance `files`, `buckets` or `audit_log`.

        See `lakelog.Table.system_table`.
        """
        return SystemTable(await self._workers.read(lambda: self._blocking.system_table(name)), self._workers)

    async def files(self, snapshot_id: int | None = None) -> pa.Table:
        """Lists the files that are live at a snapshot.

        See `lakelog.Table.files`.
        """
        return await self._workers.read(lambda: self._blocking.files(snapshot_id))
