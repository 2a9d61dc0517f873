"""`python -m lakelog` is the `lakelog` command."""

from __future__ import annotations

import subprocess
import sys

import pytest

import lakelog


def test_the_package_runs_as_the_command() -> None:
    process = subprocess.run(
        [sys.executable, "-m", "lakelog", "--version"], capture_output=True, text=True, check=False
    )
    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout.split() == ["lakelog,", "version", lakelog.__version__]
    failed = subprocess.run([sys.executable, "-m", "lakelog", "nothing"], capture_output=True, text=True, check=False)
    assert failed.returncode == 2


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_a_stream_that_the_caller_has_closed_is_no_error(closed: str) -> None:
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-m", "lakelog", "doctor", "--only", "python"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert ("Python" in done.stdout) is not closed.startswith(">")
