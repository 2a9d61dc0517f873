"""Programs as processes of their own, forked from one that has imported what they need and done nothing else.

Such a process has its own memory, environment, output, signals and exit code, like one that Python starts from nothing.
It only does not spend a second of CPU on imports, which is most of what a short test of processes costs.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Final

FORKS: Final = multiprocessing.get_context("forkserver")

_preloaded = {"pytest"}


def preload(*modules: str) -> None:
    """Names what the processes of this test run need. Call it while modules are imported, before any process starts."""
    _preloaded.update(modules)
    FORKS.set_forkserver_preload(sorted(_preloaded))


class ForkedProcess:
    """`python -m MODULE ARGUMENTS`, without the start of Python; used as a `subprocess.Popen`.

    Args:
        module: The module, which runs as `__main__`.
        arguments: The words after it.
        folder: The working folder.
        environment: All variables of its environment.
        output: The file for its standard output and error; made anew.
        stderr: Another file for its standard error.
        own_session: Whether it begins a session, so that `signal_session` reaches all that it starts.
    """

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        *,
        folder: Path,
        environment: Mapping[str, str],
        output: Path,
        stderr: Path | None = None,
        own_session: bool = False,
    ) -> None:
        self.args = [module, *arguments]
        for file in filter(None, (output, stderr)):
            file.write_bytes(b"")
        # It ends with this process at the latest.
        self._process: ForkServerProcess = FORKS.Process(
            target=_run,
            args=(
                module,
                list(arguments),
                str(folder),
                dict(environment),
                str(output),
                str(stderr or output),
                own_session,
            ),
            daemon=True,
        )
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, if it has ended; negative after a signal."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """As `returncode`."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Blocks until it has ended; raises TimeoutExpired if that takes longer."""
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        """Does nothing if it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def signal_session(self, number: int) -> None:
        """To it and all that it started, if it has a session of its own; does nothing if it has ended."""
        if self.poll() is not None:
            return
        if os.getsid(self.pid) == self.pid:
            os.killpg(self.pid, number)
        else:
            # It was started a moment ago, and has started nothing.
            os.kill(self.pid, number)

    def kill(self) -> None:
        """As by kill -9."""
        self.send_signal(signal.SIGKILL)


def run_forked(
    module: str, arguments: Sequence[str], *, folder: Path, environment: Mapping[str, str], within_s: float = 60.0
) -> subprocess.CompletedProcess[str]:
    """As `subprocess.run` with captured output; raises TimeoutExpired after a while, as that does."""
    with tempfile.TemporaryDirectory(prefix="ll-run-") as outputs:
        out, err = Path(outputs) / "out", Path(outputs) / "err"
        process = ForkedProcess(module, arguments, folder=folder, environment=environment, output=out, stderr=err)
        try:
            code = process.wait(within_s)
        finally:
            process.kill()
        return subprocess.CompletedProcess(process.args, code, out.read_text(), err.read_text())


def _run(
    module: str,
    arguments: list[str],
    folder: str,
    environment: dict[str, str],
    output: str,
    stderr: str,
    own_session: bool,
) -> None:
    if own_session:
        os.setsid()
    for descriptor, file in ((1, output), (2, stderr)):
        # At the end, as two descriptors can be of the same file.
        opened = os.open(file, os.O_WRONLY | os.O_APPEND)
        os.dup2(opened, descriptor)
        os.close(opened)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    # A program may have children, unlike a daemon of multiprocessing.
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]
    sys.argv[1:] = arguments
    runpy.run_module(module, run_name="__main__", alter_sys=True)
