"""The rate of commits, from overviews of one caller."""

from __future__ import annotations

from typing import Any, cast

import pytest

from console.pages.commit_rate import LONGEST_MS, Point, add_point, find_rate, split_rates
from console.pages.sparkline import draw_sparkline
from lakelog.format.jobs.overview import Overview
from lakelog.sdk.catalog import Catalog


class _Caller:
    """Stands for a catalog, of which only its identity counts."""


def overview(now_ms: int, snapshots: int) -> Overview:
    return Overview(1, 1, snapshots, 0, 0, 0, 0, now_ms)


def new_caller() -> Catalog:
    return cast(Any, _Caller())


def test_the_rate_is_of_the_last_minute() -> None:
    points = [Point(0, 0), Point(60_000, 600), Point(90_000, 610), Point(120_000, 620)]
    assert find_rate(points) == 20
    assert split_rates(points) == [600, 20, 20]
    assert split_rates(points, 2) == [20, 20]


def test_one_point_has_no_rate() -> None:
    assert find_rate([]) is None
    assert find_rate([Point(0, 5)]) is None
    assert split_rates([Point(0, 5)]) == []


def test_histories_of_callers_are_apart() -> None:
    first, second = new_caller(), new_caller()
    add_point(first, overview(0, 100))
    assert add_point(first, overview(3_000, 101)) == [Point(0, 100), Point(3_000, 101)]
    assert add_point(second, overview(3_000, 5)) == [Point(3_000, 5)]


def test_points_that_are_close_or_old_are_left_out() -> None:
    caller = new_caller()
    for at_ms in (0, 500, 3_000):
        points = add_point(caller, overview(at_ms, at_ms))
    assert [each.at_ms for each in points] == [0, 3_000]
    assert [each.at_ms for each in add_point(caller, overview(LONGEST_MS + 1, 9_999))] == [3_000, LONGEST_MS + 1]


@pytest.mark.parametrize("later", [overview(3_000, 99), overview(-1, 101)])
def test_a_history_that_goes_back_begins_again(later: Overview) -> None:
    caller = new_caller()
    add_point(caller, overview(0, 100))
    assert len(add_point(caller, later)) == 1


def test_the_line_says_in_words_what_it_shows() -> None:
    assert draw_sparkline([1], "one") == ""
    assert draw_sparkline([], "none") == ""
    picture = draw_sparkline([0, 5, 10], "<a> & b")
    assert "<title>&lt;a&gt; &amp; b</title>" in picture
    assert 'points="2.0,29.0 80.0,16.0 158.0,3.0"' in picture
    assert "style" not in picture
    assert draw_sparkline([0, 0], "still")
