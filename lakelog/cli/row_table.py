"""Rows as a table for people, in bounded memory: the first batch decides which columns fit and how wide they are."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from lakelog.cli.json_rows import to_json_value
from lakelog.cli.layout import Cell, Layout, plan_layout
from lakelog.cli.printer import Printer
from lakelog.cli.text import clean_text

MAX_CELL: Final = 200
"""Characters of a value that are looked at; what is longer is cut with … before it costs memory."""

SAMPLE_ROWS: Final = 200
"""Rows from which the widths are taken."""

ROW_KIND_STYLES: Final = {"+I": "green", "-U": "yellow", "+U": "yellow", "-D": "red"}

_NULL: Final = Cell("NULL", "dim")


class RowTable:
    """Prints batches of rows below one another, under one line of titles.

    Args:
        printer: Where to.
        styles: Of single columns, from the value's text to a style of rich.
    """

    def __init__(self, printer: Printer, styles: Mapping[str, Callable[[str], str]] | None = None) -> None:
        self._printer = printer
        self._styles = dict(styles or {})
        self._layout: Layout | None = None
        self.row_count = 0

    @property
    def hidden(self) -> tuple[str, ...]:
        """Names of the columns that did not fit beside the others."""
        return self._layout.hidden if self._layout else ()

    def print(self, batch: pa.RecordBatch) -> None:
        """Prints the rows of a batch; the first call prints the titles, also of a batch without rows."""
        first = self._layout is None
        if self._layout is None:
            sample = self._rows(batch.slice(0, SAMPLE_ROWS))
            titles = [clean_text(name) for name in batch.schema.names]
            right = [_stands_right(field.type) for field in batch.schema]
            self._layout = plan_layout(titles, right, sample, self._printer.width, may_hide=True)
        shown = batch.select(list(range(len(self._layout.widths))))
        self._printer.rows(self._layout, self._rows(shown), header=first)
        self.row_count += batch.num_rows

    def _rows(self, batch: pa.RecordBatch) -> list[tuple[Cell, ...]]:
        columns = [_cells(batch.column(i), self._styles.get(field.name)) for i, field in enumerate(batch.schema)]
        return list(zip(*columns, strict=True))


def _stands_right(data_type: pa.DataType) -> bool:
    return pt.is_integer(data_type) or pt.is_floating(data_type) or pt.is_decimal(data_type)


def _cells(column: pa.Array, style: Callable[[str], str] | None) -> list[Cell]:
    data_type = column.type
    if pt.is_dictionary(data_type):
        column = column.dictionary_decode()
        data_type = column.type
    if pt.is_string(data_type) or pt.is_large_string(data_type):
        column = pc.utf8_slice_codeunits(column, 0, MAX_CELL + 1)
    elif pt.is_binary(data_type) or pt.is_large_binary(data_type):
        column = pc.binary_slice(column, 0, MAX_CELL // 2 + 1)
    texts = (None if value is None else _text(value, data_type) for value in column.to_pylist())
    return [_NULL if text is None else Cell(text, style(text) if style else "") for text in texts]


def _text(value: Any, data_type: pa.DataType) -> str:
    if isinstance(value, bytes):
        text = "0x" + value.hex()
    elif isinstance(value, float):
        text = repr(value)
    else:
        plain = to_json_value(value, data_type)
        text = plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
    text = clean_text(text)
    return text if len(text) <= MAX_CELL else text[:MAX_CELL] + "…"
