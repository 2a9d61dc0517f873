"""A pipeline's folder with its table, and the service as a process."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.embedded.stack import EmbeddedStack
from lakelog.sdk.catalog import Catalog
from tests.e2e.writer.world import World

_numbers = itertools.count(1)


@pytest.fixture
def world(tmp_path: Path, stack: EmbeddedStack, catalog: Catalog) -> Iterator[World]:
    """A table without a key, in which a doubled row stays a doubled row, and a pipeline into it."""
    number = next(_numbers)
    catalog.create_database("e2e", if_not_exists=True)
    name = f"e2e.rows{number}"
    catalog.create_table(name, pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())]))
    (tmp_path / "in").mkdir()
    made = World(tmp_path, stack, catalog, f"pipeline{number}", name)
    yield made
    for writer in made.writers:
        if writer.process.poll() is None:
            writer.send_all(signal.SIGKILL)
            writer.process.wait(30)
