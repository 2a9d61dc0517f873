"""The user guide builds."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from dev.programs import problems_of

TITLE = "the documentation builds without a warning and every page is in the navigation of mkdocs.yml"


def find_problems(root: Path) -> list[str]:
    """What mkdocs says."""
    with tempfile.TemporaryDirectory() as folder:
        return problems_of([sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder], root)
