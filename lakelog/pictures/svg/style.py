"""The colours of pictures in both schemes, and the style sheet made of them.

Every colour has a contrast of at least 3:1 against the ground, and those of text 4.5:1 (WCAG 2.2 AA), in both schemes;
a test computes it. Shapes name a paint, never a colour, so that the style sheet alone decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Paint = Literal[
    "ground", "panel", "grid", "ink", "soft", "blue", "teal", "amber", "purple", "red", "gray", "on", "none"
]


@dataclass(frozen=True)
class Shade:
    """A paint's colour on a light and on a dark ground."""

    light: str
    dark: str


PALETTE: Final[dict[Paint, Shade]] = {
    "ground": Shade("#ffffff", "#14181d"),
    "panel": Shade("#f2f4f6", "#20262d"),
    "grid": Shade("#d8dde3", "#3a424c"),
    "ink": Shade("#1c2127", "#e6e9ec"),
    "soft": Shade("#4f5863", "#aab3bd"),
    "blue": Shade("#2f6f9f", "#7ab8e6"),
    "teal": Shade("#25725a", "#6fcf9f"),
    "amber": Shade("#a65d00", "#e5a84b"),
    "purple": Shade("#7a5aa6", "#b9a0e0"),
    "red": Shade("#b3362b", "#f28b82"),
    "gray": Shade("#6b7480", "#9aa4af"),
    # Text on one of the colours.
    "on": Shade("#ffffff", "#14181d"),
}
TEXT_PAINTS: Final[tuple[Paint, ...]] = ("ink", "soft", "blue", "teal", "amber", "purple", "red")
"""Paints that text may have."""


def _to_rules(scheme: Literal["light", "dark"]) -> str:
    shades = {paint: getattr(shade, scheme) for paint, shade in PALETTE.items()}
    fills = [f".picture .fill-{paint}{{fill:{colour}}}" for paint, colour in shades.items()]
    lines = [f".picture .line-{paint}{{stroke:{colour}}}" for paint, colour in shades.items()]
    return "\n".join([*fills, *lines])


STYLE: Final = f"""\
.picture{{max-width:100%;height:auto;font-family:system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}}
.picture .fill-none{{fill:none}}
.picture-narrow{{display:none}}
@media (max-width:600px){{
.picture-narrow{{display:block}}
.picture-wide{{display:none}}
}}
{_to_rules("light")}
@media (prefers-color-scheme:dark){{
{_to_rules("dark")}
}}
"""
"""The style sheet of all pictures, for pages that show them inline. `picture-wide` and `picture-narrow` are for two
drawings of one picture, of which a page shows the one that fits."""
