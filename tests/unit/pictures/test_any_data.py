"""Pictures of any data, hostile names among it, can be shown inline and as files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakelog.pictures.amplification import Amplification, draw_amplification
from lakelog.pictures.bucket_runs import BucketRuns
from lakelog.pictures.buckets import Buckets
from lakelog.pictures.files import Files, draw_files
from lakelog.pictures.freshness import Freshness, draw_freshness
from lakelog.pictures.lag import Lags, draw_lag
from lakelog.pictures.levels import draw_levels
from lakelog.pictures.path import Path, draw_path
from lakelog.pictures.svg.drawing import Drawing
from lakelog.pictures.svg.picture import Picture
from lakelog.pictures.timeline import Timeline, draw_timeline
from tests.unit.pictures.drawn import HOSTILE, check_picture, data_of, draw_both

PICTURES: tuple[tuple[type, Callable[..., Picture]], ...] = (
    (Amplification, draw_amplification),
    (BucketRuns, draw_levels),
    (Buckets, draw_levels),
    (Files, draw_files),
    (Freshness, draw_freshness),
    (Lags, draw_lag),
    (Path, draw_path),
    (Timeline, draw_timeline),
)


@pytest.mark.parametrize(("kind", "draw"), PICTURES, ids=[kind.__name__ for kind, _ in PICTURES])
@given(data=st.data())
@settings(max_examples=20)
def test_any_data_makes_a_picture(kind: type, draw: Callable[..., Picture], data: st.DataObject) -> None:
    drawn: Any = data.draw(data_of(kind))
    for picture in draw_both(draw, drawn):
        check_picture(picture)


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_text_and_nothing_else(name: str) -> None:
    drawing = Drawing(400)
    drawing.text(1, 2, name)
    drawing.box(1, 2, 3, 4, paint="blue", about=name)
    check_picture(drawing.finish(100, f"Table {name}", f"About {name}"))


@pytest.mark.parametrize(
    "svg",
    [
        '<svg role="img"><title>a</title><desc>b</desc><script/></svg>',
        '<svg role="img"><title>a</title><desc>b</desc><rect style="x"/></svg>',
        '<svg role="img"><title>a</title><desc>b</desc><rect x="nan"/></svg>',
        '<svg role="img"><title>a</title><desc>b</desc><text>a<b</text></svg>',
        '<svg role="img"><title></title><desc>b</desc></svg>',
    ],
)
def test_control_what_must_not_be_is_found(svg: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Picture, "to_svg", lambda self, standalone=True: svg)
    with pytest.raises((AssertionError, SyntaxError)):
        check_picture(Picture("a", "b", 10, 10, ()))


def test_a_place_that_is_no_number_is_our_defect() -> None:
    with pytest.raises(AssertionError, match="finite"):
        Drawing(100).text(float("nan"), 0, "x")
