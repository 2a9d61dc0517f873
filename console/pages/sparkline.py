"""A small line without axes, beside the number that it belongs to. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from xml.sax.saxutils import escape

_WIDTH: Final = 160
_HEIGHT: Final = 32


def draw_sparkline(values: Sequence[float], title: str) -> str:
    """An SVG of values, the oldest at the left; the lowest line is 0.

    Args:
        values: What is drawn; fewer than two: nothing.
        title: Says in words what it shows.

    Returns:
        The SVG, with classes of the console's styles; empty for too few values.
    """
    if len(values) < 2:
        return ""
    highest = max(*values, 1e-9)
    step = (_WIDTH - 4) / (len(values) - 1)
    points = " ".join(
        f"{2 + place * step:.1f},{_HEIGHT - 3 - (_HEIGHT - 6) * value / highest:.1f}"
        for place, value in enumerate(values)
    )
    return (
        f'<svg class="sparkline" role="img" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}">'
        f"<title>{escape(title)}</title>"
        f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-width="1.6" stroke-linejoin="round"/>'
        "</svg>"
    )
