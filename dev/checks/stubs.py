"""The committed stubs are what the protos make."""

from __future__ import annotations

import tempfile
from pathlib import Path

from dev.stubs import STUBS, generate_stubs, stub_files

TITLE = "the stubs of lakelog/rpc/v1 are current (`./run proto` makes them so)"


def find_problems(root: Path) -> list[str]:
    """Stubs that are missing, differ or stand for nothing."""
    if not (root / "proto").is_dir():
        return []
    with tempfile.TemporaryDirectory() as folder:
        generate_stubs(root, Path(folder))
        wanted = stub_files(Path(folder))
    found = stub_files(root)
    names = sorted(wanted.keys() | found.keys())
    return [f"{STUBS / name} is not current" for name in names if wanted.get(name) != found.get(name)]
