"""The rule for paths of a table's files: every store can write, read and delete a path that the gate accepts. Pure.

A path is relative to its table's location. The rule is the strictest of all stores': one file name in Linux takes 255
bytes, a key in S3 1024 bytes with the location's own prefix. Characters that a shell, a URI or a file system treats in
its own way are left out, so a path needs no quoting, and can contain neither `..` nor a scheme.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

MAX_PATH_LENGTH: Final = 900
"""The most characters of a path, each of one byte."""

MAX_LOCATION_BYTES: Final = 1024 - MAX_PATH_LENGTH
"""The bytes that are left in a key of S3 for the location's own prefix, with its slash."""

PATH_RULE: Final = (
    f"Give parts of letters, digits and _ . = - (ASCII) that begin with a letter, digit or _, each of at most 255 "
    f"characters, joined by single slashes, at most {MAX_PATH_LENGTH} characters together"
)
"""The remedy if a path is refused; a sentence without its full stop."""

_PART: Final = r"[A-Za-z0-9_][A-Za-z0-9_.=-]{0,254}"
_PATH: Final = re.compile(rf"{_PART}(?:/{_PART})*")


def is_path(path: str) -> bool:
    """Whether a path stays inside its table's location, in every store."""
    return len(path) <= MAX_PATH_LENGTH and _PATH.fullmatch(path) is not None


def find_clash(paths: Sequence[str]) -> tuple[str, str] | None:
    """Finds two paths that cannot both exist in every store; None: there are none.

    A file cannot be the folder of another, and a file system that ignores case has one file for `a` and `A`.

    Args:
        paths: Valid paths; equal ones mean the same file.
    """
    # Programs of lakelog write small letters and no sub-folders: there are `data`, the attempt and the file. For many
    # files one check of all of them is several times faster than one check of each.
    joined = "/".join(paths)
    deep = [path for path in paths if path.count("/") > 2]
    if not deep and joined.lower() == joined:
        return None
    known: dict[str, str] = {}
    for path in sorted(set(paths)):
        other = known.setdefault(path.lower(), path)
        if other != path:
            return other, path
    for path in deep:
        parts = path.lower().split("/")
        for end in range(3, len(parts)):
            folder = known.get("/".join(parts[:end]))
            if folder is not None:
                return folder, path
    return None
