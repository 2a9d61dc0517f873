"""Rows of a CSV file, read by Arrow as the table's types; what does not fit is told with its line and column."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.csv as pa_csv

from lakelog.cli.input.text_blocks import ByteStream, TextBlock, find_bad_record, read_text_blocks
from lakelog.errors import InvalidArgument
from lakelog.format.types.sql_types import to_sql_type

_BAD_VALUE: Final = re.compile(r"In CSV column #(\d+): (?:CSV conversion error to [^:]*: )?(.*)", re.DOTALL)
_OFFSET: Final = re.compile(r"expected (?:a|(no)) zone offset in ('[^']*')")
_BAD_COUNT: Final = re.compile(r"Expected (\d+) columns, got (\d+)")
_LONGEST_SHOWN: Final = 200


def open_csv(source: ByteStream, name: str, schema: pa.Schema) -> pa.RecordBatchReader:
    """Reads a CSV file (RFC 4180, with a header) while its batches are asked for.

    Args:
        source: Its bytes, UTF-8.
        name: For messages.
        schema: As what columns are read; others are texts, for whoever takes the rows to refuse.

    Raises:
        InvalidArgument: It has no header, or, while batches are read, a line does not fit.
    """
    blocks = (block for block in read_text_blocks(source, name, has_quotes=True) if block.data.strip())
    first = next(blocks, None)
    if first is None:
        raise InvalidArgument(f"{name} is empty: a CSV file begins with a line that names its columns.")
    first = first.without(
        next(i for i in range(len(first.ends)) if first.data[first.start_of(i) : first.ends[i]].strip())
    )
    try:
        names = pa_csv.read_csv(pa.BufferReader(first.data[: first.ends[0]])).column_names
    except pa.ArrowException as error:
        raise InvalidArgument(
            f"{name}, line {first.first_line}: its header cannot be read: {_explain(error)}."
        ) from error
    types = {column: schema.field(column).type if column in schema.names else pa.string() for column in names}
    read_schema = pa.schema([(column, types[column]) for column in names])

    def batches() -> Iterator[pa.RecordBatch]:
        yield from _read_block(first.without(1), name, read_schema)
        for block in blocks:
            yield from _read_block(block, name, read_schema)

    return pa.RecordBatchReader.from_batches(read_schema, batches())


def _read_block(block: TextBlock, name: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    def parse(data: bytes) -> pa.Table:
        return _parse(data, schema)

    try:
        yield from parse(block.data).to_batches()
        return
    except pa.ArrowException:
        record = find_bad_record(block, parse)
        raw = block.data[block.start_of(record) : block.ends[record]]
        try:
            parse(raw)
            reason = "its quotes do not pair up with those of other lines"
        except pa.ArrowException as error:
            reason = _reason(error, schema)
    raise InvalidArgument(
        f"{name}, line {block.line_of(record)}: {reason}.", metadata={"line": str(block.line_of(record))}
    )


def _parse(data: bytes, schema: pa.Schema) -> pa.Table:
    if not data.strip():
        return schema.empty_table()
    return pa_csv.read_csv(
        pa.BufferReader(data),
        # One block of the parser, so that a value never lies across two.
        read_options=pa_csv.ReadOptions(column_names=schema.names, block_size=len(data) + 1),
        parse_options=pa_csv.ParseOptions(newlines_in_values=True),
        convert_options=pa_csv.ConvertOptions(
            column_types=schema,
            # Only what is empty and not quoted: Arrow's own list would make NULL of a text such as NA (Namibia).
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def _reason(error: Exception, schema: pa.Schema) -> str:
    text = str(error)
    value = _BAD_VALUE.search(text)
    if value is not None:
        field = schema.field(int(value[1]))
        what = value[2][:_LONGEST_SHOWN].rstrip(".")
        if what.startswith("invalid value "):
            shown = what.removeprefix("invalid value ")
            return f"column '{field.name}' has {shown}, but needs a value of {to_sql_type(field.type)}"
        offset = _OFFSET.match(what)
        if offset is not None:
            remedy = "leave its offset out" if offset[1] else "add its offset, as in 2024-05-01T12:00:00Z or +02:00"
            return f"column '{field.name}' has {offset[2]}, but needs a value of {to_sql_type(field.type)}: {remedy}"
        return f"column '{field.name}' needs a value of {to_sql_type(field.type)}: {what}"
    count = _BAD_COUNT.search(text)
    if count is not None:
        return f"it has {count[2]} values, but the header names {count[1]} columns"
    return _explain(error)


def _explain(error: Exception) -> str:
    return (
        (str(error) or type(error).__name__)
        .splitlines()[0]
        .removeprefix("CSV parse error: ")[:_LONGEST_SHOWN]
        .rstrip(".")
    )
