"""Holding a folder: by a lock on a file in it, which the kernel releases when the holder dies, however it dies."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from pathlib import Path
from typing import IO

from lakelog.errors import AlreadyExists


def acquire_lock(file: IO[str], *, folder: Path, say: Callable[[str], str]) -> None:
    """Takes the lock of a file that was opened for appending and reading; closing the file gives it back.

    Args:
        file: Holds the id of the process that has the lock. Closed where another has it.
        folder: For the error.
        say: What the error says of that process.

    Raises:
        AlreadyExists: Another has it.
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
