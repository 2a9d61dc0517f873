from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakelog.testing import EmbeddedStack
from tests.support.forked_stack import ForkedStack


@pytest.fixture(scope="module")
def shared_stack(kafka_broker: str) -> Iterator[EmbeddedStack]:
    """All that any example needs."""
    with (
        tempfile.TemporaryDirectory(prefix="ll-", ignore_cleanup_errors=True) as folder,
        ForkedStack(
            Path(folder), services=("metastore", "compactor", "publisher"), kafka_bootstrap_servers=kafka_broker
        ) as stack,
    ):
        yield stack
