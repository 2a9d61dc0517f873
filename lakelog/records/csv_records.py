"""Records of CSV files. Arrow's parser makes strings of a block at once; fitting them to the table comes later."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc_csv

from lakelog.records.bad_records import BadRecord, FileRefused, Report
from lakelog.records.blocks import Block, ByteStream, Indices, read_blocks
from lakelog.records.source_rows import ParsedRecords, SourceRows, parse_records
from lakelog.records.text_options import TextOptions

_NOT_CLOSED: Final = (
    "a quoted value is not closed in its line (source.options.multiline: true allows line ends in values)"
)


def read_csv(stream: ByteStream, options: TextOptions, report: Report) -> Iterator[SourceRows]:
    """Reads the records of a CSV file (RFC 4180; empty lines are passed over). Runs on executors.

    A file without any line that is not empty holds no rows: whoever had none to write often leaves such a file.

    Args:
        stream: UTF-8 text.
        options: How it is written.
        report: Told of records that are no CSV, or have more or fewer values than the header.

    Raises:
        FileRefused: The header cannot be read, it names a column twice, or a record is longer than allowed.
    """
    names = list(options.names)
    quote = options.quote if options.multiline else None
    for block in read_blocks(stream, quote=quote, max_record_bytes=options.max_record_bytes):
        records = np.flatnonzero(block.ends > block.starts).astype(np.int64)
        if not names and len(records):
            names = _read_header(block.raw(int(records[0])), options)
            records = records[1:]
        if options.quote is not None and not options.multiline:
            records = _leave_out_unclosed(block, records, options.quote, report)
        if len(records):
            yield from _read_block(block, records, names, options, report)


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
        raise FileRefused(f"its header is not text in {options.encoding} (source.options.encoding)") from error
    try:
        lines = io.StringIO(text)
        if options.quote is None:
            names = next(csv.reader(lines, delimiter=options.delimiter, quoting=csv.QUOTE_NONE))
        else:
            names = next(csv.reader(lines, delimiter=options.delimiter, quotechar=options.quote))
    except csv.Error as error:
        raise FileRefused(f"its header cannot be parsed: {error}") from error
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise FileRefused(f"its header names the column '{doubled[0][:100]}' twice")
    return names


def _read_block(
    block: Block, records: Indices, names: list[str], options: TextOptions, report: Report
) -> Iterator[SourceRows]:
    for part in parse_records(block, records, lambda some: _parse(block, some, names, options)):
        for record, reason in part.bad:
            report(BadRecord(int(block.lines[record]), None, reason, block.raw(record)))
        if part.table.num_rows:
            columns = {name: _single(part.table.column(name)) for name in names}
            yield _rows(block, part.records, columns)


def _rows(block: Block, records: Indices, columns: dict[str, pa.Array]) -> SourceRows:
    return SourceRows(columns, len(records), block.lines[records], lambda row: block.raw(int(records[row])))


def _parse(block: Block, records: Indices, names: list[str], options: TextOptions) -> ParsedRecords:
    skipped: list[tuple[int, str]] = []

    def skip(row: pc_csv.InvalidRow) -> str:
        # `number` counts records from 1, since the parser sees neither header nor empty lines.
        reason = f"it has {row.actual_columns} values, but there are {row.expected_columns} columns"
        skipped.append((int(records[row.number - 1]), reason))
        return "skip"

    data = block.join(records)
    table = pc_csv.read_csv(
        pa.BufferReader(data),
        # One block of the parser, so that a value never lies across two.
        read_options=pc_csv.ReadOptions(use_threads=False, column_names=names, block_size=len(data) + 1),
        parse_options=pc_csv.ParseOptions(
            delimiter=options.delimiter,
            quote_char=options.quote or False,
            newlines_in_values=options.multiline,
            invalid_row_handler=skip,
            ignore_empty_lines=False,
        ),
        convert_options=pc_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=list(options.null_values),
        ),
    )
    kept = records[~np.isin(records, [record for record, _ in skipped])] if skipped else records
    return ParsedRecords(table, kept, tuple(skipped))


def _single(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
