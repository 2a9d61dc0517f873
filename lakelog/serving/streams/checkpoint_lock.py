"""The lock of a checkpoint: shows that the process that worked with it on this machine is dead.

A killed process leaves its lease behind, and the next one would wait until that is over. But the kernel releases the
lock of a file with the process, however that ends. So a process locks a file of its checkpoint before it requests the
lease, and writes into it which epoch it got. The next process to get the lock finds the epoch of one that has ended.

1. Only the lock's owner writes. So a process that gets the lock finds the lease of one that has ended.
2. That says nothing about a process of another machine: some network file systems lock on each machine by itself. A
   copy of a checkpoint is another file. So what is written names the kernel and the file, and counts only there.
3. Epochs begin at 1 again in a new database of the metastore. So the holder's name, which has its host and process, is
   written and compared, too.
4. Nothing else depends on it. Without the lock a process waits for the lease. Epochs protect the table (C3), also from
   a process that is taken for dead and is not.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

FILE_NAME: Final = "lease.lock"
_BOOT_FILE: Final = Path("/proc/sys/kernel/random/boot_id")
"""Another text after each start of the machine, the same in all of its containers."""

_MAX_BYTES: Final = 4096


class CheckpointLock:
    """Locks a checkpoint's folder for this process, or waits for it from a thread. Thread-safe.

    Args:
        folder: The checkpoint; made if it does not exist. Where it cannot be made or locked, nothing is ever locked.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._file: int | None = None
        self._is_locked = False
        self._mine: tuple[str, int, str] | None = None

    def lock(self, on_locked: Callable[[], None]) -> None:
        """Takes the lock if it is free; otherwise a thread waits for it, and calls back once it has it. Idempotent."""
        with self._lock:
            if self._file is not None or (file := self._open()) is None:
                return
            self._file = file
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._is_locked = True
            except BlockingIOError:
                # The kernel wakes it in the moment in which the owner ends.
                threading.Thread(target=self._wait, args=(file, on_locked), name="checkpoint", daemon=True).start()
            except OSError:
                self._close()

    def record(self, lease: str, epoch: int, holder: str) -> None:
        """Writes down what this process has taken: now, or once it has the lock."""
        with self._lock:
            self._mine = (lease, epoch, holder)
            self._write()

    def is_of_dead(self, lease: str, epoch: int, holder: str) -> bool:
        """Whether a lease's holder, known by its epoch and name, was a process of this machine that has ended."""
        with self._lock:
            if not self._is_locked:
                return False
            assert self._file is not None
            with contextlib.suppress(OSError, ValueError, RecursionError):
                return bool(json.loads(os.pread(self._file, _MAX_BYTES, 0)) == self._describe(lease, epoch, holder))
            return False

    def _open(self) -> int | None:
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            # SUBTLE: it closes in programs that this process starts. Java would keep the lock longer.
            return os.open(self._folder / FILE_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        return None

    def _wait(self, file: int, on_locked: Callable[[], None]) -> None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:
            return
        with self._lock:
            self._is_locked = True
            self._write()
        on_locked()

    def _write(self) -> None:
        if not self._is_locked or self._mine is None:
            return
        assert self._file is not None
        with contextlib.suppress(OSError):
            os.ftruncate(self._file, 0)
            # Not synchronised: it means nothing after a crash of the machine.
            os.pwrite(self._file, json.dumps(self._describe(*self._mine)).encode(), 0)

    def _describe(self, lease: str, epoch: int, holder: str) -> dict[str, Any]:
        assert self._file is not None
        found = os.fstat(self._file)
        # The number of a file is not given again while a process has it open.
        place = [_BOOT_FILE.read_text().strip(), found.st_dev, found.st_ino]
        return {"lease": lease, "epoch": epoch, "holder": holder, "file": place}

    def _close(self) -> None:
        assert self._file is not None
        os.close(self._file)
        self._file = None
