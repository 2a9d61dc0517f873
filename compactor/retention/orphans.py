"""Deleting files of attempts that can no longer be committed (reliability C4: aborted first)."""

from __future__ import annotations

from collections.abc import Iterable

from lakelog.storage.objects.store import ObjectStore
from lakelog.writes.attempt import delete_attempt_files


def delete_aborted(store: ObjectStore, attempt_ids: Iterable[str]) -> int:
    """Deletes the files of aborted attempts and returns how many; the clean-up finds those that cannot be deleted."""
    return sum(delete_attempt_files(store, attempt_id) for attempt_id in attempt_ids)
