"""Tables with names of their own, and a look at the files of a table."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pytest

from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table

_numbers = itertools.count(1)
MakeTable = Callable[..., Table]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.spark)


@pytest.fixture
def make_table(catalog: Catalog) -> MakeTable:
    """Makes a table with a name of its own."""
    catalog.create_database("spark", if_not_exists=True)

    def make(schema: pa.Schema, key: tuple[str, ...] = (), **more: Any) -> Table:
        return catalog.create_table(f"spark.t{next(_numbers)}", schema=schema, primary_key=list(key), **more)

    return make


def stored_files(table: Table) -> set[str]:
    """Paths inside the table of all files there are, live or not."""
    root = Path(unquote(table.location.removeprefix("file://")))
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}


def live_files(table: Table) -> set[str]:
    """Paths of the live files."""
    return set(table.files().column("path").to_pylist())
