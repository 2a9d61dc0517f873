"""Tables with names of their own, and a look at the files of a table."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from tests.integration.spark.spark_tables import MakeTable
from tests.support.spark.write_ways import written_by_tasks

_numbers = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.spark)


@pytest.fixture
def by_tasks() -> Iterator[None]:
    """For tests of what happens in tasks: they write small DataFrames, too."""
    with written_by_tasks():
        yield


@pytest.fixture
def make_table(catalog: Catalog) -> MakeTable:
    """Makes a table with a name of its own."""
    catalog.create_database("spark", if_not_exists=True)

    def make(schema: pa.Schema, key: tuple[str, ...] = (), **more: Any) -> Table:
        return catalog.create_table(f"spark.t{next(_numbers)}", schema=schema, primary_key=list(key), **more)

    return make
