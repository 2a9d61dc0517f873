"""Draws the curves of docs/operations/scaling.md, `docs/scaling.svg`, from `bench/plots/scale/`."""

from __future__ import annotations

import sys
from typing import Final

from dev.pages import write_or_check
from dev.scaling_figures import REPLICAS, ROOT, SERVICES, Figures, load_figures

PICTURE: Final = ROOT / "docs/scaling.svg"

_PANEL: Final = 180
_WIDTH: Final = 16 + _PANEL * len(SERVICES)
_TOP: Final = 66
_HEIGHT: Final = 150
_MOST: Final = 4.0
"""Four replicas cannot do more than four times the work of one."""


def render_picture() -> str:
    """The plot as an SVG: a panel for each service, with the rate of 1, 2 and 4 replicas against that of one."""
    figures = load_figures()
    cores = figures.machine["cores"]
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_TOP + _HEIGHT + 92}" '
        f'viewBox="0 0 {_WIDTH} {_TOP + _HEIGHT + 92}" font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        '<text x="16" y="24" font-size="15" font-weight="bold" fill="#202020">'
        "The rate of 1, 2 and 4 replicas of each service, against one</text>",
        '<text x="16" y="42" fill="#505050">Dashed: as many times as much. All processes share the '
        f"{cores} cores of one machine, so curves end where these are busy.</text>",
    ]
    for number, service in enumerate(SERVICES):
        lines += _draw_panel(figures, service, 16 + number * _PANEL)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _draw_panel(figures: Figures, service: str, left: int) -> list[str]:
    rates = [figures.point(service, replicas, "rate") for replicas in REPLICAS]
    own = [figures.point(service, replicas, "CPU of the service") for replicas in REPLICAS]
    busy = [figures.point(service, replicas, "busy cores") for replicas in REPLICAS]
    places = [_place(left, replicas, rate / rates[0]) for replicas, rate in zip(REPLICAS, rates, strict=True)]
    ideal = [_place(left, replicas, replicas) for replicas in REPLICAS]
    bottom = _TOP + _HEIGHT
    unit = figures.unit(service)
    lines = [
        f'<text x="{left + 4}" y="{_TOP - 6}" font-size="12" font-weight="bold" fill="#202020">{service}</text>',
        f'<rect x="{left}" y="{_TOP}" width="{_PANEL - 24}" height="{_HEIGHT}" fill="none" stroke="#d8d8d8"/>',
        f'<polyline points="{_join(ideal)}" fill="none" stroke="#a0a0a0" stroke-dasharray="4 4"/>',
        f'<polyline points="{_join(places)}" fill="none" stroke="#2f6f9f" stroke-width="2"/>',
    ]
    for (x, y), replicas, rate in zip(places, REPLICAS, rates, strict=True):
        lines += [
            f'<circle cx="{x}" cy="{y}" r="3.5" fill="#2f6f9f"/>',
            f'<text x="{x}" y="{round(y + 16, 1)}" text-anchor="middle" fill="#202020">{rate:.3g}</text>',
            f'<text x="{x}" y="{bottom + 14}" text-anchor="middle" fill="#505050">{replicas}</text>',
        ]
    return [
        *lines,
        f'<text x="{left + 4}" y="{bottom + 32}" fill="#505050">{unit} a second</text>',
        f'<text x="{left + 4}" y="{bottom + 48}" fill="#505050">CPU ms each: {_list(own)}</text>',
        f'<text x="{left + 4}" y="{bottom + 64}" fill="#505050">busy cores: {_list(busy)}</text>',
    ]


def _place(left: int, replicas: int, times: float) -> tuple[float, float]:
    x = left + 18 + (replicas - 1) / 3 * (_PANEL - 24 - 36)
    return round(x, 1), round(_TOP + _HEIGHT * (1 - min(times, _MOST) / (_MOST * 1.08)), 1)


def _join(places: list[tuple[float, float]]) -> str:
    return " ".join(f"{x},{y}" for x, y in places)


def _list(values: list[float]) -> str:
    return ", ".join(f"{value:.2g}" if value < 100 else f"{value:,.0f}" for value in values)


if __name__ == "__main__":
    sys.exit(write_or_check(PICTURE, render_picture, "dev/scaling_page.py", "Draw docs/scaling.svg."))
