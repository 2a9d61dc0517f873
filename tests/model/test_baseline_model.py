"""What full compactions tell leads to what they left in every interleaving; each rule is missed when it is off."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.model.baseline_model import Compactor, Protections, State, steps, violation
from tests.model.explorer import explore

EMITTERS = (Compactor("x", True, 2), Compactor("y", True, 1))
WRITTEN = State((*EMITTERS, Compactor("z", False, 1)), commits=(2, 0), overwrites=(), rollbacks=0)
REPLACED = State(EMITTERS, commits=(2,), overwrites=(3, 0))
ALL_AT_ONCE = State((Compactor("x", True, 1), Compactor("y", True, 1), Compactor("z", False, 1)), (2,), (0,))


@pytest.mark.parametrize("initial", [WRITTEN, REPLACED, ALL_AT_ONCE], ids=["written", "replaced", "all-at-once"])
def test_the_baseline_holds_in_every_interleaving(initial: State) -> None:
    found = explore(initial, lambda s: steps(s, Protections()), violation)
    assert found.violation is None, f"{found.violation}: {' / '.join(found.trace or ())}"
    assert found.states > 1000, "the model hardly moved"


@pytest.mark.parametrize(
    ("off", "initial", "expected"),
    [
        ("judged_by_baseline", REPLACED, "is taken away, but"),
        ("live_inputs", WRITTEN, "is taken away, but"),
        ("gone_are_named", REPLACED, "is taken away, but"),
        ("baseline_is_kept", REPLACED, "a file that is told is not in the store"),
    ],
)
def test_each_rule_is_missed_when_it_is_off(off: str, initial: State, expected: str) -> None:
    rules = replace(Protections(), **{off: False})
    found = explore(initial, lambda s: steps(s, rules), violation)
    assert found.violation is not None, f"switching off {off} changed nothing in {found.states} states"
    assert expected in found.violation, f"{found.violation}: {' / '.join(found.trace or ())}"
