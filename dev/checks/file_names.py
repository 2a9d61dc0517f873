"""Names say what is in a file."""

from __future__ import annotations

from pathlib import Path

from dev.programs import tracked_files

TITLE = "no file or folder has a name that fits everything"

SAYS_NOTHING = frozenset({"utils", "util", "common", "helper", "helpers", "manager", "managers", "base", "misc"})

KUSTOMIZE = Path("k8s/base")
"""kustomize's own word for what overlays change."""


def find_problems(root: Path) -> list[str]:
    """Paths with such a name, or with such a word in it; and those of an address that was taken for a path."""
    return [
        str(path)
        for path in tracked_files(root)
        if ":" in str(path) or (not path.is_relative_to(KUSTOMIZE) and _words(path) & SAYS_NOTHING)
    ]


def _words(path: Path) -> set[str]:
    return {word for part in path.with_suffix("").parts for word in part.lower().replace("-", "_").split("_")}
