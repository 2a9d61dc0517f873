"""Changed rows on the terminal or as JSON lines."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import pyarrow as pa

from lakelog.cli.invocation import Invocation
from lakelog.cli.output.row_output import MAX_PRINTED_ROWS, RowPrinter, note_hidden
from lakelog.cli.output.row_table import ROW_KIND_STYLES, RowTable
from lakelog.cli.output.text import plural
from lakelog.format.types.rowkind import ROW_KIND_COLUMN
from lakelog.reads.change_plan import name_snapshots

TABLE_COLUMN: Final = "_table"
"""The column with a row's table, if there are several."""


def report_skipped(invocation: Invocation, snapshot_ids: Sequence[int]) -> None:
    """Reports which snapshots are not shown."""
    if snapshot_ids:
        which = name_snapshots(snapshot_ids)
        invocation.printer.warn(
            f"{which[0].upper()}{which[1:]} overwrote rows; what was replaced, and by what, is not shown."
        )


@contextmanager
def report_logged(invocation: Invocation) -> Iterator[None]:
    """Shows the SDK's warnings while the context lasts, for instance which snapshots a subscription does not show."""
    handler = _WarningHandler(invocation)
    logger = logging.getLogger("lakelog")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class _WarningHandler(logging.Handler):
    def __init__(self, invocation: Invocation) -> None:
        super().__init__(logging.WARNING)
        self._invocation = invocation

    def emit(self, record: logging.LogRecord) -> None:
        self._invocation.printer.warn(record.getMessage())


class ChangePrinter:
    """Prints changed rows up to a limit.

    Args:
        invocation: Has the printer.
        limit: The most rows; 0: no limit.
    """

    def __init__(self, invocation: Invocation, limit: int) -> None:
        self._invocation = invocation
        self._limit = limit
        self._table = self._make_table()
        self._columns: list[str] = []
        self._cut = False
        self._rows = RowPrinter(invocation.printer)
        self.row_count = 0

    def print(self, batches: Iterator[pa.RecordBatch]) -> bool:
        """Prints rows; returns False when the limit is reached."""
        for batch in batches:
            room = self._limit - self.row_count if self._limit else batch.num_rows
            shown = _kind_first(batch.slice(0, room))
            self._print(shown)
            self.row_count += shown.num_rows
            if batch.num_rows > room:
                self._cut = True
                break
        self._table.flush()
        return not self._cut

    def _print(self, batch: pa.RecordBatch) -> None:
        if self._invocation.printer.for_programs:
            self._rows.print(batch)
            return
        if self._columns and self._columns != batch.schema.names:
            # Rows of another table.
            self._table.flush()
            note_hidden(self._invocation, self._table)
            self._invocation.printer.say("")
            self._table = self._make_table()
        self._columns = batch.schema.names
        for start in range(0, batch.num_rows, MAX_PRINTED_ROWS):
            self._table.add(batch.slice(start, MAX_PRINTED_ROWS))

    def _make_table(self) -> RowTable:
        return RowTable(self._invocation.printer, {ROW_KIND_COLUMN: lambda kind: ROW_KIND_STYLES.get(kind, "")})

    def finish(self, *, follow: bool) -> None:
        """Reports what was left out."""
        if not follow:
            self._rows.end()
        if self._cut and not follow:
            rows = plural(self.row_count, "row")
            self._invocation.printer.note(f"The first {rows}; there are more: --limit N, or --limit 0 for all.")
        note_hidden(self._invocation, self._table)


def _kind_first(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Puts table, snapshot and row kind first, where people look, and where they fit on any terminal."""
    front = [name for name in (TABLE_COLUMN, "_snapshot_id", ROW_KIND_COLUMN) if name in batch.schema.names]
    return batch.select([*front, *(name for name in batch.schema.names if name not in front)])
