"""Section 5 through subscriptions and through Spark's stream reader, named for its rules."""

from __future__ import annotations

import pytest

from lakelog.embedded.stack import EmbeddedStack
from lakelog.sdk.catalog import Catalog
from tests.conformance.cases_streams import CASES
from tests.conformance.stream_drivers import ReaderDriver, SubscriptionDriver
from tests.conformance.stream_language import StreamCase, check_stream


@pytest.mark.parametrize("driver", [SubscriptionDriver, ReaderDriver], ids=["subscription", "reader"])
@pytest.mark.parametrize("case", CASES, ids=[case.rule.replace(" ", "-") for case in CASES])
def test_rule(driver: type[SubscriptionDriver], case: StreamCase, catalog: Catalog, stack: EmbeddedStack) -> None:
    check_stream(driver(catalog, stack), case)
