"""How far `lakelog insert` has come, shown to a person on the standard error while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from lakelog.cli.output.printer import Printer
from lakelog.cli.output.text import format_bytes

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class InsertProgress:
    """A line that is renewed: file, bytes done of all, rows, rate and time left; nothing where no terminal is.

    Args:
        printer: Whose standard error it goes to.
        total_bytes: Of all files; 0: not known.
        file_count: How many files there are.
    """

    def __init__(self, printer: Printer, total_bytes: int, file_count: int) -> None:
        self._total_bytes = total_bytes
        self._file_count = file_count
        self._done_bytes = self._rows = self._files = 0
        self._task: TaskID | None = None
        self._shown: Progress | None = None
        if printer.shows_progress:
            # Not with the module: other commands do not wait for it.
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            self._shown = Progress(
                TextColumn("{task.fields[file]}"),
                BarColumn(bar_width=20),
                TextColumn("{task.fields[amount]}"),
                TimeRemainingColumn(compact=True),
                console=printer.notes,
                transient=True,
            )

    def __enter__(self) -> Self:
        if self._shown is not None:
            self._shown.start()
            self._task = self._shown.add_task("", total=self._total_bytes or None, file="", amount="")
            self._show(0)
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown is not None:
            self._shown.stop()

    def end_file(self, size_bytes: int) -> None:
        """Counts a file that is done, or was before."""
        self._done_bytes += size_bytes
        self._files += 1
        self._show(0)

    def add_rows(self, rows: int, bytes_read: int) -> None:
        """Counts rows that were read.

        Args:
            rows: How many.
            bytes_read: How many bytes of their file are read by now.
        """
        self._rows += rows
        self._show(bytes_read)

    def _show(self, bytes_read: int) -> None:
        if self._shown is None or self._task is None:
            return
        done = self._done_bytes + bytes_read
        elapsed_s = self._shown.tasks[0].elapsed or 0.0
        rate = f", {self._rows / elapsed_s:,.0f} rows/s, {format_bytes(int(done / elapsed_s))}/s" if elapsed_s else ""
        of_all = f" of {format_bytes(self._total_bytes)}" if self._total_bytes else ""
        self._shown.update(
            self._task,
            completed=done,
            file=f"file {min(self._files + 1, self._file_count)}/{self._file_count}",
            amount=f"{format_bytes(done)}{of_all}, {self._rows:,} rows{rate}",
        )
