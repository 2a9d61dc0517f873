"""Answers a shell that asks for completions: at once, without a word on the standard error, whatever happens."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import NoReturn


def answer(instruction: str) -> NoReturn:
    """Prints completions for `bash_complete` and the like, and ends the process.

    Raises:
        SystemExit: Never; a thread that still waits for a metastore would hold up the end of Python.
    """
    with contextlib.suppress(BaseException):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        from click.shell_completion import shell_complete

        from lakelog.cli.app import app
        from lakelog.cli.completion import shells
        from lakelog.cli.invocation import Invocation

        shell_complete(app, {"obj": Invocation()}, "lakelog", shells.VARIABLE, instruction)
        sys.stdout.flush()
    os._exit(0)
