"""mypy over all of our Python, in the strict mode that pyproject.toml sets."""

from __future__ import annotations

import sys
from pathlib import Path

from dev.programs import present_packages, problems_of

TITLE = "mypy --strict finds nothing"


def find_problems(root: Path) -> list[str]:
    """Type errors, with file and line."""
    return problems_of([sys.executable, "-m", "mypy", *present_packages(root)], root)
