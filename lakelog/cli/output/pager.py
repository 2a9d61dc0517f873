"""Shows output that is longer than the terminal in a pager; shorter output is printed as it is."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO


class Pager:
    """Keeps text back until it is clear whether it fits on the terminal.

    Args:
        command: The pager and its arguments.
        environment: What it runs with.
        height: The lines of the terminal.
        out: The terminal, for text that fits.
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], height: Callable[[], int], out: IO[str]
    ) -> None:
        self._command = command
        self._environment = environment
        self._height = height
        self._out = out
        self._kept: list[str] = []
        self._lines = 0
        self._process: subprocess.Popen[str] | None = None
        self._failed = False

    def write(self, text: str) -> None:
        """Takes text.

        Raises:
            BrokenPipeError: The user has left the pager.
        """
        if self._process is None and not self._failed:
            self._kept.append(text)
            self._lines += text.count("\n")
            # The shell's next prompt takes a line, too.
            if self._lines < self._height() - 1:
                return
            self._start()
            text = "".join(self._kept)
            self._kept.clear()
        self._pass_on(text)

    def close(self) -> None:
        """Prints what was kept back, or waits until the user leaves the pager."""
        if self._process is None:
            self._pass_on("".join(self._kept))
            return
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        while True:
            # Ctrl-C is for the pager, which may end a search with it.
            with suppress(KeyboardInterrupt):
                self._process.wait()
                return

    def _start(self) -> None:
        try:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=self._out,
                env=dict(self._environment),
                text=True,
                encoding="utf-8",
            )
        except OSError:
            # Output without a pager is better than none.
            self._failed = True

    def _pass_on(self, text: str) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.write(text)
            self._process.stdin.flush()
        else:
            self._out.write(text)
            self._out.flush()
