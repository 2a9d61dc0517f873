"""Folders in which executors write or read files, and that their driver program sees, too: if all machines share them.

On S3 they always do. A folder of a machine is another folder on each machine, unless it is mounted on all of them at
the same path. Then an executor writes to its own disk, and a commit would name files that no reader finds.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from lakelog.errors import InvalidArgument

FOLDER_NOT_SHARED: Final = "FOLDER_NOT_SHARED"
"""The reason of an error when an executor and the driver program see different folders at one path."""

REMEDY: Final = (
    "Mount it at this path on all machines of the cluster, use S3, or run Spark on this machine alone (local[N])."
)

_SHOWN: Final = 3


def check_files_are_here(table_name: str, location: str, paths: Iterable[str]) -> None:
    """Checks that files which tasks wrote are in the table's folder as this machine sees it; nothing to do on S3.

    Args:
        table_name: For messages.
        location: The table's location.
        paths: Relative to it.

    Raises:
        InvalidArgument: Some are missing (reason `FOLDER_NOT_SHARED`).
    """
    parts = urlsplit(location)
    if parts.scheme != "file":
        return
    root = unquote(parts.path)
    missing = [path for path in paths if not os.path.exists(os.path.join(root, path))]
    if missing:
        named = ", ".join(missing[:_SHOWN]) + (" and more" if len(missing) > _SHOWN else "")
        raise InvalidArgument(
            f"Executors wrote {len(missing)} files of table {table_name} that are not in {root} on this machine "
            f"({named}), so that no commit may name them. They see another folder at this path, or something deleted "
            f"the files. {REMEDY}",
            reason=FOLDER_NOT_SHARED,
            metadata={"table": table_name, "path": root},
        )


def check_folder_is_shared(what: str, folder: Path, mark: str) -> None:
    """Checks that a file which the driver program made in a folder is there. Runs on executors.

    Raises:
        InvalidArgument: It is not (reason `FOLDER_NOT_SHARED`).
    """
    if not (folder / mark).exists():
        raise not_shared(what, folder)


def not_shared(what: str, folder: Path) -> InvalidArgument:
    """The error of an executor that does not see the driver program's folder."""
    host = socket.gethostname()
    return InvalidArgument(
        f"The executor on {host} does not see {what} {folder} of its driver program. {REMEDY}",
        reason=FOLDER_NOT_SHARED,
        metadata={"path": str(folder), "host": host},
    )
