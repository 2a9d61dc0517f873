"""Deletes files of a table that nothing refers to, and passes over files that cannot be deleted."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lakelog.errors import LakelogError, Unavailable
from lakelog.format.tables.paths import is_path
from lakelog.storage.objects.store import ObjectStore

MAX_SILENT: Final = 3
"""If a store does not answer about this many files in a row, it counts as away."""


@dataclass(frozen=True)
class LeftFile:
    """A file that could not be deleted.

    Args:
        path: Relative to the table's location.
        reason: The reason, as a sentence.
    """

    path: str
    reason: str


def delete_files(store: ObjectStore, paths: Sequence[str]) -> list[LeftFile]:
    """Deletes files; blocks. A file that cannot be deleted does not stop the others. Idempotent.

    Args:
        store: The store with the files.
        paths: Relative to the store's location; missing files are no error.

    Returns:
        The files that are left: the store refuses their paths or their deletion.

    Raises:
        Unavailable: The store cannot be reached.
    """
    left = [LeftFile(path, "No store takes such a path.") for path in paths if not is_path(path)]
    possible = [path for path in paths if is_path(path)] if left else paths
    if not possible:
        return left
    try:
        store.delete_many(possible)
    except LakelogError:
        left += _delete_one_by_one(store, possible)
    return left


def _delete_one_by_one(store: ObjectStore, paths: Sequence[str]) -> list[LeftFile]:
    left: dict[str, LeftFile] = {}
    silent = 0
    for path in paths:
        try:
            store.delete(path)
        except Unavailable as error:
            silent += 1
            if silent == MAX_SILENT:
                raise
            left[path] = LeftFile(path, error.message)
        except LakelogError as error:
            silent = 0
            left[path] = LeftFile(path, error.message)
        else:
            silent = 0
    # The second call removes the folders that are empty now.
    with contextlib.suppress(LakelogError):
        store.delete_many([path for path in paths if path not in left])
    return list(left.values())
