"""A quarter of the rotating tests a push: the four quarters are all of them, and no other test is ever left out."""

from __future__ import annotations

from tests.support.rotation import QUARTERS, find_other_quarters

GROUPS = ["a", None, "b", "a", "a", None, "c", *["a"] * 7, *["c"] * 3, "b"]


def test_each_seed_is_in_one_quarter() -> None:
    left_out = [find_other_quarters(GROUPS, quarter) for quarter in range(QUARTERS)]
    for place, group in enumerate(GROUPS):
        runs = sum(place not in of_quarter for of_quarter in left_out)
        assert runs == (1 if group in ("a", "c") else QUARTERS), (place, group)


def test_each_group_runs_in_each_quarter() -> None:
    for quarter in range(QUARTERS):
        left_out = find_other_quarters(GROUPS, quarter)
        assert {group for place, group in enumerate(GROUPS) if place not in left_out} == {"a", "b", "c", None}
