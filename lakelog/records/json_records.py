"""Records of JSON files, an object a line.

Arrow's parser reads a block straight into the table's types. Records that it refuses are looked at one by one: what
fits after all (a number as text, for instance) is kept, the others get a reason that names the field.
"""

from __future__ import annotations

import decimal
import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.json as pa_json

from lakelog.log.codecs.byte_columns import Mask, take_spans
from lakelog.log.codecs.json.members import find_left_out
from lakelog.records.bad_records import BadRecord, Report
from lakelog.records.blocks import Block, ByteStream, Indices, read_blocks
from lakelog.records.source_rows import ParsedRecords, SourceRows, parse_records, spread
from lakelog.records.text_options import TextOptions

_OPEN: Final = ord("{")
_CLOSE: Final = ord("}")
_BLANKS: Final = b" \t"


def read_json(
    stream: ByteStream, options: TextOptions, types: Mapping[str, pa.DataType], ignore_unknown: bool, report: Report
) -> Iterator[SourceRows]:
    """Reads the records of a file of JSON lines. Runs on executors.

    Args:
        stream: UTF-8 text.
        options: How it is written.
        types: By field of the source: as what it is read; string for what is parsed later.
        ignore_unknown: Whether other fields are passed over; else their record is bad.
        report: Told of records that are no JSON objects, or whose fields do not fit.

    Yields:
        Rows in the order of the file.

    Raises:
        FileRefused: A record is longer than allowed.
    """
    for block in read_blocks(stream, quote=None, max_record_bytes=options.max_record_bytes):
        yield from read_json_block(block, types, ignore_unknown, report)


def read_json_block(
    block: Block,
    types: Mapping[str, pa.DataType],
    ignore_unknown: bool,
    report: Report,
    *,
    no_object: str = "it is not one JSON object in one line",
) -> Iterator[SourceRows]:
    """Reads the records of a block, as `read_json`; `no_object` is the reason of those that are none."""
    schema = pa.schema(list(types.items()))
    records = _objects(block, report, no_object)
    parse = functools.partial(_parse, block, schema, ignore_unknown)
    for part in parse_records(block, records, parse):
        if part.bad:
            record = part.bad[0][0]
            rows = _read_single(block, record, types, ignore_unknown, report)
            if rows is not None:
                yield rows
        elif part.table.num_rows:
            columns = {name: _single(part.table.column(name)) for name in types}
            yield _rows(block, part.records, columns)


def _objects(block: Block, report: Report, no_object: str) -> Indices:
    """The records that look like one object, so that none can run on into the next line; empty lines are left out."""
    octets = np.frombuffer(block.data, np.uint8)
    starts, ends = block.starts, block.ends
    full = ends > starts
    looks_right = full & (octets[starts] == _OPEN) & (octets[np.maximum(ends - 1, 0)] == _CLOSE)
    for record in np.flatnonzero(full & ~looks_right):
        raw = block.raw(int(record))
        text = raw.strip(_BLANKS + b"\r")
        if not text:
            continue
        if text[0] == _OPEN and text[-1] == _CLOSE:
            looks_right[record] = True
            continue
        report(BadRecord(int(block.lines[record]), None, no_object, raw))
    return np.flatnonzero(looks_right).astype(np.int64)


def _parse(block: Block, schema: pa.Schema, ignore_unknown: bool, records: Indices) -> ParsedRecords:
    data = block.join(records)
    table = pa_json.read_json(
        pa.BufferReader(data),
        read_options=pa_json.ReadOptions(use_threads=False, block_size=len(data) + 1),
        parse_options=pa_json.ParseOptions(
            explicit_schema=schema, unexpected_field_behavior="ignore" if ignore_unknown else "error"
        ),
    )
    return ParsedRecords(table, records)


def _read_single(
    block: Block, record: int, types: Mapping[str, pa.DataType], ignore_unknown: bool, report: Report
) -> SourceRows | None:
    """Reads a record that Arrow refused, by Python's parser."""
    raw, line = block.raw(record), int(block.lines[record])
    try:
        fields = json.loads(raw, parse_float=decimal.Decimal, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        reason = "it is not valid UTF-8 text" if isinstance(error, UnicodeDecodeError) else f"it is not JSON: {error}"
        report(BadRecord(line, None, reason[:300], raw))
        return None
    unknown = [name for name in fields if name not in types]
    if unknown and not ignore_unknown:
        report(BadRecord(line, None, f"the table has no column for its field '{unknown[0][:100]}'", raw))
        return None
    columns: dict[str, pa.Array] = {}
    for name, type_ in types.items():
        value = fields.get(name)
        try:
            columns[name] = _to_array(value, type_)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            wanted = "is no text" if pa.types.is_string(type_) else f"does not fit {type_}"
            reason = f"its field '{name}' holds {json.dumps(value, default=str)[:100]}, which {wanted}"
            report(BadRecord(line, name, reason, raw))
            return None
    return _rows(block, np.array([record], np.int64), columns)


def _to_array(value: Any, type_: pa.DataType) -> pa.Array:
    """One value; text where the type is a number, so that fitting parses it as it does in CSV files."""
    if value is None:
        return pa.nulls(1, type_)
    if pa.types.is_nested(type_):
        return pa.array([_plain(value, type_)], type_)
    if isinstance(value, str):
        return pa.array([value], pa.string())
    if isinstance(value, bool):
        if not pa.types.is_boolean(type_):
            raise TypeError
        return pa.array([value])
    if isinstance(value, int | decimal.Decimal) and not pa.types.is_string(type_) and not pa.types.is_boolean(type_):
        return pa.array([str(value)], pa.string())
    raise TypeError


def _plain(value: Any, type_: pa.DataType) -> Any:
    """A nested value as Arrow takes it without bending it: it would make a list of a text's letters, for instance."""
    if value is None:
        return None
    if pa.types.is_struct(type_):
        if not isinstance(value, dict) or any(type_.get_field_index(name) < 0 for name in value):
            raise TypeError
        fields = [type_.field(place) for place in range(type_.num_fields)]
        return {field.name: _plain(value.get(field.name), field.type) for field in fields}
    if pa.types.is_list(type_):
        if not isinstance(value, list):
            raise TypeError
        return [_plain(item, type_.value_type) for item in value]
    return float(value) if isinstance(value, decimal.Decimal) and pa.types.is_floating(type_) else value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(
            f"the field '{next(name for name in names if names.count(name) > 1)[:100]}' stands there twice"
        )
    return fields


def _rows(block: Block, records: Indices, columns: dict[str, pa.Array]) -> SourceRows:
    def find(names: Sequence[str], rows: Mask) -> list[Mask]:
        chosen = records[rows]
        texts = take_spans(
            np.frombuffer(block.data, np.uint8), block.starts[chosen], block.ends[chosen] - block.starts[chosen]
        )
        return spread(rows, find_left_out(texts, names))

    return SourceRows(columns, len(records), block.lines[records], lambda row: block.raw(int(records[row])), find)


def _single(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
