"""Section 5 through subscriptions and through Spark's stream reader, named for its rules."""

from __future__ import annotations

import pytest

from lakelog.embedded.stack import EmbeddedStack
from lakelog.sdk.catalog import Catalog
from tests.conformance import cases_full_compaction, cases_stream_positions, cases_stream_shown, cases_stream_starts
from tests.conformance.stream_drivers import ReaderDriver, SubscriptionDriver
from tests.conformance.stream_language import StreamCase, check_stream

CASES = (
    *cases_stream_starts.CASES,
    *cases_stream_shown.CASES,
    *cases_stream_positions.CASES,
    *cases_full_compaction.STREAMS,
)


@pytest.mark.parametrize("driver", [SubscriptionDriver, ReaderDriver], ids=["subscription", "reader"])
@pytest.mark.parametrize("case", CASES, ids=[case.rule.replace(" ", "-") for case in CASES])
def test_rule(driver: type[SubscriptionDriver], case: StreamCase, catalog: Catalog, stack: EmbeddedStack) -> None:
    check_stream(driver(catalog, stack), case)
