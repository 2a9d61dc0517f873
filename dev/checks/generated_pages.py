"""Documentation that is generated says what the code says."""

from __future__ import annotations

import sys
from pathlib import Path

from dev.programs import problems_of

TITLE = "every generated page of the documentation is current (its program is dev/<name>_page.py)"


def find_problems(root: Path) -> list[str]:
    """What the pages' own programs say when they are asked to check."""
    programs = sorted((root / "dev").glob("*_page.py"))
    return [
        line for page in programs for line in problems_of([sys.executable, "-m", f"dev.{page.stem}", "--check"], root)
    ]
