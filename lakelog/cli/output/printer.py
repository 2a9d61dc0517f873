"""Prints the command's output: tables and sentences for people, or documents and records for programs."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any, Final

from rich.color import ColorSystem
from rich.console import Console
from rich.style import Style

from lakelog.cli.output.documents import to_csv_line, to_csv_lines, to_json_line, to_text, to_yaml
from lakelog.cli.output.layout import LEAST_WIDTH, Cell, Layout, measure, plan_layout
from lakelog.cli.output.output_format import OutputFormat
from lakelog.cli.output.pager import Pager
from lakelog.cli.output.terminal import find_pager, is_terminal, pager_environment, wants_colour, wants_progress
from lakelog.cli.output.text import clean_text, escape_controls

_MORE: Final = "more"
"""The last column of CSV, for keys that not every record has."""


@dataclass(frozen=True)
class Column:
    """A column of a listing.

    Args:
        key: The record's key, also in JSON.
        title: The title in tables.
        format: Makes a value's text; by default its `str`, empty for None.
        right: Whether values are right-aligned, as numbers are.
        style: A style of rich for the values, or a function that returns one.
        may_cut: Whether a narrow terminal may cut values with …; others are shown whole or not at all.
    """

    key: str
    title: str
    format: Callable[[Any], str] = lambda value: "" if value is None else str(value)
    right: bool = False
    style: str | Callable[[Any], str] = ""
    may_cut: bool = False

    def cell(self, record: Mapping[str, Any]) -> Cell:
        """The column's cell of a record."""
        value = record[self.key]
        style = self.style if isinstance(self.style, str) else self.style(value)
        return Cell(clean_text(self.format(value)), style)


class _Console(Console):
    """A console that reports a closed output to its caller; rich would end the program."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        raise BrokenPipeError(errno.EPIPE, "No one reads the output")


class Printer:
    """Prints data to the standard output; and to the standard error, for people only, everything else.

    Args:
        output: The format.
        out: The stream for data.
        err: The stream for notes and errors.
        width: The terminal's width; None: the output's own, without a limit if it is no terminal.
    """

    def __init__(
        self, output: OutputFormat, out: IO[str] | None = None, err: IO[str] | None = None, width: int | None = None
    ) -> None:
        self.output = output
        self.quiet = False
        """Whether notes and progress are left out; warnings are not."""
        self.pages = False
        """Whether tables that are longer than the terminal are shown in a pager."""
        self._out = out or sys.stdout
        self._err = err or sys.stderr
        self._console = _make_console(self._out, width)
        self.notes = _make_console(self._err, soft_wrap=True)
        coloured = wants_colour(os.environ, on_terminal=self.is_terminal)
        self._color_system = ColorSystem.STANDARD if coloured else None
        self.width = width or (self._console.width if self.is_terminal or "COLUMNS" in os.environ else None)
        self._pager: Pager | None = None
        self._held_notes: list[tuple[str, str]] = []
        self._keys: list[str] | None = None

    @property
    def for_programs(self) -> bool:
        """Whether programs read the output, in JSON or another format of theirs."""
        return self.output.for_programs

    @property
    def is_terminal(self) -> bool:
        """Whether a person looks at the output right now."""
        return is_terminal(self._out)

    @property
    def shows_progress(self) -> bool:
        """Whether a person watches the standard error, where progress is shown."""
        return not self.quiet and is_terminal(self._err) and wants_progress(os.environ)

    @contextmanager
    def paging(self) -> Iterator[None]:
        """Shows what is printed meanwhile in a pager, if it is longer than the terminal.

        Notes come afterwards. It does nothing where the output is no terminal, or inside another one.

        Raises:
            BrokenPipeError: The user has left the pager; no one wants the rest.
        """
        command = find_pager(os.environ) if self.pages and self.is_terminal and is_terminal(sys.stdin) else None
        if command is None or self._pager is not None:
            yield
            return
        self._pager = pager = Pager(command, pager_environment(os.environ), lambda: self._console.height, self._out)
        try:
            yield
        finally:
            try:
                pager.close()
            finally:
                self._pager = None
                held, self._held_notes = self._held_notes, []
                for sentence, style in held:
                    self.note(sentence, style)

    def records(self, columns: Sequence[Column], records: Sequence[Mapping[str, Any]], *, empty: str) -> None:
        """Prints a listing: a table, or for programs the records with all their keys.

        Args:
            columns: The table's columns, the most important ones first.
            records: Values that JSON knows, by key.
            empty: The sentence printed instead of a table without rows.
        """
        if self.for_programs:
            self.document(list(records))
            return
        if not records:
            self.say(empty)
            return
        rows = [[column.cell(record) for column in columns] for record in records]
        titles = [column.title for column in columns]
        natural = measure(titles, rows)
        least = [LEAST_WIDTH if column.may_cut else w for column, w in zip(columns, natural, strict=True)]
        layout = plan_layout(titles, [column.right for column in columns], natural, least, self.width)
        with self.paging():
            self.rows(layout, rows, header=True)
        if layout.hidden:
            self.note(f"Not shown on a terminal this narrow: {', '.join(layout.hidden)}. All is in --output json.")

    def facts(self, columns: Sequence[Column], record: Mapping[str, Any]) -> None:
        """Prints one record for a person: a line for each column, with its title first; empty values are left out."""
        width = max(len(column.title) for column in columns)
        for column in columns:
            cell = column.cell(record)
            if cell.text:
                self.raw(f"{self._paint(f'{column.title:<{width}}', 'bold')}  {self._paint(cell.text, cell.style)}\n")

    def rows(self, layout: Layout, rows: Sequence[Sequence[Cell]], *, header: bool) -> None:
        """Prints rows of a table, after their titles if `header` is True."""
        lines = [layout.header(self._paint)] if header else []
        lines += [layout.line(row, self._paint) for row in rows]
        self.raw("".join(f"{line}\n" for line in lines))

    def cells(self, lines: Sequence[Sequence[Cell]]) -> None:
        """Prints lines, each of some texts with their styles; long ones are not cut."""
        self.raw("".join(f"{''.join(self._paint(each.text, each.style) for each in line)}\n" for line in lines))

    def _paint(self, text: str, style: str) -> str:
        return Style.parse(style).render(text, color_system=self._color_system) if style else text

    def say(self, sentence: str) -> None:
        """Prints a sentence for people; nothing where programs read the output."""
        if not self.for_programs:
            self.raw(sentence + "\n")

    def done(self, sentence: str, record: Mapping[str, Any]) -> None:
        """Prints the result of an action: the sentence, or the record for programs."""
        if self.for_programs:
            self.document(record)
        else:
            self.say(sentence)

    def document(self, value: Any) -> None:
        """Prints a whole answer for programs, an object or a list of objects; in JSON where people read the output."""
        self.data(to_text(value, self.output))

    def element(self, record: Mapping[str, Any], columns: Sequence[str] = ()) -> None:
        """Prints one of several records for programs, which come one after the other.

        In JSON each has a line of its own, in YAML it is an element of a list. CSV has a header before the first one,
        and after an empty line before one with other keys.

        Args:
            record: Values that JSON knows, by key.
            columns: The columns of CSV where keys differ from record to record; other keys are in a last one, as JSON.
        """
        if self.output is OutputFormat.YAML:
            self.data(to_yaml([dict(record)]))
            return
        if self.output is not OutputFormat.CSV:
            self.data(to_json_line(record))
            return
        if columns:
            more = {key: value for key, value in record.items() if key not in columns}
            record = {**{key: record[key] for key in columns}, _MORE: more or None}
        keys = list(record)
        header = "" if keys == self._keys else ("\n" if self._keys else "") + to_csv_line(keys)
        self._keys = keys
        self.data(header + to_csv_lines([record], keys))

    def data(self, text: str) -> None:
        """Prints text for programs; on a terminal without characters that would change other parts of it."""
        self.raw(escape_controls(text) if self.is_terminal else text)

    def raw(self, text: str) -> None:
        """Prints text unchanged and flushes it, so that a reader of a pipe need not wait."""
        if self._pager is not None:
            self._pager.write(text)
            return
        self._out.write(text)
        self._out.flush()

    def note(self, sentence: str, style: str = "dim") -> None:
        """Prints a note beside the data to the standard error, for people only."""
        if self.for_programs or self.quiet:
            return
        if self._pager is not None:
            self._held_notes.append((sentence, style))
            return
        self.notes.print(sentence, style=style)

    def warn(self, sentence: str) -> None:
        """Prints a warning to the standard error: for people as a note, for programs as an object on one line.

        For facts that change the meaning of the printed data, so that no reader misses them.
        """
        if self.output is OutputFormat.TABLE:
            self.notes.print(sentence, style="dim")
            return
        record = {"kind": "Warning", "message": sentence}
        self._err.write("---\n" + to_yaml(record) if self.output is OutputFormat.YAML else to_json_line(record))
        self._err.flush()


def _make_console(stream: IO[str], width: int | None = None, *, soft_wrap: bool = False) -> _Console:
    on_terminal = is_terminal(stream)
    coloured = wants_colour(os.environ, on_terminal=on_terminal)
    return _Console(
        file=stream,
        highlight=False,
        markup=False,
        emoji=False,
        width=width,
        soft_wrap=soft_wrap,
        # rich's own look at FORCE_COLOR would take a pipe for a terminal, and show progress in it.
        force_terminal=on_terminal or coloured,
        color_system="standard" if coloured else None,
        no_color=not coloured,
    )
