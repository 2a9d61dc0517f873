"""The list of mutations fits the code, so that it can be tried (`python -m dev.mutations`)."""

from __future__ import annotations

import pytest

from dev.mutations import Mutation, load_mutations
from tests.support.repository import ROOT


@pytest.mark.parametrize("mutation", load_mutations(), ids=lambda mutation: mutation.breaks)
def test_each_mutation_can_be_made(mutation: Mutation) -> None:
    assert (ROOT / mutation.file).read_text(encoding="utf-8").count(mutation.old) == 1
    assert mutation.new != mutation.old
    assert mutation.tests
    assert [test for test in mutation.tests if not (ROOT / test).is_file()] == []
