"""Which seeds of random tests a run takes: a push takes a quarter of them, and another quarter with each commit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import pytest

QUARTERS: Final = 4


def describe_seeded(item: pytest.Item) -> str | None:
    """What tests that differ in nothing but their `seed` have in common; None: the test has no seed."""
    arguments = dict(getattr(getattr(item, "callspec", None), "params", {}))
    if arguments.pop("seed", None) is None:
        return None
    return f"{item.nodeid.partition('[')[0]} {sorted(arguments.items(), key=lambda argument: argument[0])}"


def find_other_quarters(groups: Sequence[str | None], quarter: int) -> set[int]:
    """The places of the tests that are not of this quarter; pure.

    Args:
        groups: Of each test, what it has in common with those of other seeds; None: it has no seed, and always runs.
        quarter: 0 to 3. A group with fewer than four tests always runs as a whole.
    """
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, group in enumerate(groups):
        if group is not None:
            places[group].append(place)
    return {
        place
        for of_group in places.values()
        if len(of_group) >= QUARTERS
        for number, place in enumerate(of_group)
        if number % QUARTERS != quarter
    }
