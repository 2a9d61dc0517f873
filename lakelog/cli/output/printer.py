"""Prints the command's output: tables and sentences for people, or one JSON document for programs."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

from rich.color import ColorSystem
from rich.console import Console
from rich.style import Style

from lakelog.cli.output.layout import LEAST_WIDTH, Cell, Layout, measure, plan_layout
from lakelog.cli.output.output_format import OutputFormat
from lakelog.cli.output.text import clean_text


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
        self._out = out or sys.stdout
        self._console = _Console(file=self._out, highlight=False, markup=False, emoji=False, width=width)
        plain = self._console.color_system is None or self._console.no_color
        self._color_system = None if plain else ColorSystem.STANDARD
        self._err = err or sys.stderr
        self.notes = _Console(file=self._err, highlight=False, markup=False, emoji=False, soft_wrap=True)
        self.width = width or (self._console.width if self._console.is_terminal or "COLUMNS" in os.environ else None)

    @property
    def is_json(self) -> bool:
        """Whether programs read the output."""
        return self.output is OutputFormat.JSON

    @property
    def is_terminal(self) -> bool:
        """Whether a person looks at the output right now."""
        return self._console.is_terminal

    @property
    def shows_progress(self) -> bool:
        """Whether a person watches the standard error, where progress is shown."""
        return not self.is_json and self.notes.is_terminal

    def records(self, columns: Sequence[Column], records: Sequence[Mapping[str, Any]], *, empty: str) -> None:
        """Prints a listing: a table, or a JSON array of the records with all their keys.

        Args:
            columns: The table's columns, the most important ones first.
            records: Values that JSON knows, by key.
            empty: The sentence printed instead of a table without rows.
        """
        if self.is_json:
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
        if not self.is_json:
            self._console.print(sentence, soft_wrap=True)

    def done(self, sentence: str, record: Mapping[str, Any]) -> None:
        """Prints the result of an action: the sentence, or the record as a JSON object."""
        if self.is_json:
            self.document(record)
        else:
            self.say(sentence)

    def document(self, value: Any) -> None:
        """Prints a JSON document, indented."""
        self.raw(json.dumps(value, ensure_ascii=False, indent=2) + "\n")

    def raw(self, text: str) -> None:
        """Prints text unchanged and flushes it, so that a reader of a pipe need not wait."""
        self._out.write(text)
        self._out.flush()

    def note(self, sentence: str, style: str = "dim") -> None:
        """Prints a note beside the data to the standard error, for people only."""
        if not self.is_json:
            self.notes.print(sentence, style=style)

    def warn(self, sentence: str) -> None:
        """Prints a warning to the standard error: for people as a note, for programs as a JSON object on one line.

        For facts that change the meaning of the printed data, so that no reader misses them.
        """
        if self.is_json:
            self._err.write(json.dumps({"kind": "Warning", "message": sentence}, ensure_ascii=False) + "\n")
            self._err.flush()
        else:
            self.note(sentence)
