"""A stack without a compactor, and compactors as processes of their own."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import lakelog
from lakelog.embedded.stack import EmbeddedStack
from tests.e2e.compactor.world import SCHEMA, World
from tests.support.forked_stack import forked_stack

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def compactor_stack() -> Iterator[EmbeddedStack]:
    with (
        tempfile.TemporaryDirectory(prefix="ll-comp-", ignore_cleanup_errors=True) as folder,
        forked_stack(folder) as stack,
    ):
        yield stack


@pytest.fixture
def world(compactor_stack: EmbeddedStack, tmp_path: Path) -> Iterator[World]:
    catalog = lakelog.connect(compactor_stack.target)
    catalog.create_database("shop", if_not_exists=True)
    table = catalog.create_table(
        f"shop.t{next(_numbers)}",
        SCHEMA,
        primary_key=["k"],
        options={"changelog-producer": "lookup", "lookup-wait": "false", "bucket": "2"},
    )
    world = World(tmp_path, compactor_stack, catalog, table)
    yield world
    for each in world.compactors:
        if each.process.poll() is None:
            each.process.kill()
            each.process.wait()
    catalog.close()
