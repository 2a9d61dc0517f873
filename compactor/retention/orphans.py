"""Deleting what attempts have written that can no longer be committed (reliability C4: aborted first)."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import LakelogError
from lakelog.storage.objects.store import ObjectStore


def delete_aborted(store: ObjectStore, attempt_ids: Iterable[str]) -> int:
    """Deletes the files of attempts that are aborted; how many. What cannot be deleted, the collector finds."""
    count = 0
    for attempt_id in attempt_ids:
        with contextlib.suppress(LakelogError):
            paths = [each.path for each in store.list_objects(f"data/{attempt_id}")]
            store.delete_many(paths)
            count += len(paths)
    return count


def delete_unnamed(store: ObjectStore, attempt_id: str, kept: Collection[str]) -> int:
    """Deletes the files of an attempt that is committed but for those to keep; how many. Never raises lakelog errors.

    It can be committed by nobody else, so that what its commit does not name is of no use. What cannot be deleted, the
    collector finds.
    """
    with contextlib.suppress(LakelogError):
        paths = [each.path for each in store.list_objects(f"data/{attempt_id}") if each.path not in kept]
        if paths:
            store.delete_many(paths)
        return len(paths)
    return 0


def give_up_attempt(metastore: Metastore, store: ObjectStore, attempt_id: str) -> None:
    """Aborts an attempt and deletes its files, if it is certain that it is aborted; never raises lakelog errors."""
    try:
        metastore.abandon_attempt(attempt_id)
    except LakelogError:
        # Open still, or committed after all: its files are not ours to delete. Whoever takes the job next dooms it.
        return
    delete_aborted(store, [attempt_id])
