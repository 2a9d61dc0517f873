"""What the metastore stores, as its use cases see it: transactions with narrow, bulk methods over one store.

Implementations: `metastore/memory` and `metastore/postgres`; one contract suite runs over both. A transaction is atomic
and isolated as READ COMMITTED with explicit locks: what a `lock_` method returns cannot change before the transaction
ends. Leaving the block commits, an exception rolls back.

Errors of every method: `Unavailable` when certainly nothing happened, `OutcomeUnknown` when the connection was lost
while committing. `TransactionAborted`, a kind of `Unavailable`, asks for another try at once.
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
from lakelog.format.jobs.overview import Overview
from lakelog.format.retention.consumer import Consumer
from lakelog.format.tables.snapshot import Snapshot
from lakelog.format.tables.table import DatabaseInfo, TableName
from lakelog.format.types.schema import TableSchema
from lakelog.tracing import spans

from .baseline import BaselineTransaction
from .dropped import DroppedTransaction
from .due import DeletionVectorTransaction, DueTransaction
from .grants import GrantTransaction
from .jobs import JobListingTransaction, JobRunTransaction, JobTransaction, PresenceTransaction, WorkTransaction
from .logs import LogTransaction
from .publishing import PublishTransaction
from .records import Attachment, FileQuery, GroupFacts, GroupKeys, GroupRecords, NewChunk, NewTable, Packed, TableRecord
from .retention import RetentionTransaction, TagTransaction
from .table_files import TableFilesTransaction
from .waiting_work import WaitingWorkTransaction

T = TypeVar("T")

MAX_TRIES: Final = 10
"""Tries of one transaction that the database aborts. Locks have one order, so that even two aborts in a row are
rare."""


class TransactionAborted(Unavailable):
    """The database aborted the transaction in favour of another one (a deadlock); nothing happened."""

    default_reason = "TRANSACTION_ABORTED"


class CatalogTransaction(Protocol):
    """Databases, tables and schemas."""

    async def insert_database(self, name: str, comment: str) -> bool:
        """Makes a database; False when the name is taken."""
        ...

    async def lock_database(self, name: str) -> bool:
        """Locks a database, so that others neither drop it nor make tables in it; False: there is none."""
        ...

    async def list_databases(self) -> list[DatabaseInfo]:
        """All databases by name."""
        ...

    async def sum_tables(self, databases: Sequence[str] | None = None, table_uuids: Sequence[str] = ()) -> Overview:
        """Sums over all live tables, and the store's clock; or only over those in some databases, and some others.

        Args:
            databases: Existing ones, all of which count; None: all databases.
            table_uuids: Further tables; their databases count, too.
        """
        ...

    async def delete_database(self, name: str) -> None:
        """Removes a database that has no tables."""
        ...

    async def insert_table(self, table: NewTable) -> TableRecord:
        """Makes a table under a free name. The database is locked."""
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

    async def set_comment(self, table_id: int, comment: str) -> None:
        """Replaces the comment of a table whose head is locked."""
        ...

    async def add_schema(self, table_id: int, schema: TableSchema) -> None:
        """Adds a version of the schema of a table whose head is locked; from now on it is the current one.

        The store's clock says when it is made.
        """
        ...

    async def list_schemas(self, table_id: int) -> list[TableSchema]:
        """A table's schemas by id."""
        ...

    async def measure_schemas(self, table_id: int) -> int:
        """The bytes of all versions of a table's schema, as stored."""
        ...

    async def find_schemas(self, table_id: int, schema_ids: Sequence[int]) -> dict[int, TableSchema]:
        """Those of some versions of a table's schema that exist, by id."""
        ...


class CommitTransaction(Protocol):
    """What the gate needs."""

    async def lock_heads(self, table_uuids: Sequence[str]) -> dict[str, TableHead]:
        """Locks the heads of those tables that exist, in the order of table ids."""
        ...

    async def lock_group(self, keys: GroupKeys) -> GroupFacts:
        """Locks the heads in the order of table ids, writers, leases, jobs and attempts, and returns them all."""
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
        """Which snapshots after `after` added or removed data in the buckets, or in any bucket of the partitions.

        Compactions are included only on request. The order is rising, with one entry for each snapshot and bucket.
        """
        ...

    async def find_newest_change(self, table_id: int, after: int) -> Snapshot | None:
        """The newest snapshot after `after` that added or removed files and is not a compaction."""
        ...

    async def list_partitions(self, table_id: int) -> list[bytes]:
        """Every partition that ever got a file, encoded, in rising order."""
        ...

    async def mark_removed(
        self, table_id: int, snapshot_id: int, removal: RemoveFiles | RemoveEverything | RemovePartitions
    ) -> RemovedTotals:
        """Removes live files with a snapshot that this transaction will record."""
        ...

    async def restore_files(self, head: TableHead, snapshot_id: int, *, keyed: bool) -> RestoredTotals:
        """Gives the next snapshot of a locked head, which this transaction will record, the files of an earlier one.

        A file that is live now and was not live then is removed. A file that was live then and is not live now gets a
        new entry, with an id from the head's next one on, in the order of the old entries. The new entry has the same
        path, level and order. A file stays as it is if both states have an entry with its path and level, and the entry
        has not got a deletion vector since. A new entry has no deletion vector, unless the table has no primary key:
        then it has that of the earlier state, and a file stays as it is only if both states have the same one.

        Files with the same order position are sorted by their ids. So the earlier state's other files at the position
        of a file that comes back get new entries as well.
        """
        ...

    async def record_group(self, records: GroupRecords) -> None:
        """Writes what a group of commits decided. The last call of a transaction: it may be sent with the commit.

        Names are claimed last, because others who use them at this moment wait until this transaction ends.

        Raises:
            TransactionAborted: A name has got another owner since the group was decided.
        """
        ...

    async def insert_attempts(self, attempts: Sequence[Attempt]) -> None:
        """Opens attempts."""
        ...

    async def lock_attempt(self, attempt_id: str) -> Attempt | None:
        """Locks an attempt against changes."""
        ...

    async def set_attempt(self, attempt_id: str, state: AttemptState) -> None:
        """Changes the state of a locked attempt."""
        ...

    async def set_attempt_tables(self, attempt_id: str, table_uuids: Sequence[str]) -> None:
        """Changes the tables of a locked attempt."""
        ...

    async def raise_writer_epoch(self, writer: str) -> int:
        """Gives a writer a new epoch, once no commit that saw the old one is running, and returns it."""
        ...

    async def abort_fenced_attempts(self, writer: str, epoch: int) -> None:
        """Aborts the writer's open attempts that are for commits with a lower epoch."""
        ...

    async def find_writer_owners(self, writers: Sequence[str]) -> dict[str, str]:
        """Returns the owners of names that have one, and of held jobs; empty: the holder is not known."""
        ...

    async def claim_writers(self, claims: Mapping[str, str]) -> dict[str, str]:
        """Gives names to principals if they have no owner, and returns what `find_writer_owners` returns then.

        Names of jobs are not given.
        """
        ...

    async def release_writer(self, writer: str) -> str:
        """Takes a name from its owner and returns the owner; empty: it had none."""
        ...

    async def forget_unused_writers(self, after: str, unused_ms: int, limit: int) -> tuple[str, list[str]]:
        """Removes names without a commit and without an unfinished attempt, last registered or claimed long ago.

        Names that a commit or a registration uses at this moment stay.

        Args:
            after: It looks at the names after this one.
            unused_ms: How long ago that must be at least.
            limit: How many names it looks at.

        Returns:
            The last name that it looked at, empty if there is none after it; and the names that it has removed.
        """
        ...

    async def find_progress(self, table_id: int, writer: str) -> WriterProgress:
        """The last commit of a writer to a table."""
        ...

    async def list_open_snapshots(self, table_id: int, limit: int) -> list[Snapshot]:
        """The lowest snapshots with pending changelogs, of a table whose head is locked, rising, at most `limit`."""
        ...

    async def attach_changelogs(self, attachment: Attachment) -> None:
        """Records changelogs that passed all checks. The last call of a transaction."""
        ...


class SnapshotTransaction(Protocol):
    """What plans and watches read."""

    async def find_heads(self, table_uuids: Sequence[str]) -> dict[str, TableHead]:
        """The heads of those tables that exist, without locking them."""
        ...

    async def list_snapshots(
        self, table_id: int, after: int, until: int, limit: int, *, newest: bool = False
    ) -> list[Snapshot]:
        """At most `limit` snapshots after `after` up to `until`, the oldest or newest of them, in rising order."""
        ...

    async def find_snapshot_at(self, table_id: int, timestamp_ms: int) -> Snapshot | None:
        """The newest snapshot that was committed at or before a time."""
        ...

    async def load_files(self, query: FileQuery) -> pa.Table:
        """Files in any order, with the columns of FILE_SCHEMA and, on request, `statistics` (binary)."""
        ...

    async def load_changelog_files(self, query: FileQuery) -> pa.Table:
        """Changelog files in any order, with the columns of `load_files`.

        No snapshot removes them, so of the query's times only `added_after` and `added_until` count.
        """
        ...

    async def list_removed(self, table_id: int, after: int, until: int) -> list[int]:
        """Ids of the files that the snapshots after `after` up to `until` removed."""
        ...

    async def find_chunks(self, table_id: int) -> Packed:
        """The table's chunks without their entries."""
        ...

    async def load_entries(self, chunk_ids: Sequence[int]) -> dict[int, bytes]:
        """The entries of chunks; a chunk that has been packed again meanwhile is missing."""
        ...

    async def load_chunk_statistics(self, chunk_ids: Sequence[int]) -> dict[int, bytes]:
        """The statistics of chunks; a chunk that has been packed again meanwhile is missing."""
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
        """Packs a table again: deletes and inserts chunks, and updates which files the other chunks lack."""
        ...

    async def list_unpacked(self, min_files: int, limit: int) -> list[str]:
        """Uuids of tables with at least `min_files` files added or removed since they were packed."""
        ...


class ConsumerTransaction(Protocol):
    """Named readers: consumers."""

    async def now_ms(self) -> int:
        """The store's time, in milliseconds since the epoch."""
        ...

    async def make_epoch(self, last: int) -> int:
        """A new epoch after the last one (0: none is known), as `lakelog.format.commit.epochs` explains."""
        ...

    async def find_consumer(self, table_id: int, table_uuid: str, consumer_id: str) -> Consumer | None:
        """A consumer of a table, without its expiry."""
        ...

    async def list_consumers(self, table_id: int, table_uuid: str) -> list[Consumer]:
        """A table's consumers by id, without their expiry."""
        ...

    async def count_consumers(self, table_id: int, owner: str) -> int:
        """The number of consumers of a table that a principal owns; empty: that have no owner."""
        ...

    async def put_consumer(self, table_id: int, consumer: Consumer, owner: str | None) -> tuple[int, str]:
        """Makes or changes a consumer, whose table's head is locked; returns the time and the consumer's owner.

        Args:
            table_id: The table.
            consumer: The consumer.
            owner: The principal that owns it from now on if it has no owner; None: it loses its owner.
        """
        ...

    async def delete_consumer(self, table_id: int, consumer_id: str) -> str:
        """Removes a consumer and returns its owner; empty: it had none. The table's head is locked."""
        ...


class Transaction(
    CatalogTransaction,
    DroppedTransaction,
    TableFilesTransaction,
    CommitTransaction,
    SnapshotTransaction,
    WorkTransaction,
    JobTransaction,
    JobListingTransaction,
    JobRunTransaction,
    PresenceTransaction,
    ConsumerTransaction,
    RetentionTransaction,
    DueTransaction,
    DeletionVectorTransaction,
    TagTransaction,
    GrantTransaction,
    BaselineTransaction,
    LogTransaction,
    PublishTransaction,
    WaitingWorkTransaction,
    Protocol,
):
    """All that one transaction can do."""


class Store(Protocol):
    """Where the metastore stores everything."""

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """A new transaction; it commits at the end of the block."""
        ...

    async def announce(self, table_uuids: Collection[str]) -> None:
        """Notifies other metastores on the same store that heads have moved. A lost notice costs latency only."""
        ...

    def listen(self) -> AsyncGenerator[frozenset[str]]:
        """The announcements of other metastores, until closed; an empty set means that some may have been missed."""
        ...

    async def close(self) -> None:
        """Ends all connections; idempotent."""
        ...


async def run_transaction(store: Store, work: Callable[[Transaction], Awaitable[T]]) -> T:
    """Runs `work` in a transaction of its own, again when the database aborted it.

    Repeating is safe: an aborted transaction has changed nothing.

    Raises:
        LakelogError: What `work` raised; `TransactionAborted` after `MAX_TRIES`.
    """
    for tries_left in reversed(range(MAX_TRIES)):
        try:
            with spans.span("transaction"):
                async with store.transaction() as transaction:
                    return await work(transaction)
        except TransactionAborted:
            if not tries_left:
                raise
    raise AssertionError("the last try returns or raises")


class StoreUser:
    """Use cases that need nothing but the store.

    Args:
        store: Where everything is stored.
    """

    def __init__(self, store: Store) -> None:
        self._store = store


Forget = Callable[[Transaction, str], Awaitable[tuple[str, list[str]]]]
"""Looks at the names after one, and removes the unused ones; returns the last that it has looked at, empty after the
last of all, and those that it has removed."""


class NameRound:
    """Looks through names, some in each step.

    Args:
        store: Where the names are.
        forget: Does a step.
    """

    def __init__(self, store: Store, forget: Forget) -> None:
        self._store = store
        self._forget = forget
        self._after = ""

    async def step(self) -> list[str]:
        """Looks at the next names, after the last one again at the first; returns those that it has removed.

        Raises:
            Unavailable, OutcomeUnknown: The store is lost; a later step finds them.
        """
        after = self._after
        self._after, removed = await run_transaction(self._store, lambda tx: self._forget(tx, after))
        return removed
