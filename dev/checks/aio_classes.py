"""The classes of `lakelog.aio` have the methods, arguments and results of the blocking SDK."""

from __future__ import annotations

from pathlib import Path

from dev.aio_classes import FOLDER, generate

TITLE = "the classes in lakelog/aio/sdk are current (`python -m dev.aio_classes` makes them so)"


def find_problems(root: Path) -> list[str]:
    """Files that are missing, differ, or belong to no class."""
    if not (root / FOLDER).is_dir():
        return []
    wanted = generate(root)
    found = {path.relative_to(root): path.read_text(encoding="utf-8") for path in (root / FOLDER).glob("*.py")}
    names = sorted(wanted.keys() | found.keys())
    return [f"{name} is not current" for name in names if wanted.get(name) != found.get(name)]
