"""Draws the plot of README.md, `docs/freshness.svg`, from `bench/plots/readme.toml`."""

from __future__ import annotations

import sys
import tomllib
from dataclasses import dataclass
from datetime import date
from html import escape
from pathlib import Path
from typing import Final

from dev.pages import write_or_check

_ROOT: Final = Path(__file__).parent.parent
DATA: Final = _ROOT / "bench/plots/readme.toml"
PICTURE: Final = _ROOT / "docs/freshness.svg"

_WIDTH: Final = 760
_LEFT: Final = 190
_ROW: Final = 34
_TOP: Final = 52
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
    bottom = _TOP + _ROW * len(bars)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{bottom + 62}" '
        f'viewBox="0 0 {_WIDTH} {bottom + 62}" font-family="sans-serif" font-size="13">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        '<text x="16" y="26" font-size="15" font-weight="bold" fill="#202020">'
        "From the beginning of a write until a reader has its rows</text>",
    ]
    for grid_ms in _GRID_MS:
        x = _place(grid_ms)
        lines += [
            f'<line x1="{x}" y1="{_TOP - 8}" x2="{x}" y2="{bottom}" stroke="#d8d8d8"/>',
            f'<text x="{x}" y="{bottom + 18}" text-anchor="middle" fill="#505050">{grid_ms} ms</text>',
        ]
    for number, bar in enumerate(bars):
        lines += _draw_bar(bar, _TOP + number * _ROW)
    lines += [
        f'<text x="16" y="{bottom + 38}" font-size="11" fill="#505050">Bar: median. Line: 99th percentile. '
        f"Ten writes of 100 rows a second. Written down from {days[0]} to {days[-1]}.</text>",
        f'<text x="16" y="{bottom + 53}" font-size="11" fill="#505050">{escape(data["machine"])}</text>',
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _draw_bar(bar: Bar, top: int) -> list[str]:
    median, p99 = _place(bar.median_ms), _place(bar.p99_ms)
    middle = top + 10
    return [
        f'<text x="{_LEFT - 10}" y="{middle + 5}" text-anchor="end" fill="#202020">{escape(bar.label)}</text>',
        f'<rect x="{_LEFT}" y="{top}" width="{round(median - _LEFT, 1)}" height="20" fill="#2f6f9f"/>',
        f'<line x1="{median}" y1="{middle}" x2="{p99}" y2="{middle}" stroke="#202020" stroke-width="2"/>',
        f'<line x1="{p99}" y1="{middle - 6}" x2="{p99}" y2="{middle + 6}" stroke="#202020" stroke-width="2"/>',
        f'<text x="{round(p99 + 8, 1)}" y="{middle + 5}" fill="#202020">{bar.median_ms:g} / {bar.p99_ms:g}</text>',
    ]


def _place(milliseconds: float) -> float:
    return round(_LEFT + milliseconds / _LONGEST_MS * (_WIDTH - _LEFT - 100), 1)


if __name__ == "__main__":
    sys.exit(write_or_check(PICTURE, render_picture, "dev/figures_page.py", "Draw docs/freshness.svg for README.md."))
