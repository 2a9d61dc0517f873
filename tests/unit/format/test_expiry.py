"""What expires by number and age, and what pins hold back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakelog.format.commit.facts import TableHead
from lakelog.format.retention.expiry import (
    ExpiryHorizon,
    Retained,
    Retention,
    SnapshotLease,
    SnapshotLeaseKind,
    find_bound,
    plan_expiry,
    to_retention,
)
from lakelog.options.values import TableOptions

HEAD = TableHead(1, "u", "shop.orders", 0, 1, False, latest_snapshot_id=20)


def consumer(snapshot_id: int) -> SnapshotLease:
    return SnapshotLease(SnapshotLeaseKind.CONSUMER, f"at-{snapshot_id}", snapshot_id)


@pytest.mark.parametrize(
    ("least", "most", "newest_old", "earliest"),
    [
        # Nothing is old enough.
        (1, None, 0, 1),
        # The newest one that is old was the state when the time began, and stays.
        (1, None, 7, 7),
        (1, None, 20, 20),
        # However old they are.
        (10, None, 20, 11),
        (30, None, 20, 1),
        # However young they are.
        (1, 5, 0, 16),
        (5, 5, 20, 16),
        (1, 50, 0, 1),
        (3, 5, 17, 17),
        (3, 5, 20, 18),
    ],
)
def test_what_is_kept_by_number_and_age(least: int, most: int | None, newest_old: int, earliest: int) -> None:
    assert find_bound(HEAD, Retained(0, least, most), newest_old) == earliest


def test_the_lowest_snapshot_lease_holds_all_after_it() -> None:
    found = plan_expiry(HEAD, ExpiryHorizon(15, 15), [consumer(12), consumer(9), consumer(18)])
    assert (found.earliest, found.earliest_change) == (9, 9)
    assert found.held_by == (consumer(9), consumer(12))


def test_a_snapshot_lease_that_holds_nothing_back_is_not_named() -> None:
    found = plan_expiry(HEAD, ExpiryHorizon(15, 15), [consumer(15), consumer(20)])
    assert (found.earliest, found.held_by) == (15, ())


@pytest.mark.parametrize(
    ("position", "earliest"),
    [
        # What it needs next is still there, so that it stays.
        (0, 5),
        (4, 5),
        (5, 5),
        (6, 6),
    ],
)
def test_a_snapshot_lease_below_what_is_kept(position: int, earliest: int) -> None:
    head = replace(HEAD, earliest_snapshot_id=5, earliest_change_id=5)
    if position == 0:
        # What it would need next is gone already: keeping the rest helps nobody.
        assert plan_expiry(head, ExpiryHorizon(15, 15), [consumer(0)]).earliest == 15
        return
    assert plan_expiry(head, ExpiryHorizon(15, 15), [consumer(position)]).earliest == earliest


def test_who_begins_with_the_first_snapshot_holds_it() -> None:
    assert plan_expiry(HEAD, ExpiryHorizon(15, 15), [consumer(0)]).earliest == 1


def test_the_bounds_never_go_back() -> None:
    head = replace(HEAD, earliest_snapshot_id=9, earliest_change_id=6)
    found = plan_expiry(head, ExpiryHorizon(3, 2), [])
    assert (found.earliest, found.earliest_change) == (9, 6)


def test_changes_live_longer_than_states() -> None:
    found = plan_expiry(HEAD, ExpiryHorizon(15, 4), [])
    assert (found.earliest, found.earliest_change) == (15, 4)
    held = plan_expiry(HEAD, ExpiryHorizon(15, 4), [consumer(2)])
    assert (held.earliest, held.earliest_change) == (2, 2)
    # Its state has expired, and the changes that it needs next have not.
    head = replace(HEAD, earliest_snapshot_id=12, earliest_change_id=4)
    later = plan_expiry(head, ExpiryHorizon(15, 9), [consumer(6)])
    assert (later.earliest, later.earliest_change, later.held_by) == (12, 7, (consumer(6),))


def test_a_step_is_bounded() -> None:
    found = plan_expiry(HEAD, ExpiryHorizon(15, 15), [], limit=4)
    assert (found.earliest, found.earliest_change, found.is_cut) == (5, 5, True)
    head = replace(HEAD, earliest_snapshot_id=13, earliest_change_id=13)
    assert not plan_expiry(head, ExpiryHorizon(15, 15), [], limit=4).is_cut


def test_the_newest_snapshot_never_expires() -> None:
    assert plan_expiry(HEAD, ExpiryHorizon(99, 99), []).earliest == 20


def test_what_options_say() -> None:
    assert to_retention(TableOptions({})) == Retention(Retained(3_600_000, 10))
    options = {"snapshot.time-retained": "2 h", "snapshot.num-retained.min": "3", "snapshot.num-retained.max": "7"}
    assert to_retention(TableOptions(options)) == Retention(Retained(7_200_000, 3, 7))
    longer = {**options, "changelog-producer": "lookup", "changelog.time-retained": "1 d"}
    # A bound on the number of states is none on that of changelogs.
    assert to_retention(TableOptions(longer)).changelogs == Retained(86_400_000, 3)
    altered = {**longer, "changelog-producer": "none"}
    assert to_retention(TableOptions(altered)).changelogs is None
