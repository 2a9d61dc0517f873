"""A table's schema: Arrow fields with ids that are never used twice, the primary key and the partition columns.

Field ids are in Arrow field metadata under `PARQUET:field_id`, the key that Parquet writers and readers use as well, so
one schema object serves the wire, the files and memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import pyarrow as pa

FIELD_ID_KEY: Final = b"PARQUET:field_id"

_KEPT: Final = (b"comment", b"write-default")


@dataclass(frozen=True)
class TableSchema:
    """One version of a table's schema.

    Args:
        schema_id: Counts from 0 in each table.
        arrow: The columns in order, canonical types only (`lakelog.format.types.types`), each field with its id.
        primary_key: Names of the key's columns in order; empty for an append table.
        partition_by: Names of the partition columns in order; empty for none.
        created_at_ms: When this version was made, by the database's clock; None: no metastore has stored it, or its
            metastore did not store such times yet. Versions with the same columns are equal whenever they were made.
        created_by: The caller that made it; empty: the metastore identified no callers, or did not store their names.
    """

    schema_id: int
    arrow: pa.Schema
    primary_key: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    created_at_ms: int | None = field(default=None, compare=False)
    created_by: str = field(default="", compare=False)

    @cached_property
    def trimmed_key(self) -> tuple[str, ...]:
        """The primary key without partition columns, in the key's order: what distinguishes rows inside a partition."""
        return tuple(name for name in self.primary_key if name not in self.partition_by)

    @cached_property
    def field_ids(self) -> dict[str, int]:
        """Ids of the top-level columns by name."""
        return {field.name: field_id(field) for field in self.arrow}

    @cached_property
    def digest(self) -> str:
        """Distinguishes columns for caches: a database that was set back gives the ids of lost versions again."""
        return hashlib.sha256(self.to_ipc()).hexdigest()[:16]

    def to_ipc(self) -> bytes:
        """The Arrow schema in IPC format."""
        return self.arrow.serialize().to_pybytes()

    @staticmethod
    def from_ipc(
        schema_id: int, ipc: bytes, primary_key: tuple[str, ...], partition_by: tuple[str, ...]
    ) -> TableSchema:
        """Builds a schema from its wire form.

        Raises:
            pa.ArrowInvalid: `ipc` is not an Arrow IPC schema.
        """
        return TableSchema(schema_id, pa.ipc.read_schema(pa.py_buffer(ipc)), primary_key, partition_by)


def field_id(field: pa.Field) -> int:
    """The id of a field.

    Raises:
        KeyError: The field has none; only fields of a `TableSchema` have ids.
    """
    metadata = field.metadata or {}
    return int(metadata[FIELD_ID_KEY])


def assign_field_ids(schema: pa.Schema, first_id: int = 1) -> pa.Schema:
    """Gives every field, nested ones too, the next id, depth first.

    Args:
        schema: Any Arrow schema; of its metadata comments and defaults are kept.
        first_id: The id of the first field; one more than the highest that the table ever used.

    Returns:
        The same fields with ids in their metadata.
    """
    counter = iter(range(first_id, 2**31 - 1))
    return pa.schema([_with_id(field, counter) for field in schema])


def _with_id(field: pa.Field, counter: Iterator[int]) -> pa.Field:
    metadata = {FIELD_ID_KEY: str(next(counter)).encode()}
    for key in _KEPT:
        if (text := (field.metadata or {}).get(key)) is not None:
            metadata[key] = text
    return pa.field(field.name, _type_with_ids(field.type, counter), field.nullable, metadata)


def _type_with_ids(type_: pa.DataType, counter: Iterator[int]) -> pa.DataType:
    if pa.types.is_struct(type_):
        return pa.struct([_with_id(type_.field(i), counter) for i in range(type_.num_fields)])
    if pa.types.is_map(type_):
        return pa.map_(_with_id(type_.key_field, counter), _with_id(type_.item_field, counter))
    if pa.types.is_list(type_):
        return pa.list_(_with_id(type_.value_field, counter))
    return type_
