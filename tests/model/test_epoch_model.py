"""Epochs hold in every interleaving of restores and clocks, and each of their rules is missed when it is off."""

from __future__ import annotations

import pytest

from tests.model.epoch_model import Rules, State, steps, violation
from tests.model.explorer import explore


def test_no_restore_and_no_clock_gives_an_epoch_twice() -> None:
    found = explore(State(), lambda state: steps(state, Rules()), violation)
    assert found.violation is None, f"{found.violation}: {' / '.join(found.trace or ())}"
    assert found.states > 1000, "the model hardly moved"


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        # As it was: numbers that count, and an exact comparison.
        (Rules(by_clock=False), "epoch 1 is given twice"),
        (Rules(random=False), "is given twice"),
        (Rules(exact=False), "commits although it does not have the name"),
    ],
    ids=["counted", "without-random-bits", "only-lower-ones-are-refused"],
)
def test_each_rule_is_missed_when_it_is_off(rules: Rules, expected: str) -> None:
    found = explore(State(), lambda state: steps(state, rules), violation)
    assert found.violation is not None, f"{rules} changed nothing in {found.states} states"
    assert expected in found.violation, f"{found.violation}: {' / '.join(found.trace or ())}"
    assert "the database is set back" in (found.trace or ())
