"""Expiry as a model: an expirer that may die, a reader that holds what it reads, a commit that lets a file come back.

Every protection is a flag, so that each can be switched off and must then be missed. The first snapshot shows file
`a`, the second replaces it by `b`, and a third may let `a` come back, as moves and rollbacks do: by another entry of
the same file. Storage, database and actors are all part of the state.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Protections:
    """Which rules hold; all by default."""

    leases: bool = True  # C7: expiry stops at the lowest pin
    locked: bool = True  # C7: pins are looked at in the transaction that expires, under the head's lock
    counted: bool = True  # C4: a file is aborted with the last entry that refers to it
    forgotten_last: bool = True  # a file leaves the list behind being deleted


@dataclass(frozen=True)
class Entry:
    """An entry of a file: live from `added` until before `removed`; 0: still."""

    path: str
    added: int
    removed: int = 0


@dataclass(frozen=True)
class State:
    """Everything there is."""

    entries: frozenset[Entry] = frozenset({Entry("a", 1, 2), Entry("b", 2)})
    earliest: int = 1
    latest: int = 2
    stored: frozenset[str] = frozenset({"a", "b"})
    expired: frozenset[str] = frozenset()
    lease: int = 0
    reading: int = 0
    """The snapshot that the reader has been told that it may read; 0: none."""
    read: bool = False
    expirer: str = "idle"
    """idle, decided (what is to go, where that is not one transaction), listed."""
    bound: int = 0
    hands: frozenset[str] = frozenset()
    """What the expirer is about to delete."""
    deaths: int = 0


def live_at(state: State, snapshot: int) -> set[str]:
    """The files of a snapshot."""
    return {each.path for each in state.entries if each.added <= snapshot and not 0 < each.removed <= snapshot}


def violation(state: State) -> str | None:
    """What is wrong with a state."""
    if not live_at(state, state.latest) <= state.stored:
        return "live files are not in the store"
    if state.reading and not ({"a"} if state.reading == 1 else {"b"}) <= state.stored:
        return "a reader lost what it holds"
    return None


def is_over(state: State) -> bool:
    """Nothing more will happen but expiry, and that has nothing left to do."""
    return state.earliest == state.latest and not state.expired and state.expirer == "idle" and not state.reading


def orphans(state: State) -> str | None:
    """What is wrong at an end: files that nobody will ever delete."""
    left = state.stored - live_at(state, state.latest)
    return f"{sorted(left)} is never deleted" if is_over(state) and left else violation(state)


def steps(state: State, rules: Protections) -> Iterator[tuple[str, State]]:
    """Each step that may come next."""
    yield from _reader_steps(state)
    yield from _expirer_steps(state, rules)
    if state.latest == 2 and state.earliest == 1:
        # A rollback to the first snapshot, which can be read: another entry of its file.
        back = frozenset({Entry("a", 1, 2), Entry("b", 2, 3), Entry("a", 3)})
        yield "the first state comes back", replace(state, entries=back, latest=3)


def _reader_steps(state: State) -> Iterator[tuple[str, State]]:
    if not state.reading and not state.read:
        # The newest, or the first one while it is kept.
        for snapshot in {state.earliest, 2}:
            if state.earliest <= snapshot <= 2:
                yield f"a reader holds {snapshot}", replace(state, lease=snapshot, reading=snapshot)
    if state.reading:
        yield "the reader ends", replace(state, lease=0, reading=0, read=True)


def _expirer_steps(state: State, rules: Protections) -> Iterator[tuple[str, State]]:
    if state.expirer == "idle" and state.earliest < state.latest:
        bound = _bound(state, rules)
        if rules.locked:
            if bound > state.earliest:
                yield "expires", _expire(state, bound, rules)
        else:
            yield "looks at pins", replace(state, expirer="decided", bound=bound)
    elif state.expirer == "decided":
        yield "expires by what it saw", replace(_expire(state, max(state.bound, state.earliest), rules), expirer="idle")
    if state.expirer == "idle" and state.expired:
        left = state.expired if rules.forgotten_last else frozenset[str]()
        yield "lists what is aborted", replace(state, expirer="listed", hands=state.expired, expired=left)
    elif state.expirer == "listed":
        after = replace(state, stored=state.stored - state.hands, expirer="idle", hands=frozenset())
        yield "deletes and forgets", replace(after, expired=state.expired - state.hands)
        yield "deletes and dies", replace(after, deaths=1)
        if not state.deaths:
            yield "dies", replace(state, expirer="idle", hands=frozenset(), deaths=1)


def _bound(state: State, rules: Protections) -> int:
    return min(state.latest, state.lease) if rules.leases and state.lease else state.latest


def _expire(state: State, bound: int, rules: Protections) -> State:
    gone = {each for each in state.entries if 0 < each.removed <= bound}
    left = state.entries - gone
    referred = {each.path for each in left} if rules.counted else set()
    expired = {each.path for each in gone} - referred
    return replace(state, entries=left, earliest=bound, expired=state.expired | expired)
