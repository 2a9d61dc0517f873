from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from metastore.postgres import migrate
from tests.e2e.database.two_metastores import TwoMetastores
from tests.support.postgres_pair import PostgresPair, open_pair


@pytest.fixture
def pair() -> Iterator[PostgresPair]:
    with open_pair(migrate) as opened:
        yield opened


@pytest.fixture
def both(pair: PostgresPair, tmp_path: Path) -> Iterator[TwoMetastores]:
    """Two metastores over the pair, each with a catalog."""
    opened = TwoMetastores(pair, tmp_path / "warehouse")
    yield opened
    opened.close()
