"""Prints batches of rows, a bounded number at once, and notes on what is left out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from lakelog.cli.invocation import Invocation
from lakelog.cli.output.json_rows import to_json_lines
from lakelog.cli.output.row_table import RowTable
from lakelog.cli.output.text import plural

MAX_PRINTED_ROWS: Final = 10_000
"""The number of rows that become text at once, so that memory stays bounded for batches of any size."""


def print_json(invocation: Invocation, batch: pa.RecordBatch) -> None:
    """Prints a batch as JSON lines, a bounded number at once."""
    for start in range(0, batch.num_rows, MAX_PRINTED_ROWS):
        invocation.printer.raw(to_json_lines(batch.slice(start, MAX_PRINTED_ROWS)))


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
