"""Batches of rows as text for programs; CSV is made in columns, as JSON lines are."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
from pyarrow import types as pt

from lakelog.cli.output.documents import to_csv_line, to_yaml
from lakelog.cli.output.json_rows import to_json_lines, to_json_texts
from lakelog.cli.output.output_format import OutputFormat
from lakelog.format.types.time_text import to_time_texts

_EMPTY_CELL = '""'


class RowTexts:
    """The texts of batches that follow one another.

    Args:
        output: One of the formats for programs; JSON has an object on each line, as JSON lines have.
    """

    def __init__(self, output: OutputFormat) -> None:
        self._output = output
        self._header: list[str] | None = None

    def begin(self, schema: pa.Schema) -> str:
        """What stands before rows of these columns: for CSV a header, after an empty line if others came before."""
        if self._output is not OutputFormat.CSV or schema.names == self._header:
            return ""
        gap = "" if self._header is None else "\n"
        self._header = schema.names
        return gap + to_csv_line(schema.names)

    def to_text(self, batch: pa.RecordBatch) -> str:
        """The text of a batch."""
        if self._output is OutputFormat.CSV:
            return self.begin(batch.schema) + to_csv_rows(batch)
        lines = to_json_lines(batch)
        if self._output is not OutputFormat.YAML or not lines:
            return lines
        # Not with splitlines(), which also splits at characters that values may contain, such as U+2028.
        return to_yaml([json.loads(line) for line in lines.split("\n") if line])


def to_csv_rows(batch: pa.RecordBatch) -> str:
    """The rows of a batch as lines of CSV, without a header. Pure.

    Values look as in JSON, texts without its quotes; NULL is an empty cell, an empty text one in quotes. NULL has
    quotes where it is the only cell of its line, since readers pass over empty lines.
    """
    if batch.num_rows == 0:
        return ""
    columns = [_to_cells(column) for column in batch.columns]
    if len(columns) == 1 and columns[0].null_count:
        columns = [pc.fill_null(columns[0].cast(pa.large_string()), "")]
    if not columns:
        return f"{_EMPTY_CELL}\n" * batch.num_rows
    sink = pa.BufferOutputStream()
    cells = pa.RecordBatch.from_arrays(columns, names=[str(i) for i in range(len(columns))])
    pa_csv.write_csv(cells, sink, pa_csv.WriteOptions(include_header=False))
    return sink.getvalue().to_pybytes().decode()


def _to_cells(column: pa.Array) -> pa.Array:
    """Numbers and truth values as they are, which get no quotes; everything else as text."""
    data_type = column.type
    if pt.is_dictionary(data_type):
        column = column.dictionary_decode()
        data_type = column.type
    if pt.is_integer(data_type) or pt.is_boolean(data_type) or pt.is_string(data_type) or pt.is_large_string(data_type):
        return column
    if pt.is_date(data_type) or pt.is_timestamp(data_type):
        return to_time_texts(column)
    texts = to_json_texts(column)
    if pt.is_nested(data_type):
        return texts
    is_quoted = pc.starts_with(texts, '"')
    # Of plain values only texts without special characters have quotes here: numbers, base64 and the like.
    return pc.if_else(is_quoted, pc.utf8_slice_codeunits(texts, 1, -1), texts)
