"""Turns values of records into rows of the source, in columns. Runs on executors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.format.types.rowkind import RowKind
from lakelog.log.codecs import Changes, read_debezium_changes, read_debezium_keys
from lakelog.log.codecs.byte_columns import Mask
from lakelog.log.codecs.json.members import find_left_out
from lakelog.records.bad_records import BadRecord, Report
from lakelog.records.blocks import Block, Indices
from lakelog.records.json_records import read_json_block
from lakelog.records.source_rows import SourceRows, spread
from lakelog.records.text_options import TextOptions

from .debezium_faults import find_faults
from .header_kinds import KIND_COLUMN

_NO_KEY: Final = (
    "its delete has neither an old row nor a key with all columns of the table's primary key; have Debezium send one "
    "of them (REPLICA IDENTITY, message.key.columns)"
)
_BLANK: Final = r"\A[ \t\r\n]*\z"
_BLANKS: Final = " \t\r\n"
_KINDS: Final = pa.array([kind.text for kind in RowKind])


def read_json_values(
    values: pa.Array,
    offsets: Indices,
    options: TextOptions,
    types: Mapping[str, pa.DataType],
    ignore_unknown: bool,
    report: Report,
) -> Iterator[SourceRows]:
    """Reads values that each are one JSON object.

    Args:
        values: Binary.
        offsets: Of the records.
        options: How text is to be understood.
        types: The type of each field.
        ignore_unknown: Whether other fields are ignored; otherwise their record is bad.
        report: Called with records that are not JSON objects, or whose fields do not fit.
    """
    missing = np.asarray(pc.match_substring_regex(values, _BLANK).fill_null(True))
    for offset in offsets[missing]:
        report(BadRecord(int(offset), None, "it has no value (as a tombstone), so it says no row", b""))
    if missing.all():
        return
    present = values.filter(pa.array(~missing)) if missing.any() else values
    # Many producers end each record with a line end, as in a file.
    trimmed = pc.ascii_trim(present.cast(pa.string(), safe=False), characters=_BLANKS).cast(pa.binary())
    block = _to_block(trimmed, offsets[~missing])
    yield from read_json_block(block, options, types, ignore_unknown, report, no_object="it is not one JSON object")


def _to_block(values: pa.Array, offsets: Indices) -> Block:
    """Values as lines of a block; the line numbers are the records' offsets."""
    lines = pc.binary_join_element_wise(values, pa.scalar(b"\n", pa.binary()), pa.scalar(b"", pa.binary()))
    _, places, data = lines.buffers()
    ends = np.frombuffer(places, np.int32)[lines.offset : lines.offset + len(lines) + 1].astype(np.int64)
    return Block(data.to_pybytes(), ends[:-1], ends[1:] - 1, offsets)


def read_debezium_values(
    values: pa.Array,
    keys: pa.Array,
    offsets: Indices,
    schema: pa.Schema,
    *,
    key: pa.Schema,
    deletes: Mask,
    time_unit: str | None,
    with_old_rows: bool,
    report: Report,
) -> SourceRows | None:
    """Reads Debezium's messages: c and r insert, u updates, d deletes; tombstones after deletes are skipped.

    An update that changes the table's key deletes the old row and inserts the new one. If one of the two does not fit,
    the whole record is bad: it has both rows, and the table keeps the state before it. In a log of lakelog's own a
    tombstone may be the delete itself.

    Args:
        values: Binary.
        keys: Binary: identify the row of a delete without its old row.
        offsets: Of the records.
        schema: The columns, by their names in the source.
        key: The columns that are the table's primary key.
        deletes: Tombstones that delete the row of their key.
        time_unit: Of timestamps that are numbers without a schema.
        with_old_rows: Whether the table also takes the old row of an update, as `-U` before the `+U`.
        report: Called with records that are not such messages, or whose rows do not fit.

    Returns:
        The rows with `KIND_COLUMN`; None: there are none.
    """
    found = read_debezium_changes(values, schema, time_unit=time_unit)
    if deletes.any():
        found = replace(found, kinds=np.where(deletes, RowKind.DELETE, found.kinds).astype(np.int8))
    found = _take_keys(found, keys, key, time_unit)
    without_row = ~found.wrong & ~found.has_row & (found.kinds == RowKind.DELETE)
    if found.wrong.any():
        wrong = values.filter(pa.array(found.wrong))
        reported = zip(
            offsets[found.wrong].tolist(), wrong.to_pylist(), find_faults(wrong, schema, time_unit), strict=True
        )
        for offset, value, (column, reason) in reported:
            report(BadRecord(offset, column, reason, value))
    # A loop over bad records, of which there are few.
    for place in np.flatnonzero(without_row):
        report(BadRecord(int(offsets[place]), None, _NO_KEY, values[int(place)].as_py() or b""))
    moved, knows_old_key = _compare_keys(found, key)
    # An old row with an unknown key cannot be taken back.
    old = moved | (found.has_before & found.has_row & knows_old_key) if with_old_rows else moved
    records, is_old = _interleave(found.has_row, old)
    if not len(records):
        return None
    rows = found.rows
    places = records
    if found.before is not None and is_old.any():
        rows = pa.concat_tables([rows, found.before.select(rows.column_names)])
        places = records + is_old * len(values)
    taken = rows.take(pa.array(places)).combine_chunks()
    of_old = np.where(moved, RowKind.DELETE, RowKind.UPDATE_BEFORE)[records]
    of_new = np.where(moved, RowKind.INSERT, found.kinds)[records]
    kinds = np.where(is_old, of_old, of_new)
    columns = {name: _single(taken.column(name)) for name in taken.column_names}
    columns[KIND_COLUMN] = _KINDS.take(pa.array(kinds.astype(np.int64)))

    def find(names: Sequence[str], chosen: Mask) -> list[Mask]:
        # An old row may lack columns that its database did not log; a deleted row has all that are known.
        gone = chosen & (kinds == RowKind.DELETE)
        left_out = [np.zeros(len(chosen), bool) for _ in names]
        for rows, side in ((gone, "before"), (chosen & ~is_old & ~gone, "after")):
            found = find_left_out(values.take(pa.array(records[rows])), names, path=("payload", side))
            left_out = [mask | more for mask, more in zip(left_out, spread(rows, found), strict=True)]
        return left_out

    return SourceRows(
        columns, len(records), offsets[records], lambda row: values[int(records[row])].as_py() or b"", find
    )


def _take_keys(found: Changes, keys: pa.Array, schema: pa.Schema, time_unit: str | None) -> Changes:
    """Takes the rows of deletes without an old row from the keys of their records, if these are complete."""
    without_row = ~found.wrong & ~found.has_row & (found.kinds == RowKind.DELETE)
    if not len(schema) or not without_row.any():
        return found
    given = pc.if_else(pa.array(without_row), keys, pa.scalar(None, keys.type))
    rows, is_whole = read_debezium_keys(given, schema, time_unit=time_unit)
    is_known = without_row & is_whole
    table = found.rows
    for name in schema.names:
        place = table.schema.get_field_index(name)
        column = pc.if_else(pa.array(is_known), _single(rows.column(name)), _single(table.column(name)))
        table = table.set_column(place, table.schema.field(place), column)
    return replace(found, rows=table, has_row=found.has_row | is_known)


def _compare_keys(found: Changes, key: pa.Schema) -> tuple[Mask, Mask]:
    """The updates whose old row has another primary key, and those whose old row has all its columns. Pure.

    Debezium sends a change of the source's own key as a delete and an insert. But the table may have another key, and
    without a delete the old row would stay forever.
    """
    moved = np.zeros(len(found.has_row), np.bool_)
    if found.before is None:
        return moved, moved
    knows_key = np.ones(len(moved), np.bool_)
    for name in key.names:
        before = _single(found.before.column(name))
        moved |= np.asarray(pc.not_equal(before, _single(found.rows.column(name))).fill_null(False))
        knows_key &= np.asarray(before.is_valid())
    return moved & found.has_before & found.has_row, knows_key


def _interleave(
    has_row: npt.NDArray[np.bool_], has_old: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """For each row that is sent on: its record, and whether it is the old row, which comes first. Pure."""
    counts = has_row.astype(np.int64) + has_old
    records = np.repeat(np.arange(len(has_row)), counts)
    firsts = np.cumsum(counts) - counts
    is_old = np.zeros(len(records), np.bool_)
    is_old[firsts[has_old]] = True
    return records, is_old


def _single(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
