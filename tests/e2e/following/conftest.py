"""All services that need no Spark, with a collector of their traces."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import lakelog
from tests.e2e.following.collector import running_collector
from tests.e2e.following.observed import Observed
from tests.support.forked_stack import forked_stack


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.e2e)


@pytest.fixture(scope="module")
def observed(kafka_broker: str) -> Iterator[Observed]:
    with running_collector() as (collector, url), tempfile.TemporaryDirectory(prefix="ll-seen-") as folder:
        traces = {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_BSP_SCHEDULE_DELAY": "100"}
        ports = {f"LAKELOG_{name}_METRICS_PORT": "0" for name in ("COMPACTOR", "PUBLISHER", "READER")}
        environment = {**os.environ, **traces, **ports}
        services = ["metastore", "compactor", "publisher", "reader"]
        with (
            forked_stack(
                folder, services=services, kafka_bootstrap_servers=kafka_broker, environment=environment
            ) as stack,
            lakelog.connect(stack.target) as catalog,
        ):
            yield Observed(stack, catalog, collector, {**environment, "LAKELOG_TARGET": stack.target})
