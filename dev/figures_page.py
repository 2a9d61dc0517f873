"""Draws the plot of README.md, `docs/freshness.svg`, from `bench/plots/readme.toml`."""

from __future__ import annotations

import sys
import tomllib
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Final

from dev.pages import write_or_check
from lakelog.pictures.svg.drawing import Drawing
from lakelog.pictures.svg.picture import DEFAULT_WIDTH
from lakelog.pictures.svg.scales import Scale

_ROOT: Final = Path(__file__).parent.parent
DATA: Final = _ROOT / "bench/plots/readme.toml"
PICTURE: Final = _ROOT / "docs/freshness.svg"

_LEFT: Final = 190
_ROW: Final = 34
_LONGEST_MS: Final = 45.0
_GRID_MS: Final = (0, 10, 20, 30, 40)


@dataclass(frozen=True)
class Bar:
    """A way to follow a table, and how long its rows take.

    Args:
        label: Its name for readers.
        workload: Which workload of `bench/` measured it.
        median: The figure's name there.
        p99: The name of its 99th percentile.
        median_ms: From the beginning of a write on.
        p99_ms: The same.
        written_down: When the figure came into bench/README.md.
    """

    label: str
    workload: str
    median: str
    p99: str
    median_ms: float
    p99_ms: float
    written_down: date


def render_picture() -> str:
    """The plot as an SVG: for each way to follow a table a bar up to the median, a line up to the 99th percentile."""
    data = tomllib.loads(DATA.read_text(encoding="utf-8"))
    bars = [Bar(**bar) for bar in data["freshness"]]
    days = sorted({bar.written_down for bar in bars})
    drawing = Drawing(DEFAULT_WIDTH)
    title = "From the beginning of a write until a reader has its rows"
    top = drawing.heading(title) + 8
    bottom = top + _ROW * len(bars)
    scale = Scale(0, _LONGEST_MS, _LEFT, DEFAULT_WIDTH - 100)
    for grid_ms in _GRID_MS:
        x = scale.place(grid_ms)
        drawing.line(x, top - 8, x, bottom)
        drawing.text(x, bottom + 18, f"{grid_ms} ms", paint="soft", anchor="middle")
    for number, bar in enumerate(bars):
        _draw_bar(drawing, scale, bar, top + number * _ROW)
    notes = [
        "Bar: median. Line: 99th percentile. Ten writes of 100 rows a second. "
        f"Written down from {days[0]} to {days[-1]}.",
        data["machine"],
    ]
    end = drawing.notes(bottom + 42, notes)
    words = ", ".join(f"{bar.label} {bar.median_ms:g} ms, 99th percentile {bar.p99_ms:g} ms" for bar in bars)
    return drawing.finish(end, title, words).to_svg()


def _draw_bar(drawing: Drawing, scale: Scale, bar: Bar, top: float) -> None:
    median, p99 = scale.place(bar.median_ms), scale.place(bar.p99_ms)
    middle = top + 10
    drawing.text(_LEFT - 10, middle + 5, bar.label, anchor="end")
    drawing.box(_LEFT, top, median - _LEFT, 20, paint="blue", radius=1)
    drawing.line(median, middle, p99, middle, paint="ink", width=2)
    drawing.line(p99, middle - 6, p99, middle + 6, paint="ink", width=2)
    drawing.text(p99 + 8, middle + 5, f"{bar.median_ms:g} / {bar.p99_ms:g}")


if __name__ == "__main__":
    sys.exit(write_or_check(PICTURE, render_picture, "dev/figures_page.py", "Draw docs/freshness.svg for README.md."))
