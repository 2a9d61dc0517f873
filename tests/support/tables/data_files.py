"""The files of a warehouse."""

from __future__ import annotations

from pathlib import Path


def data_files(warehouse: Path) -> list[str]:
    """Every file below a warehouse, relative to it."""
    return sorted(path.relative_to(warehouse).as_posix() for path in warehouse.rglob("*") if path.is_file())
