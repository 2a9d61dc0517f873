"""Pictures of a table for its pages: one for a wide window and one for a telephone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from lakelog.errors import LakelogError, NotFound
from lakelog.pictures.svg.picture import DEFAULT_WIDTH, NARROW_WIDTH, Picture

Data = TypeVar("Data")


@dataclass(frozen=True)
class Drawn:
    """SVG of one picture in two widths, of which the style sheet shows the one that fits.

    Args:
        wide: For a wide window.
        narrow: For a telephone.
    """

    wide: str
    narrow: str


def draw(load: Callable[[], Data], draw_data: Callable[[Data, int], Picture]) -> Drawn | None:
    """Loads and draws; None: what it shows cannot be loaded now, which the rest of the page need not suffer from.

    Raises:
        NotFound: The table was dropped.
    """
    try:
        data = load()
    except NotFound:
        raise
    except LakelogError:
        return None
    return Drawn(*(draw_data(data, width).to_svg(standalone=False) for width in (DEFAULT_WIDTH, NARROW_WIDTH)))
