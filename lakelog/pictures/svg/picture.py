"""A finished picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from xml.sax.saxutils import escape

from lakelog.pictures.svg.style import STYLE

DEFAULT_WIDTH: Final = 760
NARROW_WIDTH: Final = 340
"""For the screen of a telephone, on which a wide picture would be shrunk until no one can read it."""
LEAST_WIDTH: Final = 300


@dataclass(frozen=True)
class Picture:
    """A drawing as SVG elements, with what it shows in words.

    Args:
        title: What it shows.
        description: The same with its figures, for people who cannot see it.
        width: Of its view box; the text has 11 to 15 of these units.
        height: Of its view box.
        elements: SVG elements, escaped.
    """

    title: str
    description: str
    width: int
    height: int
    elements: tuple[str, ...]

    def to_svg(self, standalone: bool = True) -> str:
        """The picture as SVG.

        Args:
            standalone: With namespace, ground and colours, for a file. Else for a page that has the style sheet
                `lakelog.pictures.svg.style.STYLE`: without a style, so that a strict content security policy allows it.
        """
        size = f'width="{self.width}" height="{self.height}" viewBox="0 0 {self.width} {self.height}"'
        namespace = 'xmlns="http://www.w3.org/2000/svg" ' if standalone else ""
        lines = [
            f'<svg {namespace}class="picture" role="img" {size} font-size="12">',
            f"<title>{escape(self.title)}</title>",
            f"<desc>{escape(self.description)}</desc>",
        ]
        if standalone:
            lines += [f"<style>{escape(STYLE)}</style>", '<rect class="fill-ground" width="100%" height="100%"/>']
        return "\n".join([*lines, *self.elements, "</svg>"]) + "\n"
