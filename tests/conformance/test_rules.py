"""Every case through the SDK and through Spark, named for its rule."""

from __future__ import annotations

import pytest

from tests.conformance import (
    cases_changelog,
    cases_commits,
    cases_full_compaction,
    cases_late,
    cases_producers,
    cases_rollbacks,
    cases_tables,
    cases_touched_buckets,
)
from tests.conformance.language import Case, Driver, check

CASES = (
    *cases_tables.CASES,
    *cases_commits.CASES,
    *cases_changelog.CASES,
    *cases_producers.CASES,
    *cases_touched_buckets.CASES,
    *cases_late.CASES,
    *cases_full_compaction.CASES,
    *cases_rollbacks.CASES,
)


@pytest.mark.parametrize("case", CASES, ids=[case.rule.replace(" ", "-") for case in CASES])
def test_rule(driver: Driver, case: Case) -> None:
    check(driver, case)
