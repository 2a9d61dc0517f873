"""The shell scripts parse."""

from __future__ import annotations

from pathlib import Path

from dev.programs import problems_of, tracked_files

TITLE = "bash can read every shell script"


def find_problems(root: Path) -> list[str]:
    """Syntax errors, with file and line."""
    scripts = [path for path in tracked_files(root) if path.suffix == ".sh" or _begins_as_script(root / path)]
    return [line for script in scripts for line in problems_of(["bash", "-n", str(script)], root)]


def _begins_as_script(path: Path) -> bool:
    with path.open("rb") as file:
        first = file.readline(200)
    return first.startswith(b"#!") and first.rstrip().endswith(b"sh")
