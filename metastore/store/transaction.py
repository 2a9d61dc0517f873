"""What the metastore keeps, as its use cases see it: transactions of narrow, bulk methods over one catalog store.

Implementations: `metastore/memory` and `metastore/postgres`; one contract suite runs over both. A transaction is atomic
and isolated as READ COMMITTED with explicit locks: what a `lock_` method returns cannot change before the transaction
ends. Leaving the block commits, an exception rolls back.

Errors of every method: `Unavailable` when it is certain that nothing happened, `OutcomeUnknown` when the connection was
lost while committing. `TransactionAborted`, a kind of `Unavailable`, asks for another try at once.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol, TypeVar

import pyarrow as pa

from lakelog.errors import Unavailable
from lakelog.format.commit.facts import (
    Attempt,
    AttemptState,
    BucketChange,
    FileFacts,
    RemovedTotals,
    RestoredTotals,
    TableHead,
)
from lakelog.format.commit.request import BucketRef, RemoveEverything, RemoveFiles, RemovePartitions, WriterProgress
from lakelog.format.jobs.presence import Service, ServiceReport
from lakelog.format.jobs.work import LeaseGrant, Pipeline
from lakelog.format.retention.consumer import Consumer
from lakelog.format.tables.snapshot import Snapshot
from lakelog.format.tables.table import DatabaseInfo, TableName
from lakelog.format.types.schema import TableSchema

from .baseline import BaselineTransaction
from .deletion_vectors import DeletionVectorTransaction
from .dropped import DroppedTransaction
from .due import DueTransaction
from .jobs import JobTransaction
from .logs import LogTransaction
from .publishing import PublishTransaction
from .records import Attachment, FileQuery, GroupFacts, GroupKeys, GroupRecords, NewChunk, NewTable, Packed, TableRecord
from .retention import RetentionTransaction
from .table_files import TableFilesTransaction
from .tags import TagTransaction

T = TypeVar("T")

MAX_TRIES: Final = 10
"""Of one transaction that the database aborts. Locks are taken in one order, so that even two in a row are rare."""


class TransactionAborted(Unavailable):
    """The database gave the transaction up for the sake of another (a deadlock); nothing happened."""

    default_reason = "TRANSACTION_ABORTED"


class CatalogTransaction(Protocol):
    """Databases, tables and schemas."""

    async def insert_database(self, name: str, comment: str) -> bool:
        """Makes a database; False when the name is taken."""
        ...

    async def lock_database(self, name: str) -> bool:
        """Keeps a database from being dropped, and tables from being made in it by others; False: there is none."""
        ...

    async def list_databases(self) -> list[DatabaseInfo]:
        """All databases by name."""
        ...

    async def delete_database(self, name: str) -> None:
        """Removes a database that has no tables."""
        ...

    async def insert_table(self, table: NewTable) -> TableRecord:
        """Makes a table in a database that is locked, under a name that is free."""
        ...

    async def find_table(self, name: TableName) -> TableRecord | None:
        """A table by its name."""
        ...

    async def find_table_by_uuid(self, table_uuid: str) -> TableRecord | None:
        """A table by its uuid; None also when it was dropped."""
        ...

    async def list_tables(self, database: str) -> list[str]:
        """Names of a database's tables, sorted."""
        ...

    async def set_options(self, table_id: int, options: Mapping[str, str]) -> None:
        """Replaces the options of a table whose head is locked."""
        ...

    async def list_schemas(self, table_id: int) -> list[TableSchema]:
        """A table's schemas by id."""
        ...


class CommitTransaction(Protocol):
    """What the gate needs."""

    async def lock_heads(self, table_uuids: Sequence[str]) -> dict[str, TableHead]:
        """Locks the heads of those tables that exist, in table-id order."""
        ...

    async def lock_group(self, keys: GroupKeys) -> GroupFacts:
        """Locks the heads in table-id order, the writers, leases and jobs, and the attempts, then tells all of them."""
        ...

    async def find_files(self, table_id: int, file_ids: Sequence[int]) -> list[FileFacts]:
        """Those of the files that exist, live or not."""
        ...

    async def find_live_files(self, table_id: int, buckets: Sequence[BucketRef]) -> list[FileFacts]:
        """All files that are live in some buckets, in any order."""
        ...

    async def find_changes(
        self,
        table_id: int,
        after: int,
        buckets: Iterable[BucketRef],
        partitions: Iterable[bytes] = (),
        *,
        compactions: bool = False,
    ) -> list[BucketChange]:
        """Which snapshots behind `after` brought or took data of the buckets, or of any bucket of the partitions.

        Compactions are among them only if asked for. They come in rising order, a snapshot once for each bucket.
        """
        ...

    async def find_newest_change(self, table_id: int, after: int) -> Snapshot | None:
        """The newest snapshot behind `after` that brought or took files and is no compaction."""
        ...

    async def list_partitions(self, table_id: int) -> list[bytes]:
        """Every partition that ever got a file, encoded, in rising order."""
        ...

    async def mark_removed(
        self, table_id: int, snapshot_id: int, removal: RemoveFiles | RemoveEverything | RemovePartitions
    ) -> RemovedTotals:
        """Lets live files be removed by a snapshot that this transaction will record."""
        ...

    async def restore_files(self, head: TableHead, snapshot_id: int) -> RestoredTotals:
        """Lets the snapshot behind a locked head, which this transaction will record, have the files of an earlier one.

        What is live and was not then is removed. What was live then and is not gets a new entry, from the head's next
        id on in the order of the old ones, with its path, level and place, but without what it said of positions. A
        file that has an entry of its path and level in both states stays as it is.
        Files that share a place stand in the order of their ids: so those of that state that share one with a file
        that comes back get new entries as well.
        """
        ...

    async def record_group(self, records: GroupRecords) -> None:
        """Writes what a group of commits decided. The last call of a transaction: it may be sent with the commit."""
        ...

    async def insert_attempts(self, attempts: Sequence[Attempt], writers: Sequence[str]) -> None:
        """Opens attempts, each for the writer at the same place."""
        ...

    async def lock_attempt(self, attempt_id: str) -> Attempt | None:
        """Keeps an attempt as it is."""
        ...

    async def set_attempt(self, attempt_id: str, state: AttemptState) -> None:
        """Changes the state of a locked attempt."""
        ...

    async def set_attempt_tables(self, attempt_id: str, table_uuids: Sequence[str]) -> None:
        """Changes the tables of a locked attempt."""
        ...

    async def raise_writer_epoch(self, writer: str) -> int:
        """Raises a writer's epoch by one, once no commit that saw the old one is running, and returns it."""
        ...

    async def find_progress(self, table_id: int, writer: str) -> WriterProgress:
        """What a writer has committed last to a table."""
        ...

    async def list_open_snapshots(self, table_id: int, limit: int) -> list[Snapshot]:
        """The lowest snapshots of a locked head whose changelogs are open, rising, at most `limit`."""
        ...

    async def attach_changelogs(self, attachment: Attachment) -> None:
        """Writes changelogs down that were found right. The last call of a transaction."""
        ...


class SnapshotTransaction(Protocol):
    """What plans and watches read."""

    async def find_heads(self, table_uuids: Sequence[str]) -> dict[str, TableHead]:
        """The heads of those tables that exist, without locking them."""
        ...

    async def list_snapshots(
        self, table_id: int, after: int, until: int, limit: int, *, newest: bool = False
    ) -> list[Snapshot]:
        """At most `limit` snapshots behind `after` up to `until`, the oldest or newest of them, in rising order."""
        ...

    async def find_snapshot_at(self, table_id: int, timestamp_ms: int) -> Snapshot | None:
        """The newest snapshot that was committed at or before a time."""
        ...

    async def load_files(self, query: FileQuery) -> pa.Table:
        """Files in any order: columns of FILE_SCHEMA and, if asked for, `statistics` (binary)."""
        ...

    async def load_changelog_files(self, query: FileQuery) -> pa.Table:
        """Changelog files in any order, with the columns of `load_files`.

        They are never removed by a snapshot, so that of the query's times only `added_after` and `added_until` count.
        """
        ...

    async def list_removed(self, table_id: int, after: int, until: int) -> list[int]:
        """Ids of the files that the snapshots behind `after` up to `until` removed."""
        ...

    async def find_chunks(self, table_id: int) -> Packed:
        """The table's chunks without their entries."""
        ...

    async def load_entries(self, chunk_ids: Sequence[int]) -> dict[int, bytes]:
        """The entries of chunks; one that was packed anew meanwhile is missing."""
        ...

    async def load_chunk_statistics(self, chunk_ids: Sequence[int]) -> dict[int, bytes]:
        """The statistics of chunks; one that was packed anew meanwhile is missing."""
        ...

    async def lock_packing(self, table_id: int) -> bool:
        """Makes this transaction the only one that packs the table; False: another does."""
        ...

    async def replace_chunks(
        self,
        table_id: int,
        packed_until: int,
        delete: Sequence[int],
        insert: Sequence[NewChunk],
        without: Mapping[int, Sequence[int]],
    ) -> None:
        """Packs a table anew: deletes and inserts chunks and sets what others lack by now."""
        ...

    async def list_unpacked(self, min_files: int, limit: int) -> list[str]:
        """Uuids of tables of which at least so many files were added or removed behind what is packed."""
        ...


class WorkTransaction(Protocol):
    """Leases and pipelines. Deadlines are judged by the database's clock alone."""

    async def acquire_lease(self, name: str, holder: str, duration_ms: int) -> LeaseGrant:
        """Takes a lease that is free or over; its epoch rises by one."""
        ...

    async def renew_lease(self, name: str, epoch: int, duration_ms: int) -> LeaseGrant:
        """Moves the deadline of a lease that has this epoch and is held; `acquired` tells whether it did."""
        ...

    async def release_lease(self, name: str, epoch: int) -> None:
        """Ends a lease that has this epoch."""
        ...

    async def lock_lease_epoch(self, name: str) -> int:
        """Keeps a lease's epoch as it is and tells it; 0 when it was never held."""
        ...

    async def upsert_pipeline(self, pipeline: Pipeline) -> None:
        """Writes down where a pipeline is, with the time."""
        ...

    async def list_pipelines(self) -> list[Pipeline]:
        """All pipelines by name, with the holders of their leases."""
        ...

    async def delete_pipeline(self, name: str) -> None:
        """Removes what a pipeline reported; its lease stays, with its epoch."""
        ...


class PresenceTransaction(Protocol):
    """Which services run. The store's clock alone says when they reported."""

    async def renew_service(self, report: ServiceReport) -> bool:
        """Replaces what a service reported, but for its start; False: it is not listed."""
        ...

    async def lock_services(self) -> None:
        """Lets no other transaction list a new service before this one ends."""
        ...

    async def count_services(self) -> int:
        """How many are listed."""
        ...

    async def insert_service(self, report: ServiceReport) -> None:
        """Lists a service, which started `uptime_ms` ago."""
        ...

    async def remove_service(self, instance_id: str) -> None:
        """Takes a service out, if it is listed."""
        ...

    async def evict_services(self, gone_ms: int) -> None:
        """Takes those out whose last report ceased to hold so long ago, but for those that report just now."""
        ...

    async def list_services(self) -> list[Service]:
        """All that are listed, by kind, host, start and instance."""
        ...


class ConsumerTransaction(Protocol):
    """Named readers."""

    async def now_ms(self) -> int:
        """The store's time, in milliseconds since the epoch."""
        ...

    async def find_consumer(self, table_id: int, table_uuid: str, consumer_id: str) -> Consumer | None:
        """A consumer of a table, without its expiry."""
        ...

    async def list_consumers(self, table_id: int, table_uuid: str) -> list[Consumer]:
        """A table's consumers by id, without their expiry."""
        ...

    async def put_consumer(self, table_id: int, consumer: Consumer) -> int:
        """Makes or changes a consumer of a table whose head is locked; returns when."""
        ...

    async def delete_consumer(self, table_id: int, consumer_id: str) -> None:
        """Removes a consumer of a table whose head is locked."""
        ...


class Transaction(
    CatalogTransaction,
    DroppedTransaction,
    TableFilesTransaction,
    CommitTransaction,
    SnapshotTransaction,
    WorkTransaction,
    JobTransaction,
    PresenceTransaction,
    ConsumerTransaction,
    RetentionTransaction,
    DueTransaction,
    DeletionVectorTransaction,
    TagTransaction,
    BaselineTransaction,
    LogTransaction,
    PublishTransaction,
    Protocol,
):
    """All that can be done in one transaction."""


class Store(Protocol):
    """Where the metastore keeps everything."""

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """A new transaction; commits at the end of the block."""
        ...

    async def announce(self, table_uuids: Collection[str]) -> None:
        """Tells other metastores on the same store that heads have moved. A lost one costs latency only."""
        ...

    def listen(self) -> AsyncGenerator[frozenset[str]]:
        """What other metastores announce, until closed; an empty set means that some may have been missed."""
        ...

    async def close(self) -> None:
        """Ends all connections; idempotent."""
        ...


async def run_transaction(store: Store, work: Callable[[Transaction], Awaitable[T]]) -> T:
    """Runs `work` in a transaction of its own, again when the database gave it up.

    Repeating is safe: a transaction that was given up has changed nothing.

    Raises:
        LakelogError: What `work` raised; `TransactionAborted` after `MAX_TRIES`.
    """
    for tries_left in reversed(range(MAX_TRIES)):
        try:
            async with store.transaction() as transaction:
                return await work(transaction)
        except TransactionAborted:
            if not tries_left:
                raise
    raise AssertionError("the last try returns or raises")
