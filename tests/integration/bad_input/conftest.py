from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import lakelog
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.testing import EmbeddedStack
from tests.support.forked_stack import forked_stack

from .refusing import KEYED


@pytest.fixture(scope="session")
def bad_input_stack() -> Iterator[EmbeddedStack]:
    """One real metastore over Postgres, which must survive all that these tests throw at it."""
    with (
        tempfile.TemporaryDirectory(prefix="ll-bad-", ignore_cleanup_errors=True) as folder,
        forked_stack(Path(folder)) as stack,
    ):
        yield stack


@pytest.fixture
def catalog(bad_input_stack: EmbeddedStack) -> Iterator[Catalog]:
    """A catalog with an empty database `shop`."""
    with lakelog.connect(bad_input_stack.target) as catalog:
        catalog.drop_database("shop", if_exists=True, cascade=True)
        catalog.create_database("shop")
        yield catalog


@pytest.fixture
def orders(catalog: Catalog) -> Table:
    return catalog.create_table("shop.orders", KEYED, primary_key=["id"])
