"""Expiry holds in every interleaving, and each of its rules is missed when it is switched off."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.model.expiry_model import Protections, State, orphans, steps
from tests.model.explorer import explore


def test_expiry_holds_in_every_interleaving() -> None:
    found = explore(State(), lambda s: steps(s, Protections()), orphans)
    assert found.violation is None, f"{found.violation}: {' / '.join(found.trace or ())}"
    assert found.states > 40, "the model hardly moved"


@pytest.mark.parametrize(
    ("off", "expected"),
    [
        ("leases", "a reader lost what it holds"),
        ("locked", "a reader lost what it holds"),
        ("counted", "live files are not in the store"),
        ("forgotten_last", "is never deleted"),
    ],
)
def test_each_rule_is_missed_when_it_is_off(off: str, expected: str) -> None:
    rules = replace(Protections(), **{off: False})
    found = explore(State(), lambda s: steps(s, rules), orphans)
    assert found.violation is not None, f"switching off {off} changed nothing in {found.states} states"
    assert expected in found.violation, f"{found.violation}: {' / '.join(found.trace or ())}"
