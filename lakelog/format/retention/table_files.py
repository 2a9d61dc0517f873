"""The files below a table's location: what refers to them, whose they are, and which of them may be deleted.

A file stands in the folder of its attempt, `data/<attempt id>/`. Nothing refers to it before its attempt is committed,
and what an attempt has left when it is over nothing will ever refer to: so the state of the attempt decides, provided
that it was asked for BEFORE what refers to the file (reliability C4).
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lakelog.format.commit.facts import AttemptState

MAX_FILES_A_CALL: Final = 10_000
"""Files, or attempts, that one call to the metastore is about."""

ABANDONED_MS: Final = 3 * 86_400_000
"""An attempt that has been open for so long is given up by itself: no write takes three days, and what a dead one has
left costs only room."""

SETTLED_MS: Final = 3_600_000
"""An attempt that was aborted, and opened so long ago, is cleared away: who was writing under it knows by then, or is
gone. Whoever dooms one deletes its files by himself, unless he dies."""

_IN_ATTEMPT: Final = re.compile(r"data/([0-9a-f]{32})/.+")


class FileUse(enum.Enum):
    """What refers to a file."""

    DATA = "data"
    """A snapshot that is kept, or a tag, has it as a data file."""
    CHANGELOG = "changelog"
    """A changelog that is kept has it."""
    DELETION_VECTORS = "deletion vectors"
    """A data file names it for its deletion vectors."""
    EXPIRED = "expired"
    """Nothing any more: expiry has listed it, and deletes it."""


@dataclass(frozen=True)
class UsedFile:
    """A file that something refers to, or that is queued.

    Args:
        path: Relative to the table's location.
        use: What refers to it.
        size_bytes: As it was committed; None: not known.
    """

    path: str
    use: FileUse
    size_bytes: int | None


@dataclass(frozen=True)
class AttemptAge:
    """An attempt of a table.

    Args:
        attempt_id: The attempt.
        state: Where it is in its life.
        age_ms: How long ago it was opened, by the database's clock.
    """

    attempt_id: str
    state: AttemptState
    age_ms: int


@dataclass(frozen=True)
class FoundFiles:
    """What is known of some paths.

    Args:
        files: Those that something refers to, or that are queued, in any order.
        attempts: Those of the attempts in whose folders the paths are that are known, as they were before the files
            were looked up.
    """

    files: tuple[UsedFile, ...]
    attempts: tuple[AttemptAge, ...]


@dataclass(frozen=True)
class UsedPage:
    """Some of the files that a table refers to, and where the next ones are found; empty: there are none."""

    files: tuple[UsedFile, ...]
    cursor: str


class OrphanReason(enum.Enum):
    """Why nothing refers to a file."""

    OPEN = "open attempt"
    """Its attempt is open: somebody writes it, or died."""
    ABORTED = "aborted attempt"
    """Its attempt was given up."""
    LEFT = "left by a commit"
    """Its attempt is committed, but not with this file: a part of a compaction that was dropped, or a task's that came
    too late."""
    UNKNOWN = "unknown"
    """No attempt of this table is known that could have written it."""


def find_attempt(path: str) -> str:
    """The attempt in whose folder a path is; empty: in none. Pure."""
    found = _IN_ATTEMPT.fullmatch(path)
    return found[1] if found else ""


def find_reason(attempt: AttemptAge | None) -> OrphanReason:
    """Why nothing refers to a file of an attempt; None: of one that is not known. Pure."""
    if attempt is None:
        return OrphanReason.UNKNOWN
    return _REASONS[attempt.state]


def may_delete(reason: OrphanReason, *, is_aborted: bool, age_ms: int, older_than_ms: int) -> bool:
    """Whether a file that nothing refers to may be deleted. Pure.

    Args:
        reason: Why nothing refers to it.
        is_aborted: Whether its attempt was aborted since it was looked up, so that it can never be committed.
        age_ms: How long ago the file was written, by the clocks of its store and of the caller.
        older_than_ms: From which age on files are deleted of whose attempts nothing is known.
    """
    if reason is OrphanReason.OPEN:
        return is_aborted
    return reason is not OrphanReason.UNKNOWN or age_ms >= older_than_ms


_REASONS: Final[Mapping[AttemptState, OrphanReason]] = {
    AttemptState.OPEN: OrphanReason.OPEN,
    AttemptState.ABORTED: OrphanReason.ABORTED,
    AttemptState.COMMITTED: OrphanReason.LEFT,
}
