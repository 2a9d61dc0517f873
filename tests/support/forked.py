"""Programs as processes of their own, forked from one that has imported what they need and done nothing else.

Such a process has its own memory, environment, output, signals and exit code, like one that Python starts from nothing.
It only does not spend a second of CPU on imports, which is most of what a short test of processes costs.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import multiprocessing.connection
import multiprocessing.forkserver
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Final

FORKS: Final = multiprocessing.get_context("forkserver")

_PR_SET_PDEATHSIG: Final = 1
"""From `linux/prctl.h`: the signal that a process gets when its parent ends."""

_preloaded = {"pytest"}


def preload(*modules: str) -> None:
    """Names what the processes of this test run need. Call it while modules are imported, before any process starts."""
    _preloaded.update(modules)
    FORKS.set_forkserver_preload(sorted(_preloaded))


class ForkedProcess:
    """`python -m MODULE ARGUMENTS`, without the start of Python; used as a `subprocess.Popen`.

    It ends with this process at the latest, also if that is killed.

    Args:
        module: The module, which runs as `__main__`.
        arguments: The words after it.
        folder: The working folder.
        environment: All variables of its environment.
        output: The file for its standard output and error; made anew.
        stderr: Another file for its standard error.
        leads: Whether it leads a session and a group of processes, as the children of `lakelog.embedded` do. Its output
            is appended then.
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
        leads: bool = False,
    ) -> None:
        self.args = [module, *arguments]
        for file in filter(None, (output, stderr)):
            file.open("ab" if leads else "wb").close()
        self._process: ForkServerProcess = FORKS.Process(
            target=_run,
            args=(module, list(arguments), str(folder), dict(environment), str(output), str(stderr or output), leads),
            daemon=True,
        )
        self._polling = threading.Lock()
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid
        # No one can signal its group before there is one.
        while leads and self.poll() is None and not _leads_group(self.pid):
            time.sleep(0.002)

    @property
    def returncode(self) -> int | None:
        """The exit code, if it has ended; negative after a signal."""
        return self.poll()

    def poll(self) -> int | None:
        """As `returncode`."""
        # The code comes through a pipe, once: of two threads that read it the second one would find nothing.
        with self._polling:
            return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Blocks until it has ended; raises TimeoutExpired if that takes longer."""
        multiprocessing.connection.wait([self._process.sentinel], timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return code

    def send_signal(self, number: int, /) -> None:
        """Does nothing if it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def signal_session(self, number: int) -> None:
        """To it and all that it started, if it leads; does nothing if it has ended."""
        if self.poll() is None:
            os.killpg(self.pid, number)

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


def _leads_group(pid: int) -> bool:
    try:
        return os.getpgid(pid) == pid
    except ProcessLookupError:
        return False


def _run(
    module: str,
    arguments: list[str],
    folder: str,
    environment: dict[str, str],
    output: str,
    stderr: str,
    leads: bool,
) -> None:
    # The parent, from which it was forked, ends with the process of the tests: when no one has this pipe open any more.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    state = vars(multiprocessing.forkserver._forkserver)
    os.close(state["_forkserver_alive_fd"])
    state["_forkserver_alive_fd"] = None
    if leads:
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
