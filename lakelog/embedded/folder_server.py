"""What a Postgres server and a Kafka broker in a folder have in common: one process, and a lock on the folder."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import IO, ClassVar, Self

from lakelog.embedded.folder_lock import acquire_lock
from lakelog.embedded.processes import ManagedProcess


class FolderServer(ABC):
    """A server with its data and log in a folder; a component for `lakelog.embedded.supervisor`.

    Args:
        folder: The folder for all its files. At most one server at a time runs in it.
        log: The file for its log; None: a file in the folder.
        ready_within_s: The limit for a start, recovery included.
    """

    name: ClassVar[str]

    def __init__(self, folder: Path, log: Path | None, ready_within_s: float) -> None:
        self.folder = folder.absolute()
        self.log = log or self.folder / f"{self.name}.log"
        self._ready_within_s = ready_within_s
        self._data = self.folder / "data"
        self._lock: IO[str] | None = None
        self._process: ManagedProcess | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.folder)!r}, {'running' if self.is_running else 'stopped'})"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def is_running(self) -> bool:
        """Whether the server was started by this object and has not ended."""
        return self._process is not None and self._process.is_running

    @property
    def final_words(self) -> str | None:
        """None: after any end of the server, another start may help."""
        return None

    @property
    def waiting_words(self) -> str | None:
        """None: no one has to do anything first."""
        return None

    @property
    def was_killed(self) -> bool:
        """Whether a signal ended it."""
        return self._process is not None and self._process.was_killed

    @property
    def exit_reason(self) -> str:
        """How the server ended, for messages."""
        return self._process.exit_reason if self._process else "was not started"

    @property
    def pid(self) -> int | None:
        """The process id of the server; None before the first start."""
        return self._process.pid if self._process else None

    @abstractmethod
    def start(self) -> None:
        """Starts the server and blocks until it answers; does nothing if it runs."""

    @abstractmethod
    def stop(self) -> None:
        """Stops the server in order and blocks until it is gone; idempotent."""

    def restart(self) -> None:
        """Stops it, if it runs, and starts it again at the same addresses; raises as `start`."""
        self.stop()
        self.start()

    def last_log_lines(self, count: int = 20) -> list[str]:
        """The last lines of its log, oldest first."""
        return self._process.last_log_lines(count) if self._process else []

    def _acquire_lock(self) -> None:
        if self._lock is not None:
            return
        lock = (self.folder / "owner.lock").open("a+")
        acquire_lock(
            lock,
            folder=self.folder,
            say=lambda holder: (
                f"The folder {self.folder} is in use by the running process {holder}: "
                "stop that one first, or choose another folder."
            ),
        )
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        self._lock = lock

    def _release_lock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None
