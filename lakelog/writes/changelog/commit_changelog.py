"""The changelog's part in a commit, for the SDK and Spark: how it is made, and repeating until it holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from lakelog.client.connection.retry import RetryPolicy
from lakelog.clock import Clock
from lakelog.errors import FILE_MISSING, CommitConflict, DataCorrupted
from lakelog.format.commit.request import CommitResult
from lakelog.format.commit.rules import TIME_PASSED
from lakelog.format.tables.snapshot import ChangelogState
from lakelog.options.declared.tables import (
    CHANGELOG_PRODUCER,
    FULL_COMPACTION,
    LOOKUP_WAIT,
    ROW_DEDUPLICATE,
    ROW_DEDUPLICATE_IGNORE_FIELDS,
    WRITE_ONLY,
)
from lakelog.options.values import TableOptions

_MAX_LOOKUPS: Final = 20
"""Tries against commits to the same buckets: the waits between them, which grow, add up to about 15 seconds."""

_RETRIED_REASONS: Final = ("BUCKET_CHANGED", "BASE_EXPIRED", TIME_PASSED)
"""Reasons of a conflict that a lookup against the newest snapshot resolves."""

LATER: Final = "later"
"""A compactor makes the changelog after the commit, by `lookup`."""


class LooksUp(Protocol):
    """What must be looked up before a commit, and again when other commits came first."""

    def look_up(self) -> None:
        """Looks up, against the newest snapshot, what is not looked up yet or has changed since."""
        ...

    def learn_time(self, now_ms: int) -> None:
        """Takes note of the database's time."""


def find_producer(options: TableOptions, *, replaces: bool) -> str:
    """Returns how the changelog of a commit is made: `input`, `lookup`, `none` or `LATER`. Pure.

    With the producer `full-compaction` commits have none: the metastore knows that full compactions emit it.

    Args:
        options: The table's options.
        replaces: Whether it is an overwrite, which has no changelog (semantics 3.4, 5.2).
    """
    if replaces:
        return "none"
    producer = options.get(CHANGELOG_PRODUCER)
    if producer == FULL_COMPACTION:
        return "none"
    is_late = producer == "lookup" and (options.get(WRITE_ONLY) or not options.get(LOOKUP_WAIT))
    return LATER if is_late else producer


def to_changelog_state(producer: str) -> ChangelogState:
    """Returns what a commit states about its changelog. Pure."""
    if producer == LATER:
        return ChangelogState.PENDING
    return ChangelogState.NONE if producer == "none" else ChangelogState.ATTACHED


_RULES: Final = (ROW_DEDUPLICATE.key, ROW_DEDUPLICATE_IGNORE_FIELDS.key)
"""Options that decide what a changelog contains, and that can be altered while it is pending."""


def to_open_rules(producer: str, options: Mapping[str, str]) -> dict[str, str]:
    """Returns the options that a commit with a pending changelog stores in its properties: those that decide it. Pure.

    Args:
        producer: How its changelog is made.
        options: The table's options at the commit.
    """
    return find_open_rules(options) if producer == LATER else {}


def find_open_rules(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns the options of a pending changelog from its snapshot's properties; missing ones are not set. Pure."""
    return {key: properties[key] for key in _RULES if key in properties}


def with_open_rules(options: Mapping[str, str], properties: Mapping[str, str]) -> dict[str, str]:
    """Returns a table's options as they were at the commit of a snapshot with a pending changelog. Pure."""
    return {key: value for key, value in options.items() if key not in _RULES} | find_open_rules(properties)


def commit_lookups(
    lookups: Sequence[LooksUp], commit: Callable[[], CommitResult], clock: Clock, rng: Callable[[], float]
) -> CommitResult:
    """Commits, and looks up again for as long as others change the same buckets meanwhile; blocks.

    Repeating is safe: a refused commit had no effect, and each time some other commit made progress. A missing file may
    have been replaced and have expired since the plan, so it is looked up once more.

    Args:
        lookups: What is looked up before each try.
        commit: Makes one try, with what was looked up.
        clock: Waits between tries.
        rng: Random in [0, 1), for the waits.

    Raises:
        CommitConflict: For another reason, or one that 20 tries did not settle.
        DataCorrupted: A file is damaged, or missing and still part of the table.
        LakelogError: As `look_up` and `commit` raise it.
    """
    policy, missing = RetryPolicy(), ""
    for tries in range(1, _MAX_LOOKUPS + 1):
        try:
            for lookup in lookups:
                lookup.look_up()
            return commit()
        except DataCorrupted as error:
            if error.reason != FILE_MISSING or error.message == missing or tries == _MAX_LOOKUPS:
                raise
            missing = error.message
        except CommitConflict as error:
            if error.reason not in _RETRIED_REASONS:
                raise
            if tries == _MAX_LOOKUPS:
                raise _never_resolved(error) from error
            if error.reason == TIME_PASSED:
                for lookup in lookups:
                    lookup.learn_time(int(error.metadata["time_ms"]))
        clock.sleep(policy.backoff_s(tries, rng()))
    raise AssertionError("the last try returns or raises")


def _never_resolved(error: CommitConflict) -> CommitConflict:
    return CommitConflict(
        f"{error.message} This was tried {_MAX_LOOKUPS} times, and each time another commit came first; nothing of it "
        "is visible. Write it again, give the table more buckets, or let fewer writers write the same ones.",
        reason=error.reason,
        metadata=error.metadata,
    )
