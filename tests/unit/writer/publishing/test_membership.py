"""How publishers count each other."""

from __future__ import annotations

from typing import Any

import pytest

from lakelog.errors import Fenced
from lakelog.format.jobs.work import LeaseGrant
from lakelog.format.tables.table import TableName
from writer.publishing.topics.membership import LOOK_EVERY, PublisherMembership, fair_share


class _Leases:
    """The part of a metastore that grants leases."""

    def __init__(self) -> None:
        self.held: dict[str, tuple[str, int]] = {}
        self.epochs: dict[str, int] = {}
        self.effects = 0

    def acquire_lease(self, name: str, holder: str, _duration_ms: int) -> LeaseGrant:
        if name in self.held:
            return LeaseGrant(False, self.held[name][1], self.held[name][0], 10)
        self.effects += 1
        self.epochs[name] = self.epochs.get(name, 0) + 1
        self.held[name] = (holder, self.epochs[name])
        return LeaseGrant(True, self.epochs[name], holder, 10)

    def renew_lease(self, name: str, epoch: int, _duration_ms: int) -> int:
        if self.held.get(name, ("", 0))[1] != epoch:
            raise Fenced("Another holds it.")
        return 10

    def release_lease(self, name: str, epoch: int) -> None:
        self.effects += 1
        if self.held.get(name, ("", 0))[1] == epoch:
            del self.held[name]


def _membership(leases: Any, holder: str, *tables: str) -> PublisherMembership:
    return PublisherMembership(leases, holder, 1000, [TableName("shop", each) for each in tables])


def _count_in_turn(*members: PublisherMembership) -> list[int]:
    """What each counts when all have looked for new ones."""
    for _ in range(LOOK_EVERY):
        counts = [membership.count() for membership in members]
    return counts


def test_each_takes_the_lowest_membership_and_counts_all() -> None:
    leases = _Leases()
    three = [_membership(leases, name) for name in "abc"]
    assert [membership.count() for membership in three] == [1, 2, 3]
    assert _count_in_turn(*three) == [3, 3, 3]
    assert sorted(leases.held) == ["publisher-seat/0", "publisher-seat/1", "publisher-seat/2"]


def test_who_leaves_or_dies_is_not_counted() -> None:
    leases = _Leases()
    three = [_membership(leases, name) for name in "abc"]
    for membership in three:
        membership.count()
    three[0].leave()
    leases.held.pop("publisher-seat/1")
    assert three[2].count() == 1
    assert three[1].count() == 2, "it takes another seat"


def test_one_membership_that_is_free_hides_no_one() -> None:
    leases = _Leases()
    for membership in (first := [_membership(leases, name) for name in "abcd"]):
        membership.count()
    first[1].leave()
    assert _count_in_turn(first[0]) == [3]


def test_who_is_left_moves_up_and_is_counted() -> None:
    leases = _Leases()
    for membership in (six := [_membership(leases, name) for name in "abcdef"]):
        membership.count()
    for membership in six[:4]:
        membership.leave()
    for membership in six[4:] * 2:
        membership.count()
    assert [membership.count() for membership in six[4:]] == [2, 2]
    assert {name: holder for name, (holder, _) in leases.held.items()} == {
        "publisher-seat/0": "e",
        "publisher-seat/1": "f",
    }


def test_only_those_who_publish_the_same_tables_are_counted() -> None:
    leases = _Leases()
    all_tables, other = _membership(leases, "a"), _membership(leases, "b", "orders")
    same = [_membership(leases, "c", "items", "visits"), _membership(leases, "d", "visits", "items")]
    assert [each.count() for each in (all_tables, other, *same)] == [1, 1, 1, 2]
    assert _count_in_turn(all_tables, other, *same) == [1, 1, 2, 2]


def test_who_is_alone_takes_and_gives_back_others_leases_in_each_fifth_count_only() -> None:
    leases = _Leases()
    membership = _membership(leases, "a")
    assert membership.count() == 1
    before = leases.effects
    for _ in range(LOOK_EVERY - 1):
        assert membership.count() == 1
    assert leases.effects == before
    membership.count()
    assert leases.effects == before + 4


@pytest.mark.parametrize(("tables", "publishers", "share"), [(0, 1, 0), (5, 2, 3), (6, 3, 2), (1, 4, 1), (7, 0, 7)])
def test_shares_add_up(tables: int, publishers: int, share: int) -> None:
    assert fair_share(tables, publishers) == share
