"""Repeats work that reads rows and then commits what follows from them, where another commit came in between."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from lakelog.client.connection.retry import RetryPolicy
from lakelog.context import Context
from lakelog.errors import CommitConflict, SnapshotExpired
from lakelog.format.commit.guards import CHANGED_SINCE, GUARD_EXPIRED

T = TypeVar("T")

MAX_TRIES: Final = 20
"""Tries against commits to the same rows, as for changelogs by lookup: about 15 seconds of waiting."""

_REPLACED: Final = ("INPUT_GONE", "FILES_NOT_LIVE")
"""Reasons of a conflict over a file that is not live any more, for instance since a compaction."""


def run_again(context: Context, commit: Mapping[str, Any], do: Callable[[], T]) -> T:
    """Does something, and again if another commit has changed what it read, a bounded number of times. Blocks.

    Args:
        context: For the pauses.
        commit: The user's commit options; a conflict over a guard among them is the user's.
        do: Reads and commits; nothing of it is visible if it raises.

    Raises:
        CommitConflict: Others came first each time; the message says so.
    """
    policy = RetryPolicy()
    for tries in range(1, MAX_TRIES + 1):
        try:
            return do()
        except (CommitConflict, SnapshotExpired) as error:
            if not _helps(error, commit):
                raise
            if tries == MAX_TRIES:
                raise CommitConflict(
                    f"Other commits changed the rows in between {MAX_TRIES} times, and nothing was written. Repeat it "
                    f"when fewer programs write to them. The last time: {error.message}",
                    reason=error.reason,
                    metadata=error.metadata,
                ) from error
        context.clock.sleep(policy.backoff_s(tries, context.rng()))
    raise AssertionError("the last try returns or raises")


def _helps(error: CommitConflict | SnapshotExpired, commit: Mapping[str, Any]) -> bool:
    """Whether reading the newest snapshot again can help. Pure."""
    if isinstance(error, SnapshotExpired) or error.reason in _REPLACED:
        return True
    if error.reason not in (CHANGED_SINCE, GUARD_EXPIRED):
        return False
    guard = str(error.metadata.get("guard"))
    # SUBTLE: guards of the user and of the work are met to the older snapshot. A new try must not go round the user's.
    return commit.get(guard) is None
