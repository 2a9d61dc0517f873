"""Colours, scales and words of pictures."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.pictures.svg.scales import Scale, count_ticks, size_ticks, time_ticks
from lakelog.pictures.svg.style import PALETTE, STYLE, TEXT_PAINTS, Paint
from lakelog.pictures.svg.words import age, clean, fit, measure, short_count, wrap

SOLID: tuple[Paint, ...] = ("blue", "teal", "amber", "purple", "red", "gray")


def luminance(colour: str) -> float:
    """Of WCAG 2.2."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrasts_fulfil_aa(scheme: str) -> None:
    def colour(paint: Paint) -> str:
        found: str = getattr(PALETTE[paint], scheme)
        return found

    for ground in ("ground", "panel"):
        for paint in TEXT_PAINTS:
            assert contrast(colour(paint), colour(ground)) >= 4.5, (paint, ground)
        for paint in SOLID:
            assert contrast(colour(paint), colour(ground)) >= 3, (paint, ground)
    for paint in SOLID:
        assert contrast(colour("on"), colour(paint)) >= 4.5, paint


def test_control_contrast_is_that_of_the_standard() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_the_style_sheet_touches_pictures_alone_and_has_both_schemes() -> None:
    assert STYLE.count("{") == STYLE.count("}")
    assert "<" not in STYLE
    for line in STYLE.splitlines():
        assert line.startswith((".picture", "@media", "}")), line
    assert all(f".fill-{paint}{{fill:{shade.dark}}}" in STYLE for paint, shade in PALETTE.items())


@given(st.integers(0, 10**18), st.integers(1, 8))
def test_ticks_begin_with_zero_rise_evenly_and_enclose_the_highest(highest: int, most: int) -> None:
    for make in (count_ticks, size_ticks):
        ticks = make(highest, most)
        values = [each.value for each in ticks]
        assert values[0] == 0
        assert values[-1] >= highest * (1 - 1e-9)
        assert 2 <= len(ticks) <= most + 1
        steps = [later - earlier for earlier, later in pairwise(values)]
        assert min(steps) == pytest.approx(max(steps))


@given(st.integers(0, 4 * 10**12), st.integers(0, 10**11), st.integers(1, 12))
def test_ticks_of_time_are_few_and_inside(first: int, length: int, most: int) -> None:
    ticks = time_ticks(first, first + length, most)
    assert len(ticks) <= most + 1
    assert all(first <= each.value <= first + length for each in ticks)


@given(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9), st.floats(-1e9, 1e9))
def test_a_scale_never_leaves_its_ends(first: float, last: float, value: float) -> None:
    assert 10 <= Scale(first, last, 10, 90).place(value) <= 90


@given(st.text(), st.floats(0, 500))
def test_what_is_cut_fits(text: str, room: float) -> None:
    assert measure(fit(text, room, 12), 12) <= room + 1e-6 or fit(text, room, 12) == ""
    assert all(measure(line, 12) <= room + 1e-6 for line in wrap(text, room, 12))
    assert clean(text).isprintable()


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (-5, "0.0 s"),
        (340, "0.3 s"),
        (12_000, "12 s"),
        (125_000, "2 min 5 s"),
        (3_600_000, "1 h"),
        (9 * 10**7, "1 d 1 h"),
    ],
)
def test_ages(milliseconds: int, text: str) -> None:
    assert age(milliseconds) == text


def test_short_counts() -> None:
    assert [short_count(each) for each in (0, 999, 1000, 1_500_000, 2.5)] == ["0", "999", "1 k", "1.5 M", "2.5"]
