"""Changes out of the values of records: rows, kinds and old rows, one a record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.format.types.rowkind import RowKind
from lakelog.log.codecs.avro.connect_types import PLAIN, ConnectType, read_connect_column, read_connect_types
from lakelog.log.codecs.avro.read import read_avro
from lakelog.log.codecs.byte_columns import Mask, take_spans
from lakelog.log.codecs.json.blocks import read_objects
from lakelog.log.codecs.json.scan import scan_json
from lakelog.log.codecs.json.values import ARRAY, NOTHING, OBJECT, Values, read_column

_NO_OBJECT: Final = b"{}"
_OPS: Final = ["c", "r", "u", "d"]
_OP_KINDS: Final = np.array(
    [RowKind.INSERT, RowKind.INSERT, RowKind.UPDATE_AFTER, RowKind.DELETE, RowKind.INSERT], dtype=np.int8
)
"""By the place of the op; the last one of what is none."""


@dataclass(frozen=True)
class Changes:
    """What records say, one row a record.

    Args:
        rows: Of a delete the row that was deleted; NULL in all columns where the record has none.
        kinds: What each record does; of records of which only the header tells it, `+I`.
        has_row: Whether the record says a row at all: tombstones do not, nor do wrong ones.
        before: The old rows of updates, NULL where there is none; None: no record has any.
        has_before: Whether there is an old row.
        wrong: Whether the record cannot be read; its row says nothing then.
    """

    rows: pa.Table
    kinds: npt.NDArray[np.int8]
    has_row: Mask
    before: pa.Table | None
    has_before: Mask
    wrong: Mask


def read_json_rows(values: pa.Array, schema: pa.Schema) -> Changes:
    """Rows that are JSON objects of their own. Pure.

    Args:
        values: Binary; NULL is a tombstone.
        schema: The columns; others are passed over, missing ones are NULL.
    """
    none = np.zeros(len(values), dtype=np.bool_)
    kinds = np.zeros(len(values), dtype=np.int8)
    quick = read_objects(values.fill_null(_NO_OBJECT), schema)
    if quick is not None:
        return Changes(quick, kinds, np.asarray(values.is_valid()), None, none, none)
    roots = Values.of_roots(scan_json(values, is_bounded=False))
    roots.refuse(((roots.kinds != OBJECT) & (roots.kinds != NOTHING)) | _is_bare_null(roots, values))
    rows = _read_rows(roots, schema, None)
    return Changes(rows, kinds, (roots.kinds == OBJECT) & ~roots.wrong, None, none, roots.wrong)


def read_avro_rows(values: pa.Array, fields: Sequence[pa.Field], schema: pa.Schema) -> Changes:
    """Rows that are Avro records. Pure.

    Args:
        values: Binary; NULL is a tombstone.
        fields: All columns that were written, in their order.
        schema: The columns that are wanted.
    """
    there = np.asarray(values.is_valid())
    columns, wrong_there = read_avro(values.filter(pa.array(there)), fields)
    wrong = np.zeros(len(values), dtype=np.bool_)
    wrong[there] = wrong_there
    by_name = {field.name: column for field, column in zip(fields, columns, strict=True)}
    places = None if there.all() else pa.array(np.cumsum(there) - 1, mask=~there)
    wanted = [by_name[name] if places is None else by_name[name].take(places) for name in schema.names]
    nullable = pa.schema([field.with_nullable(True) for field in schema])
    kinds, none = np.zeros(len(values), dtype=np.int8), np.zeros(len(values), dtype=np.bool_)
    return Changes(pa.Table.from_arrays(wanted, schema=nullable), kinds, there & ~wrong, None, none, wrong)


def read_header_sequences(
    headers: pa.Array, mask: Mask, types: Sequence[pa.DataType | None]
) -> tuple[list[pa.Array | None], Mask]:
    """The values of sequence fields that stand in the header `sequence`: of one field its value, of several an array.

    Pure.

    Args:
        headers: Binary; a value that is NULL is `null` there.
        mask: Of which records they are read; the others have NULL.
        types: Of each field; None: it is not read.

    Returns:
        As of `read_json_arrays`.
    """
    texts = pc.if_else(pa.array(mask), headers, pa.scalar(None, headers.type))
    if len(types) == 1:
        texts = pc.binary_join_element_wise(b"[", texts, b"]", b"")
    return read_json_arrays(texts, types)


def read_json_arrays(values: pa.Array, types: Sequence[pa.DataType | None]) -> tuple[list[pa.Array | None], Mask]:
    """Rows that are JSON arrays, as columns; pure.

    Args:
        values: Binary; NULL is NULL in all columns.
        types: Of each element; None: it is not read.

    Returns:
        A column for each type, and which values are no such arrays.
    """
    roots = Values.of_roots(scan_json(values))
    is_array = roots.kinds == ARRAY
    roots.refuse(~is_array & np.asarray(values.is_valid()))
    arrays = np.flatnonzero(is_array)
    counts, elements = roots.scan.list_elements(roots.holders[arrays] + 1)
    fits = counts == len(types)
    roots.refuse(arrays[~fits])
    elements = elements[np.repeat(fits, counts)].reshape(-1, len(types))
    columns: list[pa.Array | None] = []
    for place, data_type in enumerate(types):
        holders = np.full(len(values), -1, dtype=np.int64)
        holders[arrays[fits]] = elements[:, place]
        found = Values.of(roots.scan, roots.wrong, holders, roots.texts)
        columns.append(None if data_type is None else read_column(found, data_type))
    return columns, roots.wrong


def read_debezium_changes(
    values: pa.Array, schema: pa.Schema, *, time_unit: str | None = None, is_bounded: bool = True
) -> Changes:
    """Messages of Debezium, with and without a schema around them. Pure.

    Args:
        values: Binary; NULL is a tombstone, and so is `null`.
        schema: The columns; others are passed over, missing ones are NULL.
        time_unit: Of timestamps that are numbers in messages without a schema, `ms`, `us` or `ns`; None: such a number
            makes its message wrong.
        is_bounded: As of `scan_json`.
    """
    quick = _read_debezium_quickly(values, schema)
    if quick is not None:
        return quick
    roots = Values.of_roots(scan_json(values, is_bounded=is_bounded))
    roots.refuse((roots.kinds != OBJECT) & (roots.kinds != NOTHING))
    before, after, op, payload, said = roots.find_members(["before", "after", "op", "payload", "schema"])
    inside = (payload.kinds == OBJECT) & (op.kinds == NOTHING)
    if inside.any():
        inner = payload.find_members(["before", "after", "op"])
        before, after, op = (
            _choose(inside, there, here) for there, here in zip(inner, (before, after, op), strict=True)
        )
    places = np.asarray(pc.index_in(op.read_texts(), value_set=pa.array(_OPS)).fill_null(len(_OPS)))
    is_tombstone = (roots.kinds == NOTHING) | ((payload.kinds == NOTHING) & (payload.holders >= 0))
    kinds = _OP_KINDS[places]
    is_delete = kinds == RowKind.DELETE
    row = _choose(is_delete, before, after)
    old = _choose(kinds == RowKind.UPDATE_AFTER, before, None)
    # A delete without its old row says which one by the record's key.
    roots.refuse(~is_tombstone & ((places == len(_OPS)) | ((row.kinds != OBJECT) & ~is_delete)))
    for value in (row, old):
        value.refuse((value.kinds != OBJECT) & (value.kinds != NOTHING))
    encodings = _find_encodings(said, time_unit)
    rows = _read_rows(row, schema, encodings)
    has_before = (old.kinds == OBJECT) & ~roots.wrong
    olds = _read_rows(old, schema, encodings) if has_before.any() else None
    return Changes(rows, kinds, (row.kinds == OBJECT) & ~roots.wrong, olds, has_before & ~roots.wrong, roots.wrong)


def find_debezium_schemas(values: pa.Array) -> pa.DictionaryArray:
    """The schemas that stand around rows in messages of Debezium; NULL where a message has none. Pure.

    Args:
        values: Binary.
    """
    (said,) = Values.of_roots(scan_json(values)).find_members(["schema"])
    return _take_schemas(said, said.kinds == OBJECT)


def read_debezium_keys(keys: pa.Array, schema: pa.Schema, *, time_unit: str | None = None) -> tuple[pa.Table, Mask]:
    """Keys of Debezium's records, with and without a schema around them. Pure.

    Args:
        keys: Binary; NULL is none.
        schema: The columns of the key.
        time_unit: As of `read_debezium_changes`.

    Returns:
        The columns, and which keys have a value of each; the others are NULL, or say nothing.
    """
    roots = Values.of_roots(scan_json(keys))
    payload, said = roots.find_members(["payload", "schema"])
    inside = (payload.kinds == OBJECT) & (said.kinds == OBJECT)
    row = _choose(inside, payload, roots)
    rows = _read_rows(row, schema, _find_encodings(said, time_unit))
    is_whole = (row.kinds == OBJECT) & ~roots.wrong
    for column in rows.columns:
        is_whole &= np.asarray(column.is_valid())
    return rows, is_whole


def _read_debezium_quickly(values: pa.Array, schema: pa.Schema) -> Changes | None:
    """Messages without a schema around them, in which nothing is unusual; None: there are others."""
    row = pa.struct([field.with_nullable(True) for field in schema])
    message = pa.schema([("before", row), ("after", row), ("op", pa.string())])
    found = read_objects(values.fill_null(_NO_OBJECT), message)
    if found is None:
        return None
    is_message = np.asarray(values.is_valid())
    before, after, ops = (column.chunk(0) for column in found.columns)
    places = np.asarray(pc.index_in(ops, value_set=pa.array(_OPS)).fill_null(len(_OPS)))
    kinds = _OP_KINDS[places]
    is_delete = kinds == RowKind.DELETE
    if (is_message & ((places == len(_OPS)) | (~is_delete & np.asarray(after.is_null())))).any():
        return None
    is_old = (kinds == RowKind.UPDATE_AFTER) & np.asarray(before.is_valid())
    rows = pc.if_else(pa.array(is_delete), before, after) if is_delete.any() else after
    olds = _to_table(pc.if_else(pa.array(is_old), before, pa.scalar(None, row)), schema) if is_old.any() else None
    none = np.zeros(len(values), dtype=np.bool_)
    return Changes(_to_table(rows, schema), kinds, np.asarray(rows.is_valid()), olds, is_old, none)


def _to_table(rows: pa.StructArray, schema: pa.Schema) -> pa.Table:
    return pa.Table.from_arrays(rows.flatten(), schema=pa.schema([field.with_nullable(True) for field in schema]))


@dataclass(frozen=True)
class _Encodings:
    """How columns are encoded in each record.

    Args:
        of_schemas: By the schemas that stand around rows: the columns that are encoded in a way of their own.
        schemas: The schema of each record; None: there is one, of all.
        unsaid: The encoding of all columns of records without a schema, which count as the last schema.
    """

    of_schemas: Sequence[Mapping[str, ConnectType]]
    schemas: npt.NDArray[np.int64] | None
    unsaid: ConnectType

    def read(self, values: Values, field: pa.Field) -> pa.Array:
        """The values of a column, by its encodings: of these there are few, but there may be a schema a record."""
        of_schemas = [types.get(field.name, PLAIN) for types in self.of_schemas] + [self.unsaid]
        if self.schemas is None:
            return read_connect_column(values, field.type, of_schemas[0])
        numbers = {encoding: number for number, encoding in enumerate(dict.fromkeys(of_schemas))}
        of_records = np.array([numbers[encoding] for encoding in of_schemas])[self.schemas]
        slots = [np.flatnonzero(of_records == number) for number in range(len(numbers))]
        parts = [
            read_connect_column(values.fill(chosen), field.type, encoding)
            for chosen, encoding in zip(slots, numbers, strict=True)
        ]
        return pa.concat_arrays(parts).take(pa.array(np.argsort(np.concatenate(slots))))


def _is_bare_null(roots: Values, values: pa.Array) -> Mask:
    """The word `null` is no row, and no tombstone either."""
    return (roots.kinds == NOTHING) & ~roots.scan.damaged & np.asarray(values.is_valid())


def _choose(mask: Mask, there: Values, here: Values | None) -> Values:
    holders = np.where(mask, there.holders, -1 if here is None else here.holders)
    kinds = np.where(mask, there.kinds, NOTHING if here is None else here.kinds).astype(np.int8)
    return Values(there.scan, there.wrong, holders, kinds, there.texts)


def _find_encodings(said: Values, time_unit: str | None) -> _Encodings:
    unsaid = ConnectType(time_unit)
    is_said = said.kinds == OBJECT
    if not is_said.any():
        return _Encodings([], None, unsaid)
    encoded = _take_schemas(said, is_said)
    types = [read_connect_types(text.as_py()) for text in encoded.dictionary]
    if len(types) == 1 and is_said.all():
        return _Encodings(types, None, unsaid)
    return _Encodings(types, np.asarray(encoded.indices.fill_null(len(types)), dtype=np.int64), unsaid)


def _take_schemas(said: Values, is_said: Mask) -> pa.DictionaryArray:
    """The schema of each message, NULL where there is none."""
    opens = np.where(is_said, said.holders + 1, 0)
    scan = said.scan
    starts = scan.starts[opens]
    lengths = np.where(is_said, scan.ends[scan.partners[opens]] - starts, 0)
    # A topic has few schemas, and a message's schema is larger than its rows: each is read once.
    return take_spans(scan.data, starts, lengths, is_said).dictionary_encode()


def _read_rows(values: Values, schema: pa.Schema, encodings: _Encodings | None) -> pa.Table:
    """The rows; with encodings, of Debezium."""
    columns = [
        read_column(found, field.type) if encodings is None else encodings.read(found, field)
        for found, field in zip(values.find_members(schema.names), schema, strict=True)
    ]
    nullable = pa.schema([field.with_nullable(True) for field in schema])
    return pa.Table.from_arrays(columns, schema=nullable)
