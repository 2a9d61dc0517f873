"""Running the tools of the environment from checks."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

PACKAGES = (
    "lakelog",
    "metastore",
    "writer",
    "reader",
    "compactor",
    "console",
    "bench",
    "dev",
    "examples",
    "tests",
    "k8s",
)
"""The folders with Python of ours; not all are there from the beginning."""


def present_packages(root: Path) -> list[str]:
    """Those of `PACKAGES` that are in the tree, in their order."""
    return [name for name in PACKAGES if any((root / name).rglob("*.py"))]


def tool(name: str) -> str:
    """The path of a program that the environment of this interpreter brings."""
    return str(Path(sys.executable).parent / name)


def problems_of(command: Sequence[str], root: Path) -> list[str]:
    """Runs a program in `root`; its output is a list of problems where it fails, and none where it succeeds."""
    done = subprocess.run(list(command), cwd=root, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return []
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    return lines or [f"{command[0]} ended with {done.returncode} and said nothing"]


def tracked_files(root: Path) -> list[Path]:
    """What git knows or would take on `git add`, without what was deleted; paths relative to `root`."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    return [Path(name) for name in sorted(set(listed.split("\0"))) if name and (root / name).is_file()]
