"""The command in this process, on a terminal of its own: a pseudo-terminal of a given size."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from unittest import mock

from lakelog.cli.app import run

_OWN = ("NO_COLOR", "FORCE_COLOR", "CI", "PAGER", "LAKELOG_PAGER", "LESS", "TERM")


@dataclass
class Shown:
    code: int
    terminal: str
    """What the terminal got."""
    out: str
    """What went to the standard output, if that is no terminal."""


def run_on_terminal(
    words: Sequence[str],
    environment: Mapping[str, str],
    *,
    out_is_terminal: bool = True,
    err_is_terminal: bool = True,
    lines: int = 24,
) -> Shown:
    """Runs the command, with a terminal of this many lines as its input and as the streams that are said."""
    ours, theirs = pty.openpty()
    seen: list[bytes] = []
    reader = threading.Thread(target=_read, args=(ours, seen))
    reader.start()
    out, err = io.StringIO(), io.StringIO()
    inherited = {name: value for name, value in os.environ.items() if name not in _OWN}
    changed = {**inherited, "TERM": "xterm", "LINES": str(lines), "COLUMNS": "100", **environment}
    try:
        with (
            open(theirs, "r+b", buffering=0, closefd=False) as raw,
            io.TextIOWrapper(cast(Any, _BothWays(raw)), encoding="utf-8", write_through=True) as terminal,
            mock.patch.dict(os.environ, changed, clear=True),
            mock.patch.object(sys, "stdin", terminal),
            contextlib.redirect_stdout(terminal if out_is_terminal else out),
            contextlib.redirect_stderr(terminal if err_is_terminal else err),
        ):
            code = run(words)
    finally:
        os.close(theirs)
        reader.join()
        os.close(ours)
    return Shown(int(code), b"".join(seen).decode(), out.getvalue())


class _BothWays(io.BufferedRWPair):
    """A stream that does both; a terminal has no position, which other classes ask for."""

    def __init__(self, raw: io.FileIO) -> None:
        super().__init__(raw, raw)
        self._raw = raw

    def fileno(self) -> int:
        return self._raw.fileno()


def _read(terminal: int, seen: list[bytes]) -> None:
    # A read fails once the other side is closed.
    with contextlib.suppress(OSError):
        while found := os.read(terminal, 65536):
            seen.append(found)
