"""Places are shared so that no caller takes all, and none is lost."""

from __future__ import annotations

import pytest

from console.places import Places


def take_all(places: Places, caller: str) -> int:
    taken = 0
    while places.take(caller):
        taken += 1
    return taken


@pytest.mark.parametrize(
    ("most", "of_each"),
    [(1, [1, 0, 0]), (2, [1, 1, 0]), (3, [2, 1, 0]), (4, [2, 1, 1]), (200, [133, 44, 15])],
)
def test_each_caller_leaves_some_for_the_next(most: int, of_each: list[int]) -> None:
    places = Places(most)
    assert [take_all(places, caller) for caller in ("a", "b", "c")] == of_each


def test_where_no_one_is_identified_any_place_is_taken() -> None:
    places = Places(3)
    assert take_all(places, "") == 3
    assert not places.take("a")


def test_what_is_given_back_is_free() -> None:
    places = Places(3)
    for _ in range(5):
        assert take_all(places, "a") == 2
        assert not places.is_free_for("a")
        assert places.is_free_for("b")
        places.give_back("a")
        places.give_back("a")
        assert places.count == 0
