"""Rows as a table for people, in bounded memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from lakelog.cli.output.json_rows import to_json_value
from lakelog.cli.output.layout import LEAST_WIDTH, Cell, Layout, measure, plan_layout
from lakelog.cli.output.printer import Printer
from lakelog.cli.output.text import clean_text
from lakelog.format.types.time_text import to_time_texts

MAX_CELL: Final = 200
"""The characters of a value that a terminal may show; longer values are cut with … before they cost memory."""

SAMPLE_ROWS: Final = 200
"""The number of rows that decide the widths."""

ROW_KIND_STYLES: Final = {"+I": "green", "-U": "yellow", "+U": "yellow", "-D": "red"}

_NULL: Final = Cell("NULL", "dim")


class RowTable:
    """Prints batches of rows below one another.

    The first rows decide which columns fit on the terminal and how wide they are. If later rows would be cut although
    there is space, the titles are printed again with new widths. If the output is no terminal, such rows only shift the
    rest of their line.

    Args:
        printer: Prints the lines.
        styles: For single columns, from the value's text to a style of rich.
    """

    def __init__(self, printer: Printer, styles: Mapping[str, Callable[[str], str]] | None = None) -> None:
        self._printer = printer
        self._styles = dict(styles or {})
        self._waiting: list[pa.RecordBatch] = []
        self._natural: list[int] = []
        self._layout: Layout | None = None
        self.row_count = 0

    @property
    def hidden(self) -> tuple[str, ...]:
        """Names of the columns that did not fit beside the others."""
        return self._layout.hidden if self._layout else ()

    def add(self, batch: pa.RecordBatch) -> None:
        """Takes rows; prints them once there are enough to decide the widths."""
        self._waiting.append(batch)
        self.row_count += batch.num_rows
        if self._layout is not None or self.row_count >= SAMPLE_ROWS:
            self.flush()

    def flush(self) -> None:
        """Prints the rows that are left."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        schema = waiting[0].schema
        rows = [row for batch in waiting for row in self._rows(batch)]
        titles = [clean_text(name) for name in schema.names]
        new = self._plan(titles, [_stands_right(field.type) for field in schema], rows)
        first = self._layout is None
        renewed = self._layout is not None and self._printer.width is not None and new.widths != self._layout.widths
        if renewed:
            self._printer.say("")
        if first or renewed:
            self._layout = new
        assert self._layout is not None
        self._printer.rows(self._layout, rows, header=first or renewed)

    def _plan(self, titles: list[str], right: list[bool], rows: Sequence[Sequence[Cell]]) -> Layout:
        # If nothing is cut, one long value must not widen every line.
        widths = [min(width, MAX_CELL) for width in measure(titles, rows)]
        self._natural = [max(pair) for pair in zip(widths, self._natural or widths, strict=True)]
        return plan_layout(titles, right, self._natural, [LEAST_WIDTH] * len(titles), self._printer.width)

    def _rows(self, batch: pa.RecordBatch) -> list[tuple[Cell, ...]]:
        cut = self._printer.width is not None
        columns = [_cells(batch.column(i), self._styles.get(field.name), cut) for i, field in enumerate(batch.schema)]
        return list(zip(*columns, strict=True))


def _stands_right(data_type: pa.DataType) -> bool:
    return pt.is_integer(data_type) or pt.is_floating(data_type) or pt.is_decimal(data_type)


def _cells(column: pa.Array, style: Callable[[str], str] | None, cut: bool) -> list[Cell]:
    data_type = column.type
    if pt.is_dictionary(data_type):
        column = column.dictionary_decode()
        data_type = column.type
    if cut and (pt.is_string(data_type) or pt.is_large_string(data_type)):
        column = pc.utf8_slice_codeunits(column, 0, MAX_CELL + 1)
    elif cut and (pt.is_binary(data_type) or pt.is_large_binary(data_type)):
        column = pc.binary_slice(column, 0, MAX_CELL // 2 + 1)
    elif pt.is_date(data_type) or pt.is_timestamp(data_type):
        # People need no microseconds if all are zero.
        column = pc.replace_substring(to_time_texts(column), ".000000", "")
    longest = MAX_CELL if cut else None
    texts = (None if value is None else _text(value, column.type, longest) for value in column.to_pylist())
    return [_NULL if text is None else Cell(text, style(text) if style else "") for text in texts]


def _text(value: Any, data_type: pa.DataType, longest: int | None) -> str:
    if isinstance(value, bytes):
        text = "0x" + value.hex()
    elif isinstance(value, float):
        text = repr(value)
    else:
        plain = to_json_value(value, data_type)
        text = plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
    text = clean_text(text)
    return text if longest is None or len(text) <= longest else text[:longest] + "…"
