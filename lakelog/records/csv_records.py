"""Records of CSV files. Arrow's parser makes strings of a block at once; fitting them to the table comes later."""

from __future__ import annotations

import csv
import io
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
from pyarrow import types as pt

from lakelog.format.types.decimal_text import has_shrinking_exponents
from lakelog.records.bad_records import BadRecord, FileRefused, Report
from lakelog.records.blocks import Block, ByteStream, Indices, read_blocks
from lakelog.records.source_rows import SourceRows
from lakelog.records.text_options import TextOptions

_NOT_CLOSED: Final = (
    "a quoted value is not closed in its line (source.options.multiline: true allows line ends in values)"
)


@dataclass(frozen=True)
class _ParsedRecords:
    """What a parser made of some records: its table's rows belong to `records`, and `bad` have a reason each."""

    table: pa.Table
    records: Indices
    bad: tuple[tuple[int, str], ...] = ()


def read_csv(stream: ByteStream, options: TextOptions, report: Report) -> Iterator[SourceRows]:
    """Reads the records of a CSV file as texts, as `open_csv`."""
    yield from open_csv(stream, options, report)[1]


def open_csv(
    stream: ByteStream, options: TextOptions, report: Report, types: Mapping[str, pa.DataType] | None = None
) -> tuple[list[str], Iterator[SourceRows]]:
    """Reads the records of a CSV file (RFC 4180; empty lines are passed over). Runs on executors.

    A file without any line that is not empty has no rows: programs that had none to write often leave such a file.

    Args:
        stream: UTF-8 text.
        options: How it is written.
        report: Called with records that are no CSV, or have more or fewer values than the header.
        types: By column: as what it is read where all records of a block can be, which is much faster than texts.

    Returns:
        The names of the columns, none where the file has no line; and the rows, which are read as they are asked for.
        Columns are texts, but for those of `types`; bytes are never texts.

    Raises:
        FileRefused: The header cannot be read, it names a column twice, or a record is longer than allowed.
    """
    blocks = read_blocks(stream, options, quote=options.quote if options.multiline else None)
    filled = ((block, np.flatnonzero(block.ends > block.starts).astype(np.int64)) for block in blocks)
    parts = ((block, records) for block, records in filled if len(records))
    names = list(options.names)
    first = next(parts, None)
    if first is None:
        return names, iter(())
    block, records = first
    if not names:
        names = _read_header(block.raw(int(records[0])), options)
        records = records[1:]

    def rows() -> Iterator[SourceRows]:
        for each, some in itertools.chain([(block, records)], parts):
            if options.quote is not None and not options.multiline:
                some = _leave_out_unclosed(each, some, options.quote, report)
            if len(some):
                yield from _read_block(each, some, names, options, types or {}, report)

    return names, rows()


def _leave_out_unclosed(block: Block, records: Indices, quote: str, report: Report) -> Indices:
    """SUBTLE: without this, one quote too many would swallow the lines up to the next one, wherever that is."""
    is_odd = block.count(ord(quote))[records] % 2 == 1
    for record in records[is_odd]:
        report(BadRecord(int(block.lines[record]), None, _NOT_CLOSED, block.raw(int(record))))
    return records[~is_odd]


def _read_header(line: bytes, options: TextOptions) -> list[str]:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FileRefused(
            f"its header is not text in {options.encoding}{options.advise('encoding', ' ({})')}"
        ) from error
    try:
        lines = io.StringIO(text)
        if options.quote is None:
            names = next(csv.reader(lines, delimiter=options.delimiter, quoting=csv.QUOTE_NONE))
        else:
            names = next(csv.reader(lines, delimiter=options.delimiter, quotechar=options.quote))
    except csv.Error as error:
        raise FileRefused(f"its header cannot be parsed: {error}") from error
    doubled = sorted(name for name, count in Counter(names).items() if count > 1)
    if doubled:
        raise FileRefused(f"its header names the column '{doubled[0][:100]}' twice")
    return names


def _read_block(
    block: Block,
    records: Indices,
    names: list[str],
    options: TextOptions,
    types: Mapping[str, pa.DataType],
    report: Report,
) -> Iterator[SourceRows]:
    if types:
        table = _parse_typed(block.join(records), names, options, types)
        if table is not None:
            # Where quotes stand within values there may be more rows than records separated by quotes.
            places = records if len(table) == len(records) else np.repeat(records[:1], len(table))
            yield _rows(block, places, table)
            return
    texts = {name: pa.binary() if pt.is_binary(types.get(name, pa.string())) else pa.string() for name in names}
    parts = _parse_records(block, records, options, texts)
    if options.multiline and any(part.bad and not len(part.records) for part in parts):
        block, records = _split_lines(block, records, options, texts)
        parts = _parse_records(block, records, options, texts)
    for part in parts:
        for record, reason in part.bad:
            report(BadRecord(int(block.lines[record]), None, reason, block.raw(record)))
        if part.table.num_rows:
            yield _rows(block, part.records, part.table)


def _parse_records(
    block: Block, records: Indices, options: TextOptions, texts: Mapping[str, pa.DataType]
) -> list[_ParsedRecords]:
    """Parses records of a block; those that cannot be parsed are found by halving.

    Returns:
        Parts in order. A part without rows and with one bad record is one that could not be parsed alone.
    """
    done: list[_ParsedRecords] = []
    stack = [records]
    while stack:
        part = stack.pop()
        if len(part) == 0:
            continue
        try:
            parsed = _parse(block, part, options, texts)
            reason = "its values and quotes do not pair up" if parsed.table.num_rows != len(parsed.records) else ""
        except pa.ArrowException as error:
            reason = _explain(error, options)
        if not reason:
            done.append(parsed)
        elif len(part) == 1:
            done.append(_ParsedRecords(pa.table({}), part[:0], ((int(part[0]), reason),)))
        else:
            middle = len(part) // 2
            stack += [part[middle:], part[:middle]]
    return done


def _explain(error: Exception, options: TextOptions) -> str:
    """Says in a few words what Arrow's parser found."""
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    if "UTF8" in text or "UTF-8" in text:
        return f"it is not valid UTF-8 text{options.advise('encoding', '; say in {} what it is')}"
    return f"it cannot be parsed: {text.removeprefix('CSV parse error: ')[:200]}"


def _split_lines(
    block: Block, records: Indices, options: TextOptions, texts: Mapping[str, pa.DataType]
) -> tuple[Block, Indices]:
    """SUBTLE: a quote within a value begins none, so such quotes need not pair up, and lines are the records then."""
    lines = block.split_lines(int(records[0]))
    full = np.flatnonzero(lines.ends > lines.starts).astype(np.int64)
    try:
        parsed = _parse(lines, full, options, texts)
    except pa.ArrowException:
        return block, records
    return (lines, full) if len(parsed.table) == len(parsed.records) else (block, records)


def _rows(block: Block, records: Indices, table: pa.Table) -> SourceRows:
    columns = {name: _single(table.column(name)) for name in table.column_names}
    return SourceRows(columns, len(records), block.lines[records], lambda row: block.raw(int(records[row])))


def _parse_typed(
    data: pa.Buffer, names: list[str], options: TextOptions, types: Mapping[str, pa.DataType]
) -> pa.Table | None:
    """The records' values; None where not all of them are certain to be what was written."""
    columns = {name: types.get(name, pa.string()) for name in names}
    if any(pt.is_decimal(type_) for type_ in columns.values()) and has_shrinking_exponents(data):
        return None
    try:
        table = pa_csv.read_csv(
            pa.BufferReader(data), parse_options=_dialect(options), **_settings(data, options, columns)
        )
    except pa.ArrowException:
        return None
    floats = [table.column(name) for name, type_ in columns.items() if pt.is_floating(type_)]
    # A number beyond the type's range becomes infinite, which is not what was written.
    return None if any(pc.any(pc.is_inf(column)).as_py() for column in floats) else table


def _settings(data: pa.Buffer, options: TextOptions, columns: Mapping[str, pa.DataType]) -> dict[str, Any]:
    return {
        # One block of the parser, so that a value never lies across two.
        "read_options": pa_csv.ReadOptions(use_threads=False, column_names=list(columns), block_size=len(data) + 1),
        "convert_options": pa_csv.ConvertOptions(
            column_types=columns,
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=list(options.null_values),
        ),
    }


def _parse(block: Block, records: Indices, options: TextOptions, texts: Mapping[str, pa.DataType]) -> _ParsedRecords:
    skipped: list[tuple[int, str]] = []

    def skip(row: pa_csv.InvalidRow) -> str:
        # `number` counts records from 1, since the parser sees neither header nor empty lines.
        reason = f"it has {row.actual_columns} values, but there are {row.expected_columns} columns"
        skipped.append((int(records[min(row.number, len(records)) - 1]), reason))
        return "skip"

    data = block.join(records)
    settings = _settings(data, options, texts)
    try:
        table = pa_csv.read_csv(pa.BufferReader(data), parse_options=_dialect(options), **settings)
    except pa.ArrowInvalid:
        if not _is_text(data):
            # Arrow cannot say which records have too few or too many values.
            raise
        table = pa_csv.read_csv(pa.BufferReader(data), parse_options=_dialect(options, skip), **settings)
    kept = records[~np.isin(records, [record for record, _ in skipped])] if skipped else records
    return _ParsedRecords(table, kept, tuple(skipped))


def _is_text(data: pa.Buffer) -> bool:
    try:
        return bool(str(memoryview(data), "utf-8"))
    except UnicodeDecodeError:
        return False


def _dialect(options: TextOptions, skip: Callable[[pa_csv.InvalidRow], str] | None = None) -> pa_csv.ParseOptions:
    return pa_csv.ParseOptions(
        delimiter=options.delimiter,
        quote_char=options.quote or False,
        newlines_in_values=options.multiline,
        invalid_row_handler=skip,
        ignore_empty_lines=False,
    )


def _single(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
