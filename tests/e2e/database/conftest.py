from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from metastore.postgres import migrate
from tests.e2e.database.two_metastores import TwoMetastores
from tests.support.postgres_pair import PairTemplate, PostgresPair


@pytest.fixture(scope="session")
def template() -> Iterator[PairTemplate]:
    with tempfile.TemporaryDirectory(prefix="ll-pair-", ignore_cleanup_errors=True) as folder:
        yield PairTemplate(Path(folder), migrate)


@pytest.fixture
def pair(template: PairTemplate) -> Iterator[PostgresPair]:
    with template.open_pair() as opened:
        yield opened


@pytest.fixture
def both(pair: PostgresPair, tmp_path: Path) -> Iterator[TwoMetastores]:
    """Two metastores over the pair, each with a catalog."""
    opened = TwoMetastores(pair, tmp_path / "warehouse")
    yield opened
    opened.close()
