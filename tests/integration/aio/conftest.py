from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import lakelog
from tests.support.forked_stack import ForkedStack


@pytest.fixture(scope="module")
def running() -> Iterator[ForkedStack]:
    """A metastore and a reader service as processes; tests kill and pause the first, and start it again."""
    with (
        tempfile.TemporaryDirectory(prefix="ll-", ignore_cleanup_errors=True) as folder,
        ForkedStack(Path(folder), services=("metastore", "reader")) as stack,
    ):
        with lakelog.connect(stack.target) as catalog:
            catalog.create_database("shop")
        yield stack
