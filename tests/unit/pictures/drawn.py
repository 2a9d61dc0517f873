"""What every picture must be, whatever its data: well-formed, allowed inline by the console's policy, and in words."""

from __future__ import annotations

import dataclasses
import itertools
import re
import typing
from collections.abc import Callable
from types import UnionType
from typing import Any, Literal
from xml.etree import ElementTree

from hypothesis import strategies as st

from lakelog.pictures.svg.picture import Picture
from lakelog.pictures.svg.words import measure

SVG = "{http://www.w3.org/2000/svg}"
ALLOWED = {"svg", "title", "desc", "text", "rect", "line", "circle", "polygon", "polyline"}
_TIGHT, _GAP = 0.9, 3

HOSTILE = (
    "</title><script>alert(1)</script>",
    "\"' onload=alert(1) x='",
    "]]><!--",
    "&amp;&#0;&",
    "a\x00\x1b[31m\ud800\ufffe",
    "\u202edrawkcab\u202c",
    "line\r\nbreak",
    "表" * 90,
    "W" * 3000,
    "",
)
NAMES = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=40))
NUMBERS = st.one_of(st.sampled_from((0, 1, 2**60)), st.integers(0, 10**6))
TIMES_MS = st.one_of(st.sampled_from((0, 1_700_000_000_000)), st.integers(0, 4_000_000_000_000))


def data_of(kind: Any, name: str = "") -> st.SearchStrategy[Any]:
    """Any value of a type of the pictures' data classes."""
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return st.builds(typing.cast(Any, kind), **{each: data_of(hint, each) for each, hint in hints.items()})
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, UnionType):
        return st.one_of(*(data_of(each, name) for each in arguments))
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin is tuple:
        return st.lists(data_of(arguments[0]), max_size=4).map(tuple)
    if name == "kind":
        return st.sampled_from(("APPEND", "OVERWRITE", "COMPACT"))
    simple = {
        str: NAMES,
        int: TIMES_MS if name.endswith("_ms") else NUMBERS,
        float: st.floats(0, 1),
        bool: st.booleans(),
        type(None): st.none(),
    }
    return simple[kind]


def check_picture(picture: Picture) -> None:
    """Raises where a picture would break a page, or not be understood."""
    inline = ElementTree.fromstring(picture.to_svg(standalone=False))
    for element in inline.iter():
        assert element.tag in ALLOWED, element.tag
        for attribute, value in element.attrib.items():
            assert not attribute.startswith(("style", "on")), attribute
            assert not re.search(r"\bnan\b|\binf|\bNone\b|url\(|script", value), (attribute, value)
    assert inline.get("role") == "img"
    assert [each.tag for each in inline][:2] == ["title", "desc"]
    assert inline[0].text
    assert inline[1].text
    whole = ElementTree.fromstring(picture.to_svg())
    assert [each.tag for each in whole][:4] == [f"{SVG}title", f"{SVG}desc", f"{SVG}style", f"{SVG}rect"]
    assert picture.to_svg().encode("utf-8")


def check_readable(picture: Picture) -> None:
    """As `check_picture`, for figures as they occur: of any others texts may meet."""
    check_picture(picture)
    assert find_overlaps(picture) == []


def find_overlaps(picture: Picture) -> list[str]:
    """Texts that are written over each other, or over the edge. Widths are measured as the drawing does, a bit less."""
    boxes = []
    for each in ElementTree.fromstring(picture.to_svg(standalone=False)).iter("text"):
        text, size = each.text or "", float(each.get("font-size", 12))
        width = _TIGHT * measure(text, size, bold=each.get("font-weight") is not None)
        x = float(each.get("x", 0)) - {"middle": width / 2, "end": width}.get(each.get("text-anchor", ""), 0)
        boxes.append((x, float(each.get("y", 0)), width, size, text))
    found = [f"{text!r} is cut" for x, _, width, _, text in boxes if x < -1 or x + width > picture.width + 1]
    for (x, y, width, size, text), (x2, y2, width2, _, text2) in itertools.combinations(boxes, 2):
        if abs(y - y2) < size * 0.7 and x < x2 + width2 + _GAP and x2 < x + width + _GAP:
            found.append(f"{text!r} and {text2!r}")
    return found


def texts_of(picture: Picture) -> list[str]:
    return [each.text or "" for each in ElementTree.fromstring(picture.to_svg(standalone=False)).iter("text")]


def draw_both(draw: Callable[[Any, int], Picture], data: Any) -> list[Picture]:
    return [draw(data, 760), draw(data, 340)]
