"""`python -m lakelog` is the `lakelog` command."""

from __future__ import annotations

import subprocess
import sys

import lakelog


def test_the_package_runs_as_the_command() -> None:
    process = subprocess.run(
        [sys.executable, "-m", "lakelog", "--version"], capture_output=True, text=True, check=False
    )
    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout.split() == ["lakelog,", "version", lakelog.__version__]
    failed = subprocess.run([sys.executable, "-m", "lakelog", "nothing"], capture_output=True, text=True, check=False)
    assert failed.returncode == 2
