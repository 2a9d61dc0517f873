"""Places among the open calls: in all, of a caller, of a connection, and the reserve of commits."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.errors import Unavailable
from lakelog.serving.edge.shares import ShareLimits, Shares

LIMITS = ShareLimits("calls", "--max-calls", total=20, caller=10, connection=5, reserve=0.2)


def take_all(
    shares: Shares, caller: str | None, connection: str, *, is_commit: bool = False
) -> list[Callable[[], None]]:
    taken: list[Callable[[], None]] = []
    with contextlib.suppress(Unavailable):
        while True:
            taken.append(shares.take(caller, connection, is_commit=is_commit))
    return taken


def test_each_scope_has_its_own_limit_and_the_refusal_names_it() -> None:
    shares = Shares(LIMITS)
    assert len(take_all(shares, "ann", "c1")) == 4
    with pytest.raises(Unavailable, match=r"The connection c1 has 4 calls open, and 4 is the limit\. The rest up to 5"):
        shares.take("ann", "c1")
    assert len(take_all(shares, "ann", "c2")) == 4
    with pytest.raises(Unavailable, match=r"The caller ann has 8 calls open, and 8 is the limit\. .*--max-calls"):
        shares.take("ann", "c3")
    assert len(take_all(shares, "bob", "c4") + take_all(shares, "bob", "c5")) == 8
    with pytest.raises(Unavailable, match=r"The service has 16 calls open, and 16 is the limit\.") as caught:
        shares.take("eve", "c6")
    assert caught.value.reason == "TOO_MANY_CALLS"
    assert caught.value.metadata == {"limit": "16", "kind_of_call": "calls"}


def test_only_commits_take_the_reserve_of_each_scope() -> None:
    shares = Shares(LIMITS)
    for caller in ("ann", "bob"):
        for number in range(2):
            take_all(shares, caller, f"{caller}{number}")
    assert shares.open_count == 16
    assert len(take_all(shares, "ann", "ann0", is_commit=True)) == 1
    assert len(take_all(shares, "ann", "ann9", is_commit=True)) == 1, "the caller's own reserve is used up"
    assert len(take_all(shares, "eve", "eve0", is_commit=True)) == 2, "and then the service's"
    assert shares.open_count == 20


def test_callers_that_are_not_recognized_have_shares_by_connection_only() -> None:
    shares = Shares(LIMITS)
    assert [len(take_all(shares, None, f"c{number}")) for number in range(5)] == [4, 4, 4, 4, 0]


def test_a_limit_is_never_so_small_that_nothing_but_commits_is_possible() -> None:
    shares = Shares(ShareLimits("calls", "--max-calls", 1, 1, 1, reserve=1.0))
    assert len(take_all(shares, "ann", "c")) == 1


@given(st.lists(st.tuples(st.sampled_from(["ann", "bob", None]), st.sampled_from("123"), st.booleans(), st.booleans())))
def test_all_that_is_given_back_can_be_taken_again(steps: list[tuple[str | None, str, bool, bool]]) -> None:
    shares = Shares(LIMITS)
    taken: list[Callable[[], None]] = []
    for caller, connection, is_commit, gives_back in steps:
        if gives_back and taken:
            taken.pop()()
            continue
        with contextlib.suppress(Unavailable):
            taken.append(shares.take(caller, connection, is_commit=is_commit))
        assert shares.open_count == len(taken) <= LIMITS.total
    for give_back in taken:
        give_back()
    assert shares.open_count == 0
    assert len(take_all(shares, "ann", "1", is_commit=True)) == LIMITS.connection
