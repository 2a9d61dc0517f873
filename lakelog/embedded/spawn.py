"""Makes child processes that cannot outlive this process."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, TypeAlias

_LAUNCHER = Path(__file__).with_name("launch.py")

_Start: TypeAlias = Callable[[], subprocess.Popen[bytes]]


@dataclass(frozen=True)
class RunAs:
    """A user of the operating system that a child runs as; only root can use it."""

    user_id: int
    group_id: int


def spawn_child(
    command: Sequence[str],
    *,
    log: IO[bytes],
    environment: Mapping[str, str] | None = None,
    working_directory: Path | None = None,
    death_signal: signal.Signals = signal.SIGKILL,
    run_as: RunAs | None = None,
) -> subprocess.Popen[bytes]:
    """Starts a child as the leader of its own session, so that Ctrl-C in a terminal reaches us and not the child.

    Args:
        command: The program (an absolute path, or a name on PATH) and its arguments.
        log: The file for its standard output and error; its standard input is empty.
        environment: All of its environment variables; None: ours.
        working_directory: The folder it starts in; None: ours.
        death_signal: The signal from the kernel when this process dies, in any way.
        run_as: The user it becomes; None: ours.

    Returns:
        The running child; its process id stays the same when the launcher becomes the command.
    """
    owner = run_as or RunAs(-1, -1)
    launch = [sys.executable, "-I", "-S", str(_LAUNCHER), str(os.getpid()), str(int(death_signal))]
    read_end, write_end = os.pipe()
    launch += [str(owner.user_id), str(owner.group_id), str(write_end), *command]

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            launch,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=None if environment is None else dict(environment),
            cwd=working_directory,
            pass_fds=(write_end,),
            start_new_session=True,
        )

    with open(read_end, "rb") as pipe:
        try:
            child = _spawner(os.getpid()).run(start)
        finally:
            os.close(write_end)
        # Ends when the launcher has become the command or has given up: no one can pause or signal it half-way.
        pipe.read()
    return child


class _Spawner:
    """One thread that makes all children.

    SUBTLE: the kernel sends the death signal when the *thread* that made the child ends, not the process. This thread
    ends only with the process, whatever happens to the threads that use it. It is a daemon, so that children still
    live during exit handlers.
    """

    def __init__(self) -> None:
        self._requests: queue.SimpleQueue[tuple[_Start, Future[subprocess.Popen[bytes]]]] = queue.SimpleQueue()
        threading.Thread(target=self._serve, name="lakelog-spawner", daemon=True).start()

    def run(self, start: _Start) -> subprocess.Popen[bytes]:
        future: Future[subprocess.Popen[bytes]] = Future()
        self._requests.put((start, future))
        return future.result()

    def _serve(self) -> None:
        while True:
            start, future = self._requests.get()
            try:
                future.set_result(start())
            except BaseException as error:
                future.set_exception(error)


@lru_cache(maxsize=1)
def _spawner(process_id: int) -> _Spawner:
    # By process id: after a fork, the child has this object but not its thread.
    return _Spawner()
