"""What the metastore keeps, as its use cases see it: transactions of narrow, bulk methods over one catalog store.

Implementations: `metastore/memory` and `metastore/postgres`; one contract suite runs over both. A transaction is atomic
and isolated as READ COMMITTED with explicit locks: what a `lock_` method returns cannot change before the transaction
ends. Leaving the block commits, an exception rolls back.

Errors of every method: `Unavailable` when it is certain that nothing happened, `OutcomeUnknown` when the connection was
lost while committing. `TransactionAborted`, a kind of `Unavailable`, asks for another try at once.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

import pyarrow as pa

from lakelog.errors import Unavailable
from lakelog.format.commit import BucketRef, RemoveEverything, RemoveFiles, RemovePartitions, WriterProgress
from lakelog.format.commit_facts import (
    Attempt,
    AttemptState,
    BucketChange,
    FileFacts,
    PlacedFile,
    RecordedResult,
    RemovedTotals,
    TableHead,
)
from lakelog.format.schema import TableSchema
from lakelog.format.snapshot import Snapshot
from lakelog.format.table import DatabaseInfo, TableInfo, TableName
from lakelog.format.work import LeaseGrant, Pipeline

T = TypeVar("T")

MAX_TRIES: Final = 10
"""Of one transaction that the database aborts. Locks are taken in one order, so that even two in a row are rare."""


class TransactionAborted(Unavailable):
    """The database gave the transaction up for the sake of another (a deadlock); nothing happened."""

    default_reason = "TRANSACTION_ABORTED"


@dataclass(frozen=True)
class TableRecord:
    """A table of the catalog with what only the metastore knows of it."""

    table_id: int
    info: TableInfo
    bucket_count: int


@dataclass(frozen=True)
class NewTable:
    """A table to be made; the store sets its number and time."""

    table_uuid: str
    name: TableName
    location: str
    schema: TableSchema
    options: Mapping[str, str]
    bucket_count: int
    comment: str


@dataclass(frozen=True)
class ResultKey:
    """What a commit to one table is known by."""

    table_uuid: str
    writer: str
    identifier: int


@dataclass(frozen=True)
class GroupKeys:
    """What a group of commits must know and lock; all distinct."""

    table_uuids: Sequence[str]
    results: Sequence[ResultKey]
    writers: Sequence[str]
    attempts: Sequence[str] = ()
    leases: Sequence[str] = ()


@dataclass(frozen=True)
class GroupFacts:
    """What is known for a group of commits. What does not exist is missing from the mappings.

    Args:
        now_ms: The store's time, read while the heads are locked.
        heads: By table uuid.
        results: Of those keys that were committed before.
        last_identifiers: The highest one committed, by table uuid and writer.
        epochs: By writer.
        attempts: By attempt id.
        leases: Epochs by lease name.
    """

    now_ms: int
    heads: dict[str, TableHead]
    results: dict[ResultKey, RecordedResult]
    last_identifiers: dict[tuple[str, str], int]
    epochs: dict[str, int]
    attempts: dict[str, Attempt]
    leases: dict[str, int]


@dataclass(frozen=True)
class NewResult:
    """The result of one change, to be kept for ever."""

    table_id: int
    writer: str
    identifier: int
    result: RecordedResult
    properties: Mapping[str, str]


@dataclass
class GroupRecords:
    """All that a group of commits writes, to be written at once."""

    heads: list[TableHead] = field(default_factory=list)
    snapshots: list[tuple[int, Snapshot]] = field(default_factory=list)
    files: list[tuple[int, PlacedFile]] = field(default_factory=list)
    results: list[NewResult] = field(default_factory=list)
    attempts: dict[str, AttemptState] = field(default_factory=dict)


@dataclass(frozen=True)
class FileQuery:
    """Which files of a table to load. All conditions must hold.

    Args:
        table_id: The table.
        live_at: Only files that are live at this snapshot; None: whether live or not.
        added_after: Only files that a later snapshot than this one added.
        added_until: Only files that this or an earlier snapshot added; None: no bound.
        removed_after: Only files that a later snapshot than this one removed; None: no such condition.
        removed_until: With `removed_after`: and that this or an earlier one removed.
        partitions: Only these, encoded; None: all.
        buckets: Only these; None: all.
        first_key: Only files whose bounds reach up to it; None: unbounded.
        last_key: Only files whose bounds reach down to it; None: unbounded.
        with_statistics: Load the column `statistics` as well.
    """

    table_id: int
    live_at: int | None = None
    added_after: int = 0
    added_until: int | None = None
    removed_after: int | None = None
    removed_until: int | None = None
    partitions: Collection[bytes] | None = None
    buckets: Collection[int] | None = None
    first_key: bytes | None = None
    last_key: bytes | None = None
    with_statistics: bool = False


@dataclass(frozen=True)
class Chunk:
    """A packed part of a table's file entries; immutable but for `without`.

    Args:
        chunk_id: Never used twice.
        order_after: The chunk holds files whose order snapshot is behind this one,
        order_until: up to and with this one.
        part: Place among the chunks of one range; together they are in the order of a plan.
        file_count: Entries in it.
        max_added: The highest `added_snapshot` of its entries.
        first_key: The lowest bound of its files; None: unbounded.
        last_key: The highest bound of its files; None: unbounded.
        without: Ids of files of its range that were removed since it was packed.
        size_bytes: Of the entries as stored.
    """

    chunk_id: int
    order_after: int
    order_until: int
    part: int
    file_count: int
    max_added: int
    first_key: bytes | None
    last_key: bytes | None
    without: tuple[int, ...]
    size_bytes: int


@dataclass(frozen=True)
class NewChunk:
    """A chunk to be stored; `entries` is an Arrow IPC stream with FILE_SCHEMA, `statistics` the files' as one too."""

    order_after: int
    order_until: int
    part: int
    file_count: int
    max_added: int
    first_key: bytes | None
    last_key: bytes | None
    entries: bytes
    statistics: bytes


@dataclass(frozen=True)
class Packed:
    """A table's chunks, in the order of a plan, and up to which snapshot they tell of everything."""

    packed_until: int
    chunks: tuple[Chunk, ...]


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

    async def delete_table(self, table_id: int) -> None:
        """Takes a table whose head is locked out of the catalog. What is known of its files stays, for collection."""
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
        """Locks the heads in table-id order, the writers, the attempts and the leases, then tells all about them."""
        ...

    async def find_files(self, table_id: int, file_ids: Sequence[int]) -> list[FileFacts]:
        """Those of the files that exist, live or not."""
        ...

    async def find_changes(self, table_id: int, after: int, buckets: Sequence[BucketRef]) -> list[BucketChange]:
        """Which snapshots behind `after`, compactions apart, brought or took data of the buckets."""
        ...

    async def list_partitions(self, table_id: int) -> list[bytes]:
        """Every partition that ever got a file, encoded, in rising order."""
        ...

    async def mark_removed(
        self, table_id: int, snapshot_id: int, removal: RemoveFiles | RemoveEverything | RemovePartitions
    ) -> RemovedTotals:
        """Lets live files be removed by a snapshot that this transaction will record."""
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

    async def raise_writer_epoch(self, writer: str) -> int:
        """Raises a writer's epoch by one, once no commit that saw the old one is running, and returns it."""
        ...

    async def find_progress(self, table_id: int, writer: str) -> WriterProgress:
        """What a writer has committed last to a table."""
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


class Transaction(CatalogTransaction, CommitTransaction, SnapshotTransaction, WorkTransaction, Protocol):
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
