"""Encoded partitions against the partition columns of their table.

An encoded partition is the concatenation of its columns' encoded values (`lakelog.format.keys.encoding`). Partitions
are checked once, when they enter a table, so that plans may split them without checks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import pyarrow as pa

from lakelog.errors import DataCorrupted
from lakelog.format.commit.facts import TableHead
from lakelog.format.commit.guards import count_places
from lakelog.format.commit.request import Change, RemovePartitions, RemovePartitionValues, TableGuard, count_items
from lakelog.format.keys.encoding import decode_partition, encode_partition
from lakelog.format.keys.partition_text import name_partition
from lakelog.format.keys.parts import split_key
from lakelog.format.types.schema import TableSchema

from ..heavy_work import WorkThreads
from ..store.transaction import Transaction
from ..store.validation import invalid

_MAX_TABLES: Final = 1000
_MAX_PARTITIONS: Final = 10_000
"""Of each cache; a full one is emptied, and fills again with what is in use."""


class PartitionRules:
    """Checks and matches encoded partitions, and checks what else of a change depends on the table's schema.

    It caches schemas, which never change, and partitions that passed the check.

    Args:
        threads: Where many partitions are checked and compared.
    """

    def __init__(self, threads: WorkThreads) -> None:
        self._threads = threads
        # By uuids: a database that was set back gives the numbers of lost tables again.
        self._schemas: dict[tuple[str, int], TableSchema] = {}
        self._checked: dict[tuple[str, bytes], None] = {}

    async def check_change(self, transaction: Transaction, head: TableHead, change: Change) -> None:
        """Checks every partition that a change names.

        Raises:
            InvalidArgument: A partition does not hold exactly the table's partition columns, or a column is not one of
                them.
        """
        named = await self._threads.run(count_items(change), _find_named, change)
        if isinstance(change.remove, RemovePartitionValues):
            _find_columns(head, await self._written_schema(transaction, head, change), change.remove.values)
        await self._check_named(transaction, head, named)

    async def check_guard(self, transaction: Transaction, head: TableHead, guard: TableGuard) -> None:
        """Checks every partition that a guard names: what no row can be in, would guard nothing.

        Raises:
            InvalidArgument: As of `check_change`.
        """
        if count := count_places(guard):
            await self._check_named(transaction, head, await self._threads.run(count, _find_guarded, guard))

    async def _check_named(self, transaction: Transaction, head: TableHead, named: Iterable[bytes]) -> None:
        unchecked = [partition for partition in named if (head.table_uuid, partition) not in self._checked]
        if not unchecked:
            return
        types = partition_types(await self._schema(transaction, head))
        await self._threads.run(len(unchecked), _check_partitions, unchecked, types, head.name)
        if len(self._checked) + len(unchecked) > _MAX_PARTITIONS:
            self._checked.clear()
        self._checked.update(((head.table_uuid, partition), None) for partition in unchecked)

    async def check_deletion_vectors(self, transaction: Transaction, head: TableHead, change: Change) -> None:
        """Checks that a change of a table without a primary key adds no file with deletes or with deletion vectors.

        Raises:
            InvalidArgument: It does.
        """
        path = next(
            (file.deletion_vector_path for file in change.add_files if file.deletion_vector_path is not None), None
        )
        deletes = next((file for file in change.add_files if file.delete_count), None)
        if deletes is not None and not await self.has_key(transaction, head):
            raise invalid(
                "delete_count",
                deletes.delete_count,
                f"{head.name} has no primary key, so '{deletes.path[:200]}' can hold no deletes. Remove rows by an "
                "OVERWRITE that names their positions.",
            )
        if path is not None and not await self.has_key(transaction, head):
            raise invalid(
                "deletion_vector_path",
                path,
                f"{head.name} has no primary key, so none of its rows supersedes another. Leave the path out.",
            )

    async def name_partition(self, transaction: Transaction, head: TableHead, partition: bytes) -> str:
        """A partition in readable form; empty in a table without partition columns."""
        return name_partition(await self._schema(transaction, head), partition) if head.partitioned else ""

    async def has_key(self, transaction: Transaction, head: TableHead) -> bool:
        """Whether the table has a primary key."""
        return bool((await self._schema(transaction, head)).primary_key)

    async def matching(
        self, transaction: Transaction, head: TableHead, known: Sequence[bytes], change: Change
    ) -> tuple[bytes, ...]:
        """The partitions that a change removes by the values of some of their columns.

        Args:
            transaction: Loads the schemas.
            head: The table's head.
            known: All partitions of the table.
            change: Its `remove` is `RemovePartitionValues`; it names columns as the version of its writer does.

        Raises:
            InvalidArgument: A column is not one of the partition columns.
        """
        assert isinstance(change.remove, RemovePartitionValues), "the caller has looked"
        values = change.remove.values
        written = await self._written_schema(transaction, head, change)
        wanted = list(zip(_find_columns(head, written, values), values.values(), strict=True))
        types = partition_types(await self._schema(transaction, head))
        return await self._threads.run(len(known), _match, known, types, wanted)

    async def _written_schema(self, transaction: Transaction, head: TableHead, change: Change) -> TableSchema:
        """The version that a change was written with, in whose names it speaks; the head's if there is none."""
        # SUBTLE: columns may have exchanged their names since, so the present names would be those of other partitions.
        # Which columns these are, their order and their encodings stay.
        if change.schema_id >= head.schema_id:
            return await self._schema(transaction, head)
        found = await transaction.find_schemas(head.table_id, [change.schema_id])
        return found.get(change.schema_id) or await self._schema(transaction, head)

    async def _schema(self, transaction: Transaction, head: TableHead) -> TableSchema:
        key = (head.table_uuid, head.schema_id)
        if key not in self._schemas:
            if len(self._schemas) >= _MAX_TABLES:
                self._schemas.clear()
            self._schemas[key] = (await transaction.find_schemas(head.table_id, [head.schema_id]))[head.schema_id]
        return self._schemas[key]


def _find_columns(head: TableHead, schema: TableSchema, columns: Iterable[str]) -> list[int]:
    """The indexes of some columns among the table's partition columns."""
    for column in columns:
        if column not in schema.partition_by:
            raise invalid(
                "remove.partition_values",
                column,
                f"{head.name} has the partition columns {', '.join(schema.partition_by)}; use those.",
            )
    return [schema.partition_by.index(column) for column in columns]


def partition_types(schema: TableSchema) -> tuple[pa.DataType, ...]:
    """Types of the partition columns in order."""
    return tuple(schema.arrow.field(name).type for name in schema.partition_by)


def _find_named(change: Change) -> set[bytes]:
    """Every partition that a change names."""
    named = {file.partition for file in change.add_files}
    named.update(file.partition for file in (*change.changelog_files, *change.log_files))
    named.update(ref.partition for ref in change.unchanged_buckets)
    if isinstance(change.remove, RemovePartitions):
        named.update(change.remove.partitions)
    return named


def _find_guarded(guard: TableGuard) -> set[bytes]:
    """Every partition that a guard names."""
    return {*guard.partitions, *(ref.partition for ref in guard.buckets)}


def _match(
    known: Sequence[bytes], types: Sequence[pa.DataType], wanted: Sequence[tuple[int, bytes]]
) -> tuple[bytes, ...]:
    """The partitions that have these encoded values in the columns at these indexes."""
    matches = []
    for partition in known:
        parts = split_key(partition, types)
        if all(parts[place] == value for place, value in wanted):
            matches.append(partition)
    return tuple(matches)


def _check_partitions(partitions: Sequence[bytes], types: Sequence[pa.DataType], table: str) -> None:
    for partition in partitions:
        check_partition(partition, types, table)


def check_partition(partition: bytes, types: Sequence[pa.DataType], table: str) -> None:
    """Check that a partition holds exactly one encoded value for each partition column.

    Raises:
        InvalidArgument: It holds more, fewer or other bytes; also for bytes that only look like an encoding, since the
            same values must always be the same partition.
    """
    try:
        values = decode_partition(partition, types)
        if encode_partition(values) != partition:
            raise DataCorrupted("other bytes stand for the same values.")
    except DataCorrupted as error:
        raise invalid(
            "partition",
            partition,
            f"{table} has {len(types)} partition columns ({', '.join(map(str, types))}), and this is no encoding of "
            f"their values: {error.message}",
        ) from error
