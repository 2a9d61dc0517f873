"""Prints batches of rows, a bounded number at once, and notes on what is left out."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Final

import pyarrow as pa

from lakelog.cli.invocation import Invocation
from lakelog.cli.output.output_format import OutputFormat
from lakelog.cli.output.printer import Printer
from lakelog.cli.output.row_table import RowTable
from lakelog.cli.output.row_text import RowTexts
from lakelog.cli.output.text import plural

MAX_PRINTED_ROWS: Final = 10_000
"""The number of rows that become text at once, so that memory stays bounded for batches of any size."""


class RowPrinter:
    """Prints rows for programs while they are read, a bounded number at once.

    Args:
        printer: Has the format.
    """

    def __init__(self, printer: Printer) -> None:
        self._printer = printer
        self._texts = RowTexts(printer.output)
        self.row_count = 0

    def begin(self, schema: pa.Schema) -> None:
        """Prints what stands before the first row, so that it is there without any row as well."""
        self._print(self._texts.begin(pa.schema(zip(number_duplicates(schema.names), schema.types, strict=True))))

    def print(self, batch: pa.RecordBatch) -> None:
        """Prints a batch. Columns of one name get names of their own: an object has each key once."""
        batch = batch.rename_columns(number_duplicates(batch.schema.names))
        for start in range(0, batch.num_rows, MAX_PRINTED_ROWS):
            self._print(self._texts.to_text(batch.slice(start, MAX_PRINTED_ROWS)))
        self.row_count += batch.num_rows

    def end(self) -> None:
        """Prints what stands for no rows at all."""
        if self.row_count == 0 and self._printer.output is OutputFormat.YAML:
            self._print("[]\n")

    def _print(self, text: str) -> None:
        if text:
            self._printer.data(text)


def number_duplicates(names: Sequence[str]) -> list[str]:
    """Names, of which each that was there before has a number: `a`, `a_1`, `a_2`. Pure."""
    found: dict[str, None] = {}
    for name in names:
        numbered = (f"{name}_{number}" for number in itertools.count(1))
        found[name if name not in found else next(each for each in numbered if each not in {*found, *names})] = None
    return list(found)


def print_table(invocation: Invocation, batches: Iterable[pa.RecordBatch], limit: int, *, empty: str) -> int:
    """Prints batches as one table, and notes whether rows or columns are left out.

    Args:
        invocation: Has the printer.
        batches: At most one row more than `limit`.
        limit: The most rows; 0: all.
        empty: Printed if there is no row.

    Returns:
        How many rows were printed.
    """
    printer = invocation.printer
    table = RowTable(printer)
    more = False
    with printer.paging():
        for batch in batches:
            wanted = min(batch.num_rows, limit - table.row_count) if limit else batch.num_rows
            more |= wanted < batch.num_rows
            for start in range(0, wanted, MAX_PRINTED_ROWS):
                table.add(batch.slice(start, min(MAX_PRINTED_ROWS, wanted - start)))
        table.flush()
    if table.row_count == 0:
        printer.say(empty)
        return 0
    if more:
        printer.note(f"The first {plural(table.row_count, 'row')}; there are more: --limit N, or --limit 0 for all.")
    note_hidden(invocation, table)
    return table.row_count


def note_hidden(invocation: Invocation, table: RowTable) -> None:
    """Notes which columns did not fit on the terminal."""
    if not table.hidden:
        return
    names = ", ".join(table.hidden[:8]) + (", …" if len(table.hidden) > 8 else "")
    invocation.printer.note(
        f"{plural(len(table.hidden), 'column')} did not fit: {names}. Choose some with --columns, or see all with "
        "--output json."
    )
