"""Deleting what attempts have written that can no longer be committed (reliability C4: aborted first)."""

from __future__ import annotations

from collections.abc import Iterable

from lakelog.storage.objects.store import ObjectStore
from lakelog.writes.attempt import delete_attempt_files


def delete_aborted(store: ObjectStore, attempt_ids: Iterable[str]) -> int:
    """Deletes the files of attempts that are aborted; how many. What cannot be deleted, the collector finds."""
    return sum(delete_attempt_files(store, attempt_id) for attempt_id in attempt_ids)
