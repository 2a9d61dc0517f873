"""Two versions of lakelog as source trees, and their programs as processes."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from lakelog.embedded.processes import ManagedProcess
from tests.support.forked_stack import ForkedService
from tests.support.repository import ROOT

RECORD = Path(__file__).with_name("previous_version.toml")
FOLDERS = ("lakelog", "metastore", "writer", "compactor", "reader")
"""What the programs of a version consist of."""


@dataclass(frozen=True)
class Version:
    """A version of lakelog.

    Args:
        name: For people, and in names of files.
        tree: Its source.
    """

    name: str
    tree: Path

    def environment(self, **variables: str) -> dict[str, str]:
        """The environment of its programs."""
        own = {name: value for name, value in os.environ.items() if not name.startswith("LAKELOG_")}
        return own | {"PYTHONPATH": str(self.tree), "PYTHONUNBUFFERED": "1", "LAKELOG_UMASK": "077"} | variables

    def start(
        self,
        service: str,
        arguments: Sequence[str],
        *,
        log: Path,
        is_ready: Callable[[], bool] | None = None,
        **variables: str,
    ) -> ManagedProcess:
        """Starts a service and waits until it is ready."""
        # The present version's imports are there already; the previous one's must come from its own tree.
        kind = ForkedService if self.tree == ROOT else ManagedProcess
        command = [sys.executable, "-m", service, *arguments]
        environment = self.environment(**variables)
        process = kind(
            f"{self.name} {service}",
            command,
            log=log,
            is_ready=is_ready,
            environment=environment,
            working_directory=self.tree,
        )
        process.start()
        return process

    def run(
        self, command: Sequence[str], *, within_s: float = 120, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Runs a Python program to its end."""
        return subprocess.run(
            [sys.executable, *command],
            cwd=self.tree,
            env=self.environment(**variables),
            capture_output=True,
            text=True,
            timeout=within_s,
            check=False,
        )


def read_record() -> Mapping[str, str]:
    """What is recorded of the previous version."""
    return {key: str(value) for key, value in tomllib.loads(RECORD.read_text()).items()}


def extract_previous(folder: Path) -> Version:
    """Writes the previous version's source to a folder.

    Where the history lacks it, as in a shallow clone, the test is skipped with the reason, but fails in CI.
    """
    commit = read_record()["commit"]
    done = subprocess.run(["git", "archive", commit, *FOLDERS], cwd=ROOT, capture_output=True, check=False, timeout=120)
    if done.returncode != 0:
        said = " ".join(done.stderr.decode(errors="replace").split())
        reason = (
            f"The previous version, commit {commit[:12]} ({RECORD.relative_to(ROOT)}), is not in the history here: "
            f"{said}. Fetch the whole history: git fetch --unshallow."
        )
        if os.environ.get("LAKELOG_CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as files:
        files.extractall(folder, filter="data")
    return Version("previous", folder)
