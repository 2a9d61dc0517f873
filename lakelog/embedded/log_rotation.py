"""Keeps the logs of child processes small; the children themselves write to these files.

A child holds its log open for appending as long as it runs. So a large log is copied, and then truncated; the child
goes on at its beginning.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

MAX_BYTES: Final = 64 << 20
MAX_PARTS: Final = 3
"""The number of older parts of each log; `NAME.log.1` is the newest of them."""


def rotate_logs(folder: Path, *, max_bytes: int = MAX_BYTES, kept: int = MAX_PARTS) -> None:
    """Moves the logs of a folder that are larger than `max_bytes` to older parts, and deletes the oldest parts.

    A crash in between at worst leaves the same lines in two parts. If the disk is full, all stays as it is.
    """
    for log in sorted(folder.glob("*.log")):
        with suppress(OSError):
            if log.stat().st_size > max_bytes:
                _rotate(log, kept)


def _rotate(log: Path, kept: int) -> None:
    copy = log.with_name(f"{log.name}.new")
    try:
        with log.open("rb") as source, copy.open("wb", buffering=0) as target:
            shutil.copyfileobj(source, target)
            for number in range(kept, 1, -1):
                with suppress(FileNotFoundError):
                    log.with_name(f"{log.name}.{number - 1}").replace(log.with_name(f"{log.name}.{number}"))
            copy.replace(log.with_name(f"{log.name}.1"))
            # Lines that were written meanwhile.
            shutil.copyfileobj(source, target)
            os.truncate(log, 0)
    except OSError:
        copy.unlink(missing_ok=True)
        raise
