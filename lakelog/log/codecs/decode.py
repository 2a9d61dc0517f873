"""Records of a table's log as rows again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import DataCorrupted
from lakelog.format.types.rowkind import RowKind
from lakelog.log.codecs.byte_columns import Mask
from lakelog.log.codecs.changes import Changes, read_header_sequences
from lakelog.log.records import FetchedRecords

KeyReader = Callable[[pa.Array, pa.Schema], Changes]
"""Reads the columns of a schema that are in the key out of records' keys; NULL is NULL."""

_KINDS: Final = [kind.text.encode() for kind in RowKind]


@dataclass(frozen=True)
class DecodedRecords:
    """Rows out of records, one row a record, in the records' order.

    Args:
        rows: The columns asked for. Of a tombstone those of the key and of `sequence.field` have values, the others
            are NULL; so all columns may be NULL here, whatever the table's schema says.
        kinds: What each record does.
        is_tombstone: Whether the record had a key alone.
        before: The old rows that came with updates, all NULL where there was none; None: no record has one.
        has_before: Whether an old row came.
    """

    rows: pa.Table
    kinds: npt.NDArray[np.int8]
    is_tombstone: Mask
    before: pa.Table | None
    has_before: Mask

    def __len__(self) -> int:
        return len(self.kinds)


def join_records(
    records: FetchedRecords,
    changes: Changes,
    schema: pa.Schema,
    read_keys: KeyReader,
    *,
    topic: str,
    sequence_fields: Sequence[str],
) -> DecodedRecords:
    """Brings together what values, keys and headers say. Pure.

    Args:
        records: As they were read.
        changes: What their values say, in the columns of `schema`.
        schema: The columns asked for.
        read_keys: Reads keys.
        topic: For messages.
        sequence_fields: The table's `sequence.field`.

    Raises:
        DataCorrupted: A record cannot be read; names the topic, the partition and the offset.
    """
    _check_readable(records, changes.wrong, topic, "value")
    is_tombstone = ~changes.has_row
    rows = changes.rows
    if is_tombstone.any():
        rows = _fill_tombstones(records, rows, is_tombstone, read_keys, topic, sequence_fields)
    kinds = np.asarray(pc.index_in(records.kinds, value_set=pa.array(_KINDS, pa.binary())).fill_null(-1)).astype(
        np.int8
    )
    unsaid = kinds < 0
    _check_readable(records, unsaid & np.asarray(records.kinds.is_valid()), topic, "header 'kind'")
    kinds[unsaid] = np.where(is_tombstone, RowKind.DELETE, changes.kinds)[unsaid]
    return DecodedRecords(rows, kinds, is_tombstone, changes.before, changes.has_before)


def _fill_tombstones(
    records: FetchedRecords,
    rows: pa.Table,
    is_tombstone: Mask,
    read_keys: KeyReader,
    topic: str,
    sequence_fields: Sequence[str],
) -> pa.Table:
    mask = pa.array(is_tombstone)
    keys = pc.if_else(mask, records.keys, pa.scalar(None, records.keys.type))
    _check_readable(records, is_tombstone & np.asarray(keys.is_null()), topic, "key")
    schema = rows.schema
    found = read_keys(keys, schema)
    lost = np.zeros(len(records), dtype=np.bool_)
    for column in found.rows.columns:
        lost |= is_tombstone & np.asarray(column.is_null())
    _check_readable(records, found.wrong | lost, topic, "key")
    filled = dict(zip(found.rows.column_names, found.rows.columns, strict=True))
    if any(name in rows.column_names for name in sequence_fields):
        filled = _read_sequences(records, schema, mask, topic, sequence_fields) | filled
    columns = [
        pc.if_else(mask, filled[name], column) if name in filled else column
        for name, column in zip(rows.column_names, rows.columns, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=rows.schema)


def _read_sequences(
    records: FetchedRecords, schema: pa.Schema, mask: pa.Array, topic: str, sequence_fields: Sequence[str]
) -> dict[str, pa.Array]:
    types = [schema.field(name).type if name in schema.names else None for name in sequence_fields]
    columns, wrong = read_header_sequences(records.sequences, np.asarray(mask), types)
    _check_readable(records, wrong, topic, "header 'sequence'")
    return {name: column for name, column in zip(sequence_fields, columns, strict=True) if column is not None}


def _check_readable(records: FetchedRecords, wrong: Mask, topic: str, part: str) -> None:
    if not wrong.any():
        return
    first = int(np.flatnonzero(wrong)[0])
    partition, offset = int(records.partitions[first]), int(records.offsets[first])
    raise DataCorrupted(
        f"The {part} of the record at offset {offset} of partition {partition} of topic '{topic}' cannot be read as a "
        f"row of the table ({int(wrong.sum())} such records in this fetch). Someone else writes to the topic, or it "
        "holds records of another table or format.",
        reason="LOG_RECORD_DAMAGED",
        metadata={"topic": topic, "partition": str(partition), "offset": str(offset)},
    )
