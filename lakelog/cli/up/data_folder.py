"""The data folder of `lakelog up`: one process at a time uses it, and takes it over after another was killed."""

from __future__ import annotations

import errno
import os
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from lakelog.embedded.folder_lock import acquire_lock
from lakelog.errors import AlreadyExists, LakelogError

_PORT_IS_FREED_WITHIN_S: Final = 10.0
"""How long the children of a killed `lakelog up` may take to end; the kernel signals them at once."""


class DataFolder:
    """Locks a folder while it is used as a context. When the process dies, in any way, the kernel releases the lock.

    Args:
        path: The folder; made if it is missing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.abandoned_by: int | None = None
        """The process that had the folder before and did not end in order; known once the folder is locked."""
        self._lock: IO[str] | None = None

    def __enter__(self) -> DataFolder:
        """Locks the folder.

        Raises:
            AlreadyExists: A living process uses it.
            LakelogError: It cannot be made or written.
        """
        file = self.path / "up.lock"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = file.open("a+")
        except OSError as error:
            raise LakelogError(
                f"The data folder {self.path} cannot be used: {error.strerror}. Choose another one by --data.",
                reason="FOLDER_NOT_USABLE",
            ) from error
        acquire_lock(
            lock,
            folder=self.path,
            say=lambda holder: (
                f"The data folder {self.path} is in use by another `lakelog up` (process {holder}): stop "
                "that one, or choose another folder by --data."
            ),
        )
        lock.seek(0)
        before = lock.read().strip()
        self.abandoned_by = int(before) if before.isdigit() else None
        self._write(lock, str(os.getpid()))
        self._lock = lock
        return self

    def __exit__(self, *_: object) -> None:
        """Releases the folder in order."""
        if self._lock is not None:
            self._write(self._lock, "")
            self._lock.close()
            self._lock = None

    @staticmethod
    def _write(lock: IO[str], text: str) -> None:
        lock.seek(0)
        lock.truncate()
        lock.write(text)
        lock.flush()


def wait_for_port(host: str, port: int, *, patient: bool, option: str = "--port") -> None:
    """Returns when no one listens on a port.

    Args:
        host: The port's address.
        port: Its number.
        patient: Whether ending processes may still use it.
        option: The option that chooses another port, for the errors.

    Raises:
        AlreadyExists: Another program listens there.
        LakelogError: The address is none of this machine's.
    """
    give_up_s = time.monotonic() + (_PORT_IS_FREED_WITHIN_S if patient else 0.0)
    while True:
        problem = _try_port(host, port, option)
        if problem is None:
            return
        if time.monotonic() >= give_up_s:
            raise problem
        time.sleep(0.1)


def choose_port(host: str, port: int) -> int | None:
    """The port if it is free, else None, which stands for any free one."""
    return None if _try_port(host, port, "") else port


def _try_port(host: str, port: int, option: str) -> LakelogError | None:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            # Connections of an earlier server that are still closing do not count, as for servers themselves.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        metadata = {"host": host, "port": str(port)}
        if isinstance(error, socket.gaierror) or error.errno not in (errno.EACCES, errno.EADDRINUSE):
            message = f"Nothing can listen at {host}:{port}: {error.strerror}. Choose another --host."
            return LakelogError(message, reason="ADDRESS_NOT_USABLE", metadata=metadata)
        if error.errno == errno.EACCES:
            message = f"You may not use port {port}: {error.strerror}. Choose one above 1023 by {option}."
            return LakelogError(message, reason="ADDRESS_NOT_USABLE", metadata=metadata)
        return AlreadyExists(
            f"Port {port} of {host} is in use by another program: stop that one, or choose another port by {option}.",
            reason="PORT_IN_USE",
            metadata=metadata,
        )
    return None


def write_ready_file(path: Path, text: str) -> None:
    """Writes a file so that it is either complete or missing."""
    unfinished = path.with_name(path.name + ".unfinished")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)


def remove_ready_file(path: Path) -> None:
    """Removes it if it is there."""
    with suppress(FileNotFoundError):
        path.unlink()
