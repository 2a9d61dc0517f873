"""The mode of new files: services and `lakelog up` make files and folders that only their owner can read and write."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Final

from lakelog.errors import InvalidArgument

UMASK_VARIABLE: Final = "LAKELOG_UMASK"

DEFAULT_UMASK: Final = "077"

_OCTAL: Final = re.compile(r"0?[0-7]{3}")


def restrict_new_files(environment: Mapping[str, str]) -> None:
    """Sets the umask of this process, which its children inherit. Services call it first, before any file is made.

    Args:
        environment: Its `LAKELOG_UMASK` has three octal digits; 027 lets the group read, 007 also write into folders.
            Without it only the owner has access, even if the process was started with another umask.

    Raises:
        InvalidArgument: It is no umask, or would deny the owner access.
    """
    given = environment.get(UMASK_VARIABLE) or DEFAULT_UMASK
    if not _OCTAL.fullmatch(given) or int(given, 8) & 0o700:
        raise InvalidArgument(
            f"{UMASK_VARIABLE} is {given[:80]!r}: give three octal digits, the first of them 0, such as "
            f"{DEFAULT_UMASK} (only the owner) or 027 (the group may read).",
            metadata={"field": UMASK_VARIABLE},
        )
    os.umask(int(given, 8))
