"""Tables of text: which columns fit, how wide they are, and which values are cut. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from rich.cells import cell_len

Paint: TypeAlias = Callable[[str, str], str]
"""Applies a style of rich to a text; the result has the same width on the terminal."""

GAP: Final = "  "
"""The space between two columns."""

LEAST_WIDTH: Final = 12
"""Cut values keep at least this width. Narrower ones would say nothing, so whole columns are left out instead."""


@dataclass(frozen=True)
class Cell:
    """A value on the terminal.

    Args:
        text: One line without control characters.
        style: A style of rich; empty for plain.
    """

    text: str
    style: str = ""


@dataclass(frozen=True)
class Layout:
    """The visible columns and their widths.

    Args:
        titles: The titles of all columns.
        right: Whether a column's values are right-aligned, for all columns.
        widths: The widths of the first, visible columns, in terminal cells; the others are left out.
        cut: Whether longer values are cut; otherwise they shift the rest of their line.
    """

    titles: tuple[str, ...]
    right: tuple[bool, ...]
    widths: tuple[int, ...]
    cut: bool

    @property
    def hidden(self) -> tuple[str, ...]:
        """Titles of the columns that did not fit."""
        return self.titles[len(self.widths) :]

    def header(self, paint: Paint) -> str:
        """The line of titles."""
        return self.line([Cell(title, "bold") for title in self.titles], paint)

    def line(self, cells: Sequence[Cell], paint: Paint) -> str:
        """One row; `cells` are those of all columns. `paint` applies a style to a text."""
        parts = []
        for cell, width, right in zip(cells, self.widths, self.right, strict=False):
            text = cut_text(cell.text, width) if self.cut else cell.text
            space = " " * (width - text_width(text))
            text = paint(text, cell.style) if cell.style else text
            parts.append(space + text if right else text + space)
        return GAP.join(parts).rstrip()


def text_width(text: str) -> int:
    """The width of a text without control characters, in terminal cells."""
    return len(text) if text.isascii() else cell_len(text)


def cut_text(text: str, width: int) -> str:
    """The text, or its beginning with … if it is wider than `width` terminal cells."""
    if text_width(text) <= width:
        return text
    while text and text_width(text) > width - 1:
        # Wide characters take two cells, so one cut by length may not be enough.
        text = text[: min(len(text) - 1, width - 1)]
    return text + "…"


def measure(titles: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[int]:
    """The width of each column's widest text, its title included, in terminal cells."""
    return [max([text_width(title), *(text_width(row[i].text) for row in rows)]) for i, title in enumerate(titles)]


def plan_layout(
    titles: Sequence[str], right: Sequence[bool], natural: Sequence[int], least: Sequence[int], width: int | None
) -> Layout:
    """Decides which parts of a table are shown.

    Args:
        titles: The titles of the columns.
        right: Whether a column's values are right-aligned.
        natural: The width of each column without a limit, from `measure`.
        least: The width to which each column may be cut, in terminal cells.
        width: The terminal's width in cells; None: nothing is cut.

    Returns:
        The layout. The widest columns are cut first. If they may be cut no further, the last columns are left out, but
        never the first one.
    """
    if width is None:
        return Layout(tuple(titles), tuple(right), tuple(natural), cut=False)
    least = [min(pair) for pair in zip(natural, least, strict=True)]
    shown = len(natural)
    while shown > 1 and sum(least[:shown]) + len(GAP) * (shown - 1) > width:
        shown -= 1
    widths = _shrink(natural[:shown], least[:shown], width - len(GAP) * (shown - 1))
    return Layout(tuple(titles), tuple(right), tuple(widths), cut=True)


def _shrink(natural: Sequence[int], least: Sequence[int], available: int) -> list[int]:
    """Lowers a common limit until all fit: short columns stay whole, the widest lose most."""

    def widths_at(limit: int) -> list[int]:
        return [max(min(w, limit), bound) for w, bound in zip(natural, least, strict=True)]

    limit = max(natural)
    while limit > 1 and sum(widths_at(limit)) > available:
        limit -= 1
    widths = widths_at(limit)
    # Cells that are left over go to the cut columns, from the left.
    spare = available - sum(widths)
    for i, w in enumerate(natural):
        if spare > 0 and w > widths[i]:
            widths[i] += 1
            spare -= 1
    return widths
