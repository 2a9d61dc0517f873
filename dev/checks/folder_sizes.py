"""A folder has one subject: few enough files to be seen at a look."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

from dev.programs import tracked_files

TITLE = "no folder of the product has more than 15 Python files of its own (look for the second subject in it)"

MOST = 15

PRODUCT = ("lakelog", "metastore", "writer", "reader", "compactor", "console")

ALLOWED: Final[dict[str, str]] = {"lakelog/rpc/v1": "generated: a file for each file of proto/"}
"""Folder -> why it may have more."""


def find_problems(root: Path) -> list[str]:
    """Folders with too many files, and permissions without use."""
    counts = Counter(
        str(path.parent) for path in tracked_files(root) if path.suffix == ".py" and path.parts[0] in PRODUCT
    )
    large = {folder for folder, count in counts.items() if count > MOST}
    problems = [f"{folder} has {counts[folder]} files" for folder in sorted(large - ALLOWED.keys())]
    unused = sorted(folder for folder in ALLOWED.keys() - large if folder in counts)
    return problems + [f"{folder} does not need its exception any more" for folder in unused]
