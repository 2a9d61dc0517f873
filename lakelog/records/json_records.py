"""Records of JSON, an object a line or an object a record of a topic.

Arrow's parser reads them straight into the table's types. What it does not know (bytes, maps, times inside of others)
or refuses (a number as text, for instance) is read by the codecs' scan, which knows which record is wrong. Both are
without a loop over records; only bad ones are looked at one by one, for the reason.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from lakelog.format.types.sql_types import to_sql_type
from lakelog.log.codecs.byte_columns import Mask, take_spans
from lakelog.log.codecs.json.blocks import can_read, read_lines
from lakelog.log.codecs.json.dense import TOO_DENSE
from lakelog.log.codecs.json.members import find_left_out
from lakelog.records.bad_records import EXPLAINED_BYTES, BadRecord, Report, to_printable
from lakelog.records.blocks import Block, ByteStream, Indices, read_blocks
from lakelog.records.json_scan import scan_records
from lakelog.records.source_rows import SourceRows, spread
from lakelog.records.text_options import TextOptions

_OPEN: Final = ord("{")
_CLOSE: Final = ord("}")
_BLANKS: Final = b" \t"
_SCANNED_AT_ONCE: Final = 1024
"""Fewer records are not halved further to find those that Arrow refuses: a scan of them costs as little."""
_LONGEST_SHOWN: Final = 100
_MOST_NAMES: Final = 30
NO_COLUMN: Final = "the table has no column for its field"
_NOT_UTF8: Final = "it is not valid UTF-8 text"


def read_json(
    stream: ByteStream, options: TextOptions, types: Mapping[str, pa.DataType], ignore_unknown: bool, report: Report
) -> Iterator[SourceRows]:
    """Reads the records of a file of JSON lines. Runs on executors.

    Args:
        stream: UTF-8 text.
        options: How it is written.
        types: By field of the source: as what it is read. What Arrow does not read as such comes as text.
        ignore_unknown: Whether other fields are passed over; else their record is bad.
        report: Called with records that are no JSON objects, or whose fields do not fit.

    Yields:
        Rows in the order of the file.

    Raises:
        FileRefused: A record is longer than allowed.
    """
    for block in read_blocks(stream, options, quote=None):
        yield from read_json_block(block, options, types, ignore_unknown, report)


def read_json_block(
    block: Block,
    options: TextOptions,
    types: Mapping[str, pa.DataType],
    ignore_unknown: bool,
    report: Report,
    *,
    no_object: str = 'it is not one JSON object in one line, such as {"id": 1}',
) -> Iterator[SourceRows]:
    """Reads the records of a block, as `read_json`; `no_object` is the reason of those that are none."""
    plain = pa.schema([(name, pa.string() if pt.is_temporal(type_) else type_) for name, type_ in types.items()])
    is_readable = can_read(plain)
    stack = [_objects(block, report, no_object)]
    while stack:
        part = stack.pop()
        if not len(part):
            continue
        table = (
            read_lines(block.join(part), plain, ignore_unknown=ignore_unknown, needs_zone=True) if is_readable else None
        )
        if table is not None and len(table) == len(part):
            yield _rows(block, part, {name: table.column(name).chunk(0) for name in types})
        elif is_readable and len(part) > _SCANNED_AT_ONCE:
            stack += [part[len(part) // 2 :], part[: len(part) // 2]]
        else:
            yield from _scan(block, part, options, types, ignore_unknown, report)


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


def _scan(
    block: Block,
    records: Indices,
    options: TextOptions,
    types: Mapping[str, pa.DataType],
    ignore_unknown: bool,
    report: Report,
) -> Iterator[SourceRows]:
    found = scan_records(_take(block, records), options, types, ignore_unknown=ignore_unknown)
    # Loops over bad records, of which there are few.
    for place in np.flatnonzero(found.damaged):
        record = int(records[place])
        report(_to_bad(block, record, None, _explain(block.raw(record), types, ignore_unknown)))
    bad = found.damaged
    for name, wrong in found.wrong.items():
        for place in np.flatnonzero(wrong & ~bad):
            record = int(records[place])
            report(_to_bad(block, record, name, _explain_value(block.raw(record), name, types[name])))
        bad = bad | wrong
    if not bad.all():
        fine = pa.array(~bad)
        yield _rows(block, records[~bad], {name: column.filter(fine) for name, column in found.columns.items()})


def _to_bad(block: Block, record: int, column: str | None, reason: str) -> BadRecord:
    return BadRecord(int(block.lines[record]), column, to_printable(reason), block.raw(record))


def _explain(raw: bytes, types: Mapping[str, pa.DataType], ignore_unknown: bool) -> str:
    """Why a record cannot be read."""
    if len(raw) > EXPLAINED_BYTES:
        return f"it is not JSON, has a field that the table does not have, or {TOO_DENSE}"
    try:
        fields = json.loads(raw, object_pairs_hook=_unique, strict=False)
    except UnicodeDecodeError:
        return _NOT_UTF8
    except (ValueError, RecursionError) as error:
        return f"it is not JSON: {error}"[:300]
    unknown = [name for name in fields if name not in types]
    if unknown and not ignore_unknown:
        known = ", ".join(list(types)[:_MOST_NAMES])
        return f"{NO_COLUMN} '{unknown[0][:_LONGEST_SHOWN]}'; it has {known}"
    return f"it is not JSON: it is nested too deeply, {TOO_DENSE}, or a text in it is no valid Unicode"


def _explain_value(raw: bytes, name: str, type_: pa.DataType) -> str:
    """Why a record's field is no value of its type."""
    if len(raw) > EXPLAINED_BYTES:
        return f"column '{name}' has a value in a record of {len(raw)} bytes, but needs {_needed(type_)}"
    try:
        shown = _show(json.loads(raw, strict=False).get(name))
    except UnicodeDecodeError:
        return _NOT_UTF8
    except (ValueError, RecursionError):
        shown = "a value that cannot be shown"
    return f"column '{name}' has {shown}, but needs {_needed(type_)}"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        doubled = next(name for name, count in counts.items() if count > 1)
        raise ValueError(f"the field '{doubled[:_LONGEST_SHOWN]}' stands there twice")
    return fields


def _show(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "..."


def _needed(type_: pa.DataType) -> str:
    name = to_sql_type(type_)
    name = name if len(name) <= _LONGEST_SHOWN else name[:_LONGEST_SHOWN] + "..."
    kinds: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
        (pt.is_string, "a text of valid Unicode"),
        (pt.is_boolean, "true or false"),
        (pt.is_binary, "bytes in base64"),
        (pt.is_struct, "an object"),
        (pt.is_map, "an object, or a list of [key, value],"),
        (pt.is_list, "a list"),
    )
    return f"{next((words for is_kind, words in kinds if is_kind(type_)), 'a single value')} ({name})"


def _take(block: Block, records: Indices) -> pa.Array:
    starts = block.starts[records]
    return take_spans(np.frombuffer(block.data, np.uint8), starts, block.ends[records] - starts)


def _rows(block: Block, records: Indices, columns: dict[str, pa.Array]) -> SourceRows:
    def find(names: Sequence[str], rows: Mask) -> list[Mask]:
        return spread(rows, find_left_out(_take(block, records[rows]), names))

    return SourceRows(columns, len(records), block.lines[records], lambda row: block.raw(int(records[row])), find)
