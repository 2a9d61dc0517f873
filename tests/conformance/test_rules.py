"""Every case through the SDK and through Spark, named for its rule; those of arrival by tasks that write alone, too."""

from __future__ import annotations

import pytest

from lakelog.sdk.catalog import Catalog
from tests.conformance import (
    cases_changelog,
    cases_commits,
    cases_full_compaction,
    cases_late,
    cases_producers,
    cases_rollbacks,
    cases_rows_by_condition,
    cases_schemas,
    cases_tables,
    cases_touched_buckets,
)
from tests.conformance.drivers import FormatDriver
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
    *cases_rows_by_condition.CASES,
    *cases_schemas.CASES,
)


@pytest.mark.parametrize("case", CASES, ids=[case.rule.replace(" ", "-") for case in CASES])
def test_rule(driver: Driver, case: Case) -> None:
    check(driver, case)


@pytest.mark.spark
@pytest.mark.parametrize("case", cases_producers.INPUT_CASES, ids=lambda case: f"[spark-{case.rule.replace(' ', '-')}")
def test_rule_by_format(catalog: Catalog, request: pytest.FixtureRequest, case: Case) -> None:
    check(FormatDriver(catalog, request.getfixturevalue("spark")), case)
