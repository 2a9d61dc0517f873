"""The catalogs of callers: few, closed when no one uses them, and never before."""

from __future__ import annotations

from typing import Any, cast

import pytest

from console.http import callers
from console.http.callers import Callers
from lakelog.client.connection.tokens import Token
from lakelog.clock import SystemClock
from lakelog.errors import InvalidArgument
from lakelog.sdk.catalog import Catalog


class FakeCatalog:
    """Stands for a catalog."""

    def __init__(self, token: Token | None) -> None:
        self.token = token
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


class SetClock(SystemClock):
    """A clock whose steady time is set."""

    now_s = 0.0

    def monotonic_s(self) -> float:
        return self.now_s


class World:
    """Callers, and all catalogs that were made for them."""

    def __init__(self, own_token: str | None = None) -> None:
        self.clock = SetClock()
        self.made: list[FakeCatalog] = []
        self.callers = Callers(self._connect, own_token, self.clock)

    def _connect(self, token: Token | None) -> Catalog:
        self.made.append(FakeCatalog(token))
        return cast(Any, self.made[-1])

    def visit(self, *tokens: str | None) -> list[FakeCatalog]:
        found = []
        for token in tokens:
            with self.callers.catalog(token) as catalog:
                found.append(cast(Any, catalog))
        return found


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> World:
    """Two callers are remembered."""
    monkeypatch.setattr(callers, "_MOST_CALLERS", 2)
    return World()


def test_each_token_has_a_catalog_of_its_own(two: World) -> None:
    first, second, again, no_token = two.visit("ann", "bob", "ann", None)
    assert first is again
    assert [each.token for each in (first, second, no_token)] == ["ann", "bob", None]


def test_the_longest_idle_of_too_many_is_closed(two: World) -> None:
    ann, bob, _, carol = two.visit("ann", "bob", "ann", "carol")
    assert [each.closed for each in (ann, bob, carol)] == [0, 1, 0]


def test_a_catalog_in_use_is_closed_by_its_last_user_and_not_by_new_callers(two: World) -> None:
    with two.callers.catalog("ann"):
        with two.callers.catalog("ann"):
            two.visit("bob", "carol", "dave")
        assert two.made[0].closed == 0, "another request still reads with it"
    assert two.made[0].closed == 1
    assert two.visit("ann")[0] is not two.made[0]


def test_idle_callers_are_closed_when_anyone_comes(two: World) -> None:
    (ann,) = two.visit("ann")
    two.clock.now_s = 599.0
    assert two.visit("ann") == [ann]
    two.clock.now_s += 601.0
    two.visit("bob")
    assert ann.closed == 1


def test_an_error_in_its_use_gives_a_catalog_back(two: World) -> None:
    with pytest.raises(RuntimeError), two.callers.catalog("ann"):
        raise RuntimeError
    two.visit("bob", "carol")
    assert two.made[0].closed == 1


def test_all_are_closed_at_the_end(two: World) -> None:
    two.visit("ann", "bob")
    two.callers.close()
    assert [each.closed for each in two.made] == [1, 1]


def test_the_consoles_own_token_is_for_callers_without_one() -> None:
    world = World("own")
    assert [each.token for each in world.visit(None, "ann")] == ["own", "ann"]


@pytest.mark.parametrize("token", ["", "two words", "line\nend", "ä", "x" * 8193])
def test_what_is_no_token_makes_no_catalog(two: World, token: str) -> None:
    with pytest.raises(InvalidArgument, match="copy it again"):
        two.visit(token)
    assert not two.made
