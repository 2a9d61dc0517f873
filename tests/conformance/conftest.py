"""The drivers that every case goes through."""

from __future__ import annotations

import pytest

from lakelog.catalog import Catalog
from tests.conformance.drivers import SdkDriver, SparkDriver
from tests.conformance.language import Driver


@pytest.fixture(params=["sdk", pytest.param("spark", marks=pytest.mark.spark)])
def driver(request: pytest.FixtureRequest, catalog: Catalog) -> Driver:
    """A way to use lakelog."""
    if request.param == "sdk":
        return SdkDriver(catalog)
    return SparkDriver(catalog, request.getfixturevalue("spark"))
