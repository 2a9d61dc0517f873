"""Draws the pictures of the documentation, `docs/<name>.svg`, from `dev/pictures/<name>.json`.

`dev/record_pictures.py` has recorded these from a real table. The drawing is that of `lakelog plot`.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import typing
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from dev.pages import write_or_check
from lakelog.pictures.amplification import Amplification, draw_amplification
from lakelog.pictures.bucket_runs import BucketRuns
from lakelog.pictures.levels import draw_levels
from lakelog.pictures.path import Path as RowPath
from lakelog.pictures.path import draw_path
from lakelog.pictures.svg.picture import Picture
from lakelog.pictures.timeline import Timeline, draw_timeline

_ROOT: Final = Path(__file__).parent.parent
DATA: Final = _ROOT / "dev/pictures"
PICTURES: Final[dict[str, tuple[type, Callable[..., Picture]]]] = {
    "amplification": (Amplification, draw_amplification),
    "levels": (BucketRuns, draw_levels),
    "path": (RowPath, draw_path),
    "timeline": (Timeline, draw_timeline),
}


def render_picture(name: str) -> str:
    """The picture as SVG."""
    kind, draw = PICTURES[name]
    return draw(_read(kind, json.loads((DATA / f"{name}.json").read_text(encoding="utf-8")))).to_svg()


def _read(kind: Any, value: Any) -> Any:
    """A value of a picture's data class from JSON."""
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return typing.cast(Any, kind)(**{name: _read(hints[name], each) for name, each in value.items()})
    arguments = typing.get_args(kind)
    if isinstance(value, list):
        return tuple(_read(arguments[0], each) for each in value)
    if isinstance(value, dict):
        return _read(next(each for each in arguments if dataclasses.is_dataclass(each)), value)
    return value


if __name__ == "__main__":
    sys.exit(
        max(
            write_or_check(
                _ROOT / f"docs/{name}.svg",
                partial(render_picture, name),
                "-m dev.pictures_page",
                "Draw pictures of the documentation.",
            )
            for name in PICTURES
        )
    )
