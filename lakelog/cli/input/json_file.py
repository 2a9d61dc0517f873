"""Rows of a file of JSON lines, in the forms in which `--output json` writes them.

Arrow reads a block at once where it reads the table's types as they are meant. What it does not know (bytes, maps, NaN)
or refuses is read by Python's parser, which also tells the line and the column of what does not fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json
from pyarrow import types as pt

from lakelog.cli.input.json_values import Unfitting, from_json_value, parse_object, show_json
from lakelog.cli.input.text_blocks import ByteStream, TextBlock, read_text_blocks
from lakelog.errors import InvalidArgument
from lakelog.format.types.rowkind import ROW_KIND_COLUMN, RowKind
from lakelog.log.codecs.json.members import find_left_out

_RETRACTS: Final = (RowKind.UPDATE_BEFORE.text, RowKind.DELETE.text)
_ROWS: Final = 16 * 1024
"""Rows of Python objects that are held at once."""


@dataclass(frozen=True)
class MayLeaveOut:
    """Which columns a line need not name; they are NULL then.

    Args:
        all: Every column, but `sequence` of a delete.
        kind_column: Where a line says its kind: a delete, or an old row, needs no more than its key and `sequence`.
        sequence: The table's `sequence.field`: without it a delete deletes nothing.
    """

    all: bool = False
    kind_column: str = ROW_KIND_COLUMN
    sequence: tuple[str, ...] = ()

    def find_missing(self, fields: Mapping[str, Any], names: Sequence[str]) -> list[str]:
        """The columns of `names` that a line lacks and needs. Pure."""
        retracts = fields.get(self.kind_column) in _RETRACTS
        if self.all and not retracts:
            return []
        return [name for name in names if name not in fields and (not retracts or name in self.sequence)]

    def may_lack(self, rows: pa.Table) -> list[str]:
        """The columns that a line may lack and need, as far as NULLs tell. Pure."""
        names = rows.column_names
        if self.all:
            kinds = rows.column(self.kind_column) if self.kind_column in names else None
            if kinds is None or not pc.any(pc.is_in(kinds, value_set=pa.array(_RETRACTS))).as_py():
                return []
            names = [name for name in self.sequence if name in names]
        return [name for name in names if rows.column(name).null_count]


NOTHING_LEFT_OUT: Final = MayLeaveOut()


def open_json(
    source: ByteStream, name: str, schema: pa.Schema, may_leave_out: MayLeaveOut = NOTHING_LEFT_OUT
) -> pa.RecordBatchReader:
    """Reads a file of JSON objects, one a line, while its batches are asked for; empty lines are passed over.

    Args:
        source: Its bytes, UTF-8.
        name: For messages.
        schema: The columns.
        may_leave_out: Which columns a line need not name.

    Raises:
        InvalidArgument: While batches are read: a line is no object, or holds what does not fit the columns.
    """
    as_texts = _arrow_schema(schema)

    def batches() -> Iterator[pa.RecordBatch]:
        for block in read_text_blocks(source, name, has_quotes=False):
            found = None if as_texts is None else _read_by_arrow(block.data, as_texts, schema)
            if found is not None and not _leaves_out(block.data, may_leave_out.may_lack(found)):
                yield from found.to_batches()
            else:
                yield from _read_by_line(block, name, schema, may_leave_out)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _arrow_schema(schema: pa.Schema) -> pa.Schema | None:
    """As what Arrow's parser is to read the columns; None: there is one that it cannot read."""
    fields = []
    for field in schema:
        if pt.is_date(field.type) or pt.is_timestamp(field.type):
            fields.append(pa.field(field.name, pa.string()))
        elif _arrow_knows(field.type) or pt.is_decimal(field.type):
            fields.append(pa.field(field.name, field.type))
        else:
            return None
    return pa.schema(fields)


def _arrow_knows(data_type: pa.DataType) -> bool:
    return bool(
        pt.is_integer(data_type) or pt.is_floating(data_type) or pt.is_boolean(data_type) or pt.is_string(data_type)
    )


def _read_by_arrow(data: bytes, as_texts: pa.Schema, schema: pa.Schema) -> pa.Table | None:
    """The rows, or None where not all of them are certain to be what was written."""
    if not data.strip():
        return schema.empty_table()
    try:
        table = pa_json.read_json(
            pa.BufferReader(data),
            read_options=pa_json.ReadOptions(block_size=len(data) + 1),
            parse_options=pa_json.ParseOptions(explicit_schema=as_texts, unexpected_field_behavior="error"),
        )
        columns = [table.column(field.name).cast(field.type) for field in schema]
    except pa.ArrowException:
        return None
    for column in columns:
        # A number beyond the type's range becomes infinite, which nobody wrote.
        if pt.is_floating(column.type) and pc.any(pc.is_inf(column)).as_py():
            return None
    return pa.table(columns, schema=schema)


def _leaves_out(data: bytes, sparse: list[str]) -> bool:
    """Whether a line does not name one of these columns: Arrow reads that as a NULL, too."""
    if not sparse:
        return False
    lines = pa.array(data.split(b"\n"), pa.binary())
    lines = lines.filter(pc.greater(pc.binary_length(lines), 0))
    return any(mask.any() for mask in find_left_out(lines, sparse))


def _read_by_line(
    block: TextBlock, name: str, schema: pa.Schema, may_leave_out: MayLeaveOut
) -> Iterator[pa.RecordBatch]:
    rows: list[list[Any]] = []
    for number, line in enumerate(block.data.split(b"\n"), block.first_line):
        if not line.strip():
            continue
        try:
            rows.append(_read_line(line, schema, may_leave_out))
        except ValueError as error:
            raise InvalidArgument(f"{name}, line {number}: {error}.", metadata={"line": str(number)}) from error
        if len(rows) == _ROWS:
            yield _to_batch(rows, schema)
            rows = []
    if rows:
        yield _to_batch(rows, schema)


def _read_line(line: bytes, schema: pa.Schema, may_leave_out: MayLeaveOut) -> list[Any]:
    fields = parse_object(line)
    unknown = next((key for key in fields if key not in schema.names), None)
    if unknown is not None:
        raise ValueError(f"the table has no column '{unknown[:100]}'; it has {', '.join(schema.names[:30])}")
    missing = may_leave_out.find_missing(fields, schema.names)
    if missing and may_leave_out.all:
        raise ValueError(
            f"it is a delete that leaves out {', '.join(missing[:30])}, the table's sequence.field, and would delete "
            "nothing; give the value, which beats all rows up to it"
        )
    if missing:
        raise ValueError(f"it leaves out {', '.join(missing[:30])}; name every column, or add --fill-missing for NULL")
    row = []
    for field in schema:
        value = fields.get(field.name)
        try:
            row.append(from_json_value(value, field.type))
        except Unfitting as error:
            raise ValueError(f"column '{field.name}' has {show_json(value)}, but needs {error}") from error
    return row


def _to_batch(rows: list[list[Any]], schema: pa.Schema) -> pa.RecordBatch:
    columns = [pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
