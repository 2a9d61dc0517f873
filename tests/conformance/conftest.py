"""The drivers that every case goes through."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakelog.sdk.catalog import Catalog
from tests.conformance.drivers import SdkDriver, SparkDriver
from tests.conformance.language import Driver
from tests.conformance.log_stage import LogStage


@pytest.fixture(scope="session")
def log_stage(kafka_broker: str) -> Iterator[LogStage]:
    """Where tables have logs."""
    with tempfile.TemporaryDirectory(prefix="ll-stage-", ignore_cleanup_errors=True) as folder:
        stage = LogStage(kafka_broker, Path(folder))
        yield stage
        stage.close()


@pytest.fixture(params=["sdk", pytest.param("spark", marks=pytest.mark.spark)])
def driver(request: pytest.FixtureRequest, catalog: Catalog) -> Driver:
    """A way to use lakelog."""
    if request.param == "sdk":
        return SdkDriver(catalog)
    return SparkDriver(catalog, request.getfixturevalue("spark"))
