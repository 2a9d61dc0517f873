"""mypy in its strict mode over all of our Python."""

from __future__ import annotations

import sys
from pathlib import Path

from dev.programs import present_packages, problems_of

TITLE = "mypy --strict finds nothing"


def find_problems(root: Path) -> list[str]:
    """Type errors, with file and line."""
    return problems_of([sys.executable, "-m", "mypy", "--strict", *present_packages(root)], root)
