"""The commit protocol holds in every interleaving, and each of its rules is missed when it is switched off."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.model.commit_model import Compactor, Protections, State, Writer, fenced_violation, steps, violation
from tests.model.explorer import explore

TWO_WRITERS = State(writers=(Writer("a", 1, epoch=0), Writer("b", 1, epoch=0)))
WRITER_AND_COMPACTORS = State(
    # Writers that do not crash here: with crashes there are a million states and nothing new among them.
    writers=(Writer("a", 1, epoch=0, tries=2), Writer("b", 1, epoch=0, tries=2)),
    compactors=(Compactor("x"), Compactor("y")),
    collects=0,
)
COMPACTORS_AND_COLLECTOR = State(
    writers=(Writer("a", 1, epoch=0, tries=2),), compactors=(Compactor("x"), Compactor("y"))
)
COUNTERS = State(writers=(Writer("a", 1, epoch=0, raises=True), Writer("b", 1, epoch=0, raises=True)), collects=0)
COUNTERS_AND_COMPACTOR = State(
    writers=(Writer("a", 1, epoch=0, tries=2, raises=True), Writer("b", 1, epoch=0, tries=2, raises=True)),
    compactors=(Compactor("x"),),
    collects=0,
)
ZOMBIE = State(writers=(Writer("a", 1, epoch=1), Writer("a", 2, epoch=2)))
SAME_WORK_TWICE = State(writers=(Writer("a", 1, epoch=1), Writer("a", 1, epoch=2)))


@pytest.mark.parametrize(
    "initial",
    [
        TWO_WRITERS,
        WRITER_AND_COMPACTORS,
        COMPACTORS_AND_COLLECTOR,
        ZOMBIE,
        SAME_WORK_TWICE,
        COUNTERS,
        COUNTERS_AND_COMPACTOR,
    ],
    ids=[
        "two-writers",
        "compactors",
        "compactors-and-collector",
        "zombie",
        "same-work-twice",
        "counters",
        "counters-and-compactor",
    ],
)
def test_the_protocol_holds_in_every_interleaving(initial: State) -> None:
    found = explore(initial, lambda s: steps(s, Protections()), fenced_violation)
    assert found.violation is None, f"{found.violation}: {' / '.join(found.trace or ())}"
    assert found.states > 100, "the model hardly moved"


@pytest.mark.parametrize(
    ("off", "initial", "expected"),
    [
        ("idempotent", TWO_WRITERS, "a row is there twice"),
        ("idempotent", SAME_WORK_TWICE, "a row is there twice"),
        ("epochs", ZOMBIE, "a zombie committed behind its successor"),
        ("staged", TWO_WRITERS, "live files are not in the store"),
        ("live_inputs", WRITER_AND_COMPACTORS, "a row is there twice"),
        ("dropped_recorded", WRITER_AND_COMPACTORS, "live files are not in the store"),
        ("numbered_at_commit", TWO_WRITERS, "the poller can never see snapshots"),
        ("guarded", COUNTERS, "a counter that was raised 2 times is 1"),
        ("repeats_first", COUNTERS, "its guard refused what was applied"),
        ("keep_on_unknown", TWO_WRITERS, "live files are not in the store"),
    ],
)
def test_each_rule_is_missed_when_it_is_off(off: str, initial: State, expected: str) -> None:
    rules = replace(Protections(), **{off: False})
    found = explore(initial, lambda s: steps(s, rules), fenced_violation if off == "epochs" else violation)
    assert found.violation is not None, f"switching off {off} changed nothing in {found.states} states"
    assert expected in found.violation, f"{found.violation}: {' / '.join(found.trace or ())}"
