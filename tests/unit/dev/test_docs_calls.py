"""The pages for users call only what there is."""

from __future__ import annotations

import re
from pathlib import Path

from lakelog.reads.scan import Scan
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table

_ROOT = Path(__file__).parents[3]
_HANDLES = {"catalog": Catalog, "orders": Table, "scan": Scan}


def test_the_pages_call_only_what_there_is() -> None:
    pages = [_ROOT / "README.md", *(_ROOT / "docs").glob("*.md")]
    called = {
        (page.name, handle, name)
        for page in pages
        for handle, name in re.findall(r"(?<![\w.])(catalog|orders|scan)\.(\w+)\(", page.read_text())
    }
    assert len(called) > 10
    assert [each for each in sorted(called) if not hasattr(_HANDLES[each[1]], each[2])] == []
