"""Repeats what reads rows and commits a change of them, for as long as other commits change these rows first.

Repeating is safe: a refused commit had no effect, and each time some other commit made progress. The number of tries is
bounded, so two programs that change the same rows without pause get an error and no endless work.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from lakelog.client.cancellation import check_cancelled
from lakelog.client.connection.retry import RetryPolicy
from lakelog.clock import Clock
from lakelog.context import Context
from lakelog.errors import CommitConflict, SnapshotExpired
from lakelog.format.commit.guards import CHANGED_SINCE, GUARD_EXPIRED
from lakelog.format.commit.request import INPUT_GONE
from lakelog.writes.commit_options import CommitOptions

T = TypeVar("T")

MAX_TRIES: Final = 20
"""The waits between them, which grow, add up to about 15 seconds, as for changelogs by lookup."""

_OWN_REASONS: Final = (INPUT_GONE, "FILES_NOT_LIVE", "SCHEMA_CHANGED")
"""Reasons of a conflict over what was read, and never over what a user guards."""


@dataclass(frozen=True)
class Pauses:
    """What the waits between tries need: a clock, and a random number in [0, 1)."""

    clock: Clock
    rng: Callable[[], float]


def run_again(context: Context | Pauses, commit: CommitOptions, do: Callable[[], T]) -> T:
    """Calls a function that reads and commits, again if another commit changed what it has read. Blocks.

    Args:
        context: Has the clock.
        commit: The user's guards: a new try must not bypass them.
        do: Reads the newest snapshot, and commits.

    Raises:
        CommitConflict: A guard of the user does not hold, or others came first `MAX_TRIES` times.
    """
    policy = RetryPolicy()
    for tries in range(1, MAX_TRIES + 1):
        check_cancelled()
        try:
            return do()
        except SnapshotExpired:
            if tries == MAX_TRIES:
                raise
        except CommitConflict as error:
            if not is_resolved_by_a_recheck(error, commit):
                raise
            if tries == MAX_TRIES:
                raise _never_resolved(error) from error
        context.clock.sleep(policy.backoff_s(tries, context.rng()))
    raise AssertionError("the last try returns or raises")


def is_resolved_by_a_recheck(error: CommitConflict, commit: CommitOptions) -> bool:
    """Whether reading the newest snapshot again can help. Pure."""
    if error.reason in _OWN_REASONS:
        return True
    guard = error.metadata.get("guard")
    is_own = guard in ("if_snapshot", "if_unchanged") and commit.get(guard) is None
    return is_own and error.reason in (CHANGED_SINCE, GUARD_EXPIRED)


def _never_resolved(error: CommitConflict) -> CommitConflict:
    return CommitConflict(
        f"{error.message} This was tried {MAX_TRIES} times, and each time another commit came first; nothing of it is "
        "visible. Try again when fewer programs change the same rows, or change fewer rows at once.",
        reason=error.reason,
        metadata=error.metadata,
    )
