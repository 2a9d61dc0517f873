"""ruff's rules of pyproject.toml."""

from __future__ import annotations

from pathlib import Path

from dev.programs import problems_of, tool

TITLE = "no Python file breaks a rule of ruff (`.venv/bin/ruff check --fix` mends some)"


def find_problems(root: Path) -> list[str]:
    """Broken rules, with file and line."""
    return problems_of([tool("ruff"), "check", "--output-format", "concise", "."], root)
