"""The publisher's rules hold in every interleaving, and each of them is missed when it is switched off."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.model.explorer import explore
from tests.model.publisher_model import steps, violation
from tests.model.publisher_world import Protections, Publisher, State

ONE = (Publisher("p"),)
TWO = (Publisher("p"), Publisher("q"))

ZOMBIES = State(TWO, commits=3, crashes=1)
BREAKS = State(ONE, starts=3, commits=3, crashes=1, breaks=2)
ZOMBIES_AND_BREAKS = State(TWO, commits=2, breaks=1)
CHUNKS = State(TWO, commits=2, crashes=1, chunked=frozenset({2}))
CHUNKS_AND_BREAKS = State(ONE, starts=3, commits=2, breaks=2, chunked=frozenset({1, 2}))
RESTORED = State(TWO, commits=3, restores=1)
RESTORED_AND_KILLED = State(ONE, starts=3, commits=3, crashes=1, restores=1, forgets=1)
FORGOTTEN = State(ONE, starts=3, commits=3, crashes=2, forgets=2, breaks=1)
CUT = State(TWO, starts=2, commits=3, crashes=1, cuts=1)
EXPIRING = State(ONE, starts=3, commits=3, crashes=2, breaks=1, expires=True)
STAGED = State(ONE, commits=3, stages=True)
RESTARTED = State(TWO, commits=3, restarts=1, may_restart=True)
RESTARTED_AND_BROKEN = State(TWO, commits=2, breaks=1, restarts=1, may_restart=True)
SCENES = {
    "zombies": ZOMBIES,
    "breaks": BREAKS,
    "zombies-and-breaks": ZOMBIES_AND_BREAKS,
    "chunks": CHUNKS,
    "chunks-and-breaks": CHUNKS_AND_BREAKS,
    "restored": RESTORED,
    "restored-and-killed": RESTORED_AND_KILLED,
    "forgotten": FORGOTTEN,
    "cut": CUT,
    "expiring": EXPIRING,
    "staged": STAGED,
    "restarted": RESTARTED,
    "restarted-and-broken": RESTARTED_AND_BROKEN,
}


@pytest.mark.parametrize("initial", SCENES.values(), ids=SCENES.keys())
def test_the_rules_hold_in_every_interleaving(initial: State) -> None:
    found = explore(initial, lambda s: steps(s, Protections()), violation)
    assert found.violation is None, f"{found.violation}: {' / '.join(found.trace or ())}"
    assert found.states > 150, "the model hardly moved"


@pytest.mark.parametrize(
    ("off", "initial", "expected"),
    [
        ("fixed_id", ZOMBIES, "a row is there twice"),
        ("init_before_position", ZOMBIES, "a row is there twice"),
        ("reread_when_fenced", ZOMBIES, "a row is there twice"),
        ("reinit_after_break", BREAKS, "a small snapshot is torn"),
        ("reinit_after_unknown", BREAKS, "a row is there twice"),
        ("unknown_is_open", BREAKS, "rows are lost"),
        ("position_in_transaction", ZOMBIES, "a row is there twice"),
        ("position_has_rows", CHUNKS, "a row is there twice"),
        ("tail_replaces_offsets", FORGOTTEN, "a row is there twice"),
        ("uuid", RESTORED, "rows of two histories"),
        ("whole", ZOMBIES, "a small snapshot is torn"),
        ("report_after_commit", EXPIRING, "the metastore was told of what is not in the log"),
        ("expiry_waits", EXPIRING, "a snapshot expired before it was published"),
        ("tail_checked", CUT, "rows before it are lost"),
        ("committed_only", STAGED, "a row is visible before its snapshot"),
        ("broker_fences", ZOMBIES, "rows before it are lost"),
        ("generation_checked", RESTARTED, "a row is out of order"),
        ("beginning_reported", RESTARTED, "a row is out of order"),
    ],
)
def test_each_rule_is_missed_when_it_is_off(off: str, initial: State, expected: str) -> None:
    rules = replace(Protections(), **{off: False})
    found = explore(initial, lambda s: steps(s, rules), violation)
    assert found.violation is not None, f"switching off {off} changed nothing in {found.states} states"
    assert expected in found.violation, f"{found.violation}: {' / '.join(found.trace or ())}"
