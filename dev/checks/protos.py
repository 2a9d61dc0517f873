"""The API's definitions: their style and comments, and that they break no client of an earlier commit."""

from __future__ import annotations

import subprocess
import tarfile
import tempfile
from io import BytesIO
from pathlib import Path

from dev.programs import problems_of, tool

TITLE = "the .proto files pass buf's rules and break nothing that was on main before"


def find_problems(root: Path) -> list[str]:
    """What buf says, with file and line."""
    if not (root / "proto").is_dir():
        return []
    problems = problems_of([tool("buf"), "lint"], root)
    earlier = _earlier_commit(root)
    if earlier is None:
        return problems
    command = ["git", "archive", earlier, "proto", "buf.yaml"]
    archive = subprocess.run(command, cwd=root, capture_output=True, check=True).stdout
    with tempfile.TemporaryDirectory() as folder, tarfile.open(fileobj=BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
        found = problems_of([tool("buf"), "breaking", "--against", folder], root)
    return problems + [f"against {earlier[:12]}: {problem}" for problem in found]


def _earlier_commit(root: Path) -> str | None:
    """The newest commit of main with other protos under the same rules; None where there is none."""
    for branch in ("main", "origin/main", "HEAD"):
        listed = _git(root, "rev-list", branch, "--", "proto")
        if listed is not None:
            commits = listed.split()
            return next((commit for commit in commits if _has_other_protos(root, commit)), None)
    return None


def _has_other_protos(root: Path, commit: str) -> bool:
    has_any = _git(root, "rev-parse", "--verify", "--quiet", f"{commit}:proto") is not None
    # A change of the rules themselves begins a new line of compatible versions; before a release, nothing else does.
    same_rules = _git(root, "diff", "--quiet", commit, "--", "buf.yaml") is not None
    return has_any and same_rules and _git(root, "diff", "--quiet", commit, "--", "proto") is None


def _git(root: Path, *arguments: str) -> str | None:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None
