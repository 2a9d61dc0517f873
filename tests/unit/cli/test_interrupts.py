"""Ctrl-C at any moment of a command's life: exit code 130 and not a word."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

_PROGRAM = """
import os, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
sys.argv = ["lakelog", "-t", "127.0.0.1:1", "database", "list"]
from lakelog.cli.main import main
main()
"""


def interrupted_at(module: str, *, ignored: bool = False) -> subprocess.CompletedProcess[str]:
    """Runs a command that gets a SIGINT when it is about to import a module."""
    handler = signal.SIG_IGN if ignored else signal.SIG_DFL
    return subprocess.run(
        [sys.executable, "-c", _PROGRAM.format(module=module)],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, handler),
    )


@pytest.mark.parametrize("module", ["click", "pyarrow", "lakelog.cli.app", "lakelog.cli.commands.database", "grpc"])
def test_an_early_interrupt_is_silent(module: str) -> None:
    done = interrupted_at(module)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_interrupts_that_are_ignored_stay_so() -> None:
    done = interrupted_at("lakelog.cli.commands.database", ignored=True)
    assert done.returncode == 5
    assert "No metastore answers" in done.stderr
