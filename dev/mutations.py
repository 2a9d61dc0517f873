"""Breaks one protection after the other in a copy of the checkout, and checks that tests notice (`mutations.toml`)."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).parent.parent
LIST: Final = _ROOT / "dev/mutations.toml"
_TESTS_FAILED: Final = 1
"""Pytest's exit code; others say that the tests could not run."""


@dataclass(frozen=True)
class Mutation:
    """A change that breaks a protection.

    Args:
        breaks: What holds no more.
        file: Where, from the root.
        old: A text that is there once.
        new: What takes its place.
        tests: Files of tests, of which one must fail.
    """

    breaks: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def apply(self, root: Path) -> str:
        """Changes the file and returns what it was.

        Raises:
            ValueError: The text is not there once: the list is older than the code.
        """
        path = root / self.file
        before = path.read_text(encoding="utf-8")
        if before.count(self.old) != 1:
            raise ValueError(f"{self.file} has {before.count(self.old)} times what is to be changed for: {self.breaks}")
        path.write_text(before.replace(self.old, self.new), encoding="utf-8")
        return before


def load_mutations() -> list[Mutation]:
    """All of the list."""
    entries = tomllib.loads(LIST.read_text(encoding="utf-8"))["mutation"]
    return [Mutation(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries]


def is_noticed(mutation: Mutation, root: Path) -> bool:
    """Whether a test fails with the mutation; the file is as before afterwards.

    Raises:
        RuntimeError: The tests did not run.
    """
    before = mutation.apply(root)
    try:
        run = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", *mutation.tests],
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        (root / mutation.file).write_text(before, encoding="utf-8")
    if run.returncode not in (0, _TESTS_FAILED):
        raise RuntimeError(f"The tests for '{mutation.breaks}' did not run: {run.stdout[-2000:]}{run.stderr[-2000:]}")
    return run.returncode == _TESTS_FAILED


def main() -> int:
    """Tries all mutations on the last commit; 1: one was not noticed."""
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "lakelog"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(copy)], cwd=_ROOT, check=True)
        try:
            for mutation in load_mutations():
                noticed = is_noticed(mutation, copy)
                missed += not noticed
                print(f"{'noticed ' if noticed else 'MISSED  '} {mutation.breaks}", flush=True)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(copy)], cwd=_ROOT, check=True)
    return min(missed, 1)


if __name__ == "__main__":
    sys.exit(main())
