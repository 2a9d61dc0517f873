"""Makes the disk store what was written, before a caller learns that it is there."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def synchronise(path: Path) -> None:
    """Makes a file's content, or the names in a folder, durable; blocks on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems synchronise no folders; their entries are durable by themselves.
        if error.errno != errno.EINVAL or not path.is_dir():
            raise
    finally:
        os.close(descriptor)
