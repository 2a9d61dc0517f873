"""Locks a folder by a lock on a file in it; the kernel releases it when the process dies, in any way."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from pathlib import Path
from typing import IO

from lakelog.errors import AlreadyExists


def acquire_lock(file: IO[str], *, folder: Path, say: Callable[[str], str]) -> None:
    """Locks a file that was opened for appending and reading; closing the file releases the lock.

    Args:
        file: Holds the id of the process that has the lock. Closed if another process has it.
        folder: The folder, for the error.
        say: Makes the error's sentence about that process.

    Raises:
        AlreadyExists: Another process has the lock.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.seek(0)
        holder = file.read().strip() or "unknown"
        file.close()
        raise AlreadyExists(
            say(holder), reason="FOLDER_IN_USE", metadata={"folder": str(folder), "pid": holder}
        ) from error
