"""Some rules of section 5 through real queries of Spark, which show what its reader tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakelog.embedded.stack import EmbeddedStack
from lakelog.sdk.catalog import Catalog
from tests.conformance.cases_streams import CASES
from tests.conformance.stream_drivers import QueryDriver
from tests.conformance.stream_language import check_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERIED = (
    "5.2 an overwrite shown",
    "5.3 snapshot by snapshot over many buckets",
    "5.4 a filter tests each change row alone",
    "5.5 what comes while it is stopped",
    "3.6 default: changes come with full compactions",
)


@pytest.mark.spark
@pytest.mark.parametrize("rule", QUERIED, ids=[rule.replace(" ", "-") for rule in QUERIED])
def test_rule(rule: str, catalog: Catalog, stack: EmbeddedStack, spark: SparkSession) -> None:
    (case,) = (each for each in CASES if each.rule == rule)
    check_stream(QueryDriver(catalog, stack, spark), case)
