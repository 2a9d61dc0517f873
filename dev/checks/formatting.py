"""ruff's formatter would change nothing."""

from __future__ import annotations

from pathlib import Path

from dev.programs import problems_of, tool

TITLE = "every Python file is formatted by ruff (`.venv/bin/ruff format` mends it)"


def find_problems(root: Path) -> list[str]:
    """Files that would be reformatted."""
    return problems_of([tool("ruff"), "format", "--check", "."], root)
