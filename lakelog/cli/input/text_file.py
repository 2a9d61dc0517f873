"""Rows of a file of CSV or of JSON lines, as pipelines read them; what does not fit is an error with line and column.

JSON is taken in the forms in which `--output json` writes it, among others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import numpy as np
import pyarrow as pa

from lakelog.cli.input.left_out import NOTHING_LEFT_OUT, MayLeaveOut
from lakelog.errors import InvalidArgument
from lakelog.format.types.cast import show_value
from lakelog.format.types.sql_types import to_sql_type
from lakelog.records import csv_records, json_records
from lakelog.records.bad_records import BadRecord, FileRefused
from lakelog.records.blocks import ByteStream
from lakelog.records.source_rows import SourceRows
from lakelog.records.text_options import TextOptions
from lakelog.records.text_values import is_parsable, parse_text

_OPTIONS: Final = TextOptions(multiline=True, loose_quotes=True, hexadecimal=True, settings=None)


def open_csv(source: ByteStream, name: str, schema: pa.Schema) -> pa.RecordBatchReader:
    """Reads a CSV file (RFC 4180, with a header) while its batches are asked for.

    Args:
        source: Its bytes, UTF-8.
        name: For messages.
        schema: As what columns are read; others are texts, which the write of the rows refuses.

    Raises:
        InvalidArgument: It has no header, or, while batches are read, a line does not fit.
    """
    faults = _Faults(name)
    with faults.raised():
        names, rows = csv_records.open_csv(
            source, _OPTIONS, faults.found.append, dict(zip(schema.names, schema.types, strict=True))
        )
    if not names:
        raise InvalidArgument(f"{name} is empty: a CSV file begins with a line that names its columns.")
    types = {column: schema.field(column).type if column in schema.names else pa.string() for column in names}
    return _read(rows, pa.schema(list(types.items())), faults)


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
    faults = _Faults(name)
    types = dict(zip(schema.names, schema.types, strict=True))
    rows = json_records.read_json(source, _OPTIONS, types, ignore_unknown=False, report=faults.found.append)
    return _read(rows, schema, faults, may_leave_out.find_fault)


class _Faults:
    """What is wrong with a file.

    Args:
        name: The file, for messages.
    """

    def __init__(self, name: str) -> None:
        self.found: list[BadRecord] = []
        self._name = name

    @contextmanager
    def raised(self) -> Iterator[None]:
        """Raises InvalidArgument for the first fault that is found, as it is the file that has it."""
        try:
            yield
        except FileRefused as error:
            self.found.append(BadRecord(None, None, str(error), b""))
        if self.found:
            first = min(self.found, key=lambda record: record.line or 0)
            line = "" if first.line is None else f", line {first.line}"
            metadata = {} if first.line is None else {"line": str(first.line)}
            raise InvalidArgument(f"{self._name}{line}: {first.reason}.", metadata=metadata)


def _read(
    parts: Iterator[SourceRows],
    schema: pa.Schema,
    faults: _Faults,
    find_fault: Callable[[SourceRows, pa.RecordBatch], BadRecord | None] = lambda rows, batch: None,
) -> pa.RecordBatchReader:
    def batches() -> Iterator[pa.RecordBatch]:
        while True:
            with faults.raised():
                rows = next(parts, None)
                if rows is None:
                    batch = None
                else:
                    arrays = [_fit(rows, field, faults) for field in schema]
                    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
                    fault = find_fault(rows, batch)
                    if fault is not None:
                        faults.found.append(fault)
            if batch is None:
                return
            yield batch

    return pa.RecordBatchReader.from_batches(schema, batches())


def _fit(rows: SourceRows, field: pa.Field, faults: _Faults) -> pa.Array:
    given = rows.columns[field.name]
    if given.type == field.type:
        return given
    if not is_parsable(field.type):
        raise FileRefused(
            f"column '{field.name}' is {to_sql_type(field.type)}, which cannot be read from CSV; use a file of another "
            "format"
        )
    parsed = parse_text(given, field.type, _OPTIONS)
    if parsed.bad.any():
        row = int(np.argmax(parsed.bad))
        reason = f"column '{field.name}' has {show_value(given[row])}, but needs {parsed.wanted}"
        faults.found.append(BadRecord(int(rows.lines[row]), field.name, reason, rows.raw(row)))
    return parsed.values
