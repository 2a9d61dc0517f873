"""A drawing in progress: shapes and texts, escaped, with whole paints and finite numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal
from xml.sax.saxutils import escape, quoteattr

from lakelog.pictures.svg.picture import Picture
from lakelog.pictures.svg.style import Paint
from lakelog.pictures.svg.words import clean, fit, wrap

MARGIN: Final = 16
_TITLE_SIZE: Final = 15
_NOTE_SIZE: Final = 11.5
_NOTE_LINE: Final = 16

Anchor = Literal["start", "middle", "end"]


class Drawing:
    """Shapes from left above to right below.

    Args:
        width: Of the whole drawing.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self._elements: list[str] = []

    def heading(self, title: str, notes: Sequence[str] = ()) -> float:
        """Writes the title, and sentences below it; returns where the picture itself may begin."""
        y = 26.0
        for line in wrap(clean(title), self.width - 2 * MARGIN, _TITLE_SIZE, bold=True)[:2]:
            self.text(MARGIN, y, line, size=_TITLE_SIZE, bold=True)
            y += 20
        return self.notes(y, notes) + 6

    def notes(self, y: float, notes: Sequence[str]) -> float:
        """Writes sentences, each on lines of its own; returns the place after them."""
        for note in notes:
            for line in wrap(clean(note, 600), self.width - 2 * MARGIN, _NOTE_SIZE):
                self.text(MARGIN, y, line, paint="soft", size=_NOTE_SIZE)
                y += _NOTE_LINE
        return y

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        paint: Paint = "ink",
        size: float = 12,
        anchor: Anchor = "start",
        bold: bool = False,
        room: float | None = None,
    ) -> None:
        """Writes one line; with `room` it is cut to that."""
        shown = clean(text)
        shown = shown if room is None else fit(shown, room, size, bold=bold)
        if not shown:
            return
        more = "" if anchor == "start" else f' text-anchor="{anchor}"'
        more += "" if size == 12 else f' font-size="{_number(size)}"'
        more += ' font-weight="600"' if bold else ""
        self._elements.append(
            f'<text class="fill-{paint}" x="{_number(x)}" y="{_number(y)}"{more}>{escape(shown)}</text>'
        )

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        *,
        paint: Paint = "none",
        line: Paint | None = None,
        radius: float = 2,
        dashed: bool = False,
        about: str = "",
    ) -> None:
        """Draws a rectangle; `about` is shown where a pointer rests on it."""
        place = f'x="{_number(x)}" y="{_number(y)}" width="{_number(max(width, 0))}" height="{_number(max(height, 0))}"'
        rounded = f' rx="{_number(radius)}"' if radius else ""
        self._add("rect", f"{place}{rounded}", paint, line, about, dashed)

    def line(
        self,
        x1: float,
        y1: float,
        x2: float,
        y2: float,
        *,
        paint: Paint = "grid",
        width: float = 1,
        dashed: bool = False,
    ) -> None:
        """Draws a straight line."""
        place = f'x1="{_number(x1)}" y1="{_number(y1)}" x2="{_number(x2)}" y2="{_number(y2)}"'
        self._add("line", place, None, paint, "", dashed, width)

    def circle(
        self, x: float, y: float, radius: float, *, paint: Paint, line: Paint | None = None, about: str = ""
    ) -> None:
        """Draws a disc, or with the paint `none` a ring."""
        place = f'cx="{_number(x)}" cy="{_number(y)}" r="{_number(radius)}"'
        self._add("circle", place, paint, line, about)

    def polygon(
        self, points: Sequence[tuple[float, float]], *, paint: Paint, line: Paint | None = None, about: str = ""
    ) -> None:
        """Draws a closed shape."""
        self._add("polygon", f'points="{_join(points)}"', paint, line, about)

    def polyline(self, points: Sequence[tuple[float, float]], *, paint: Paint, width: float = 2) -> None:
        """Draws a line through points."""
        self._add("polyline", f'points="{_join(points)}"', "none", paint, "", width=width)

    def arrow(self, x1: float, y1: float, x2: float, y2: float, *, paint: Paint = "gray", dashed: bool = False) -> None:
        """Draws a line with a head at its end."""
        length = math.hypot(x2 - x1, y2 - y1) or 1.0
        dx, dy = (x2 - x1) / length, (y2 - y1) / length
        base = (x2 - 7 * dx, y2 - 7 * dy)
        self.line(x1, y1, *base, paint=paint, width=1.5, dashed=dashed)
        sides = [(base[0] - 4 * dy * way, base[1] + 4 * dx * way) for way in (1, -1)]
        self.polygon([(x2, y2), *sides], paint=paint)

    def finish(self, height: float, title: str, description: str) -> Picture:
        """The picture."""
        return Picture(clean(title), clean(description, 2000), self.width, math.ceil(height), tuple(self._elements))

    def _add(
        self,
        name: str,
        place: str,
        paint: Paint | None,
        line: Paint | None,
        about: str,
        dashed: bool = False,
        width: float = 1,
    ) -> None:
        classes = " ".join(each for each in (f"fill-{paint}" if paint else "", f"line-{line}" if line else "") if each)
        more = f' stroke-width="{_number(width)}"' if line and width != 1 else ""
        more += ' stroke-dasharray="4 3"' if dashed else ""
        start = f"<{name} class={quoteattr(classes)} {place}{more}"
        self._elements.append(f"{start}><title>{escape(clean(about, 400))}</title></{name}>" if about else f"{start}/>")


def _join(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{_number(x)},{_number(y)}" for x, y in points)


def _number(value: float) -> str:
    assert math.isfinite(value), "a place is a finite number"
    return f"{value:.1f}".removesuffix(".0")
