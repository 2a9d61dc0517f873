"""The files below a table's location: what refers to them, their attempts, and which of them may be deleted.

A file is in the folder of its attempt, `data/<attempt id>/`. Nothing refers to it before its attempt is committed, and
nothing will ever refer to files that an attempt has left over at its end. So the state of the attempt decides, provided
that it was read BEFORE the references to the file (reliability C4).
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lakelog.format.commit.facts import AttemptState

MAX_FILES_A_CALL: Final = 10_000
"""Files, or attempts, in one call to the metastore."""

ABANDONED_MS: Final = 3 * 86_400_000
"""An attempt that has been open for this long is aborted: no write takes three days, and files of a dead one only cost
space."""

SETTLED_MS: Final = 3_600_000
"""Files of an attempt that was aborted, and opened this long ago, are deleted: its writer knows by then, or is gone. A
process that aborts an attempt deletes the files itself, unless it dies."""

_IN_ATTEMPT: Final = re.compile(r"data/([0-9a-f]{32})/.+")


class FileUse(enum.Enum):
    """What refers to a file."""

    DATA = "data"
    """A retained snapshot, or a tag, has it as a data file."""
    CHANGELOG = "changelog"
    """A retained changelog has it."""
    DELETION_VECTORS = "deletion vectors"
    """A data file refers to it as its deletion vectors."""
    EXPIRED = "expired"
    """Nothing any more: expiry has listed it, and deletes it."""


@dataclass(frozen=True)
class UsedFile:
    """A file that something refers to, or that is queued.

    Args:
        path: Relative to the table's location.
        use: What refers to it.
        size_bytes: The committed size; None: not known.
        first_snapshot_id: The first snapshot that has it; None: not known.
        last_snapshot_id: The last snapshot that has it; None: the newest one has it, or it is not known.
    """

    path: str
    use: FileUse
    size_bytes: int | None
    first_snapshot_id: int | None = None
    last_snapshot_id: int | None = None


@dataclass(frozen=True)
class AttemptAge:
    """An attempt of a table.

    Args:
        attempt_id: The attempt.
        state: Its state.
        age_ms: How long ago it was opened, by the database's clock.
    """

    attempt_id: str
    state: AttemptState
    age_ms: int


@dataclass(frozen=True)
class FoundFiles:
    """The known facts about some paths.

    Args:
        files: Files that something refers to, or that are queued, in any order.
        attempts: The known attempts in whose folders the paths are, in their state before the files were looked up.
    """

    files: tuple[UsedFile, ...]
    attempts: tuple[AttemptAge, ...]


@dataclass(frozen=True)
class UsedPage:
    """Some of the files that a table refers to, and the place of the next ones; empty: there are none."""

    files: tuple[UsedFile, ...]
    cursor: str


class OrphanReason(enum.Enum):
    """Why nothing refers to a file."""

    OPEN = "open attempt"
    """Its attempt is open: a writer writes it, or died."""
    ABORTED = "aborted attempt"
    """Its attempt was aborted."""
    LEFT = "left by a commit"
    """Its attempt is committed, but not with this file: it belongs to a dropped part of a compaction, or to a task that
    was too late."""
    UNKNOWN = "unknown"
    """No known attempt of this table could have written it."""


def find_attempt(path: str) -> str:
    """The attempt in whose folder a path is; empty: none. Pure."""
    found = _IN_ATTEMPT.fullmatch(path)
    return found[1] if found else ""


def find_reason(attempt: AttemptAge | None) -> OrphanReason:
    """Why nothing refers to a file of an attempt; None: the attempt is not known. Pure."""
    if attempt is None:
        return OrphanReason.UNKNOWN
    return _REASONS[attempt.state]


def may_delete(reason: OrphanReason, *, is_aborted: bool, age_ms: int, older_than_ms: int) -> bool:
    """Whether a file that nothing refers to may be deleted. Pure.

    Args:
        reason: Why nothing refers to it.
        is_aborted: Whether its attempt was aborted since the lookup, so it can never be committed.
        age_ms: How long ago the file was written, by the clocks of its store and of the caller.
        older_than_ms: The age from which on files of unknown attempts are deleted.
    """
    if reason is OrphanReason.OPEN:
        return is_aborted
    return reason is not OrphanReason.UNKNOWN or age_ms >= older_than_ms


_REASONS: Final[Mapping[AttemptState, OrphanReason]] = {
    AttemptState.OPEN: OrphanReason.OPEN,
    AttemptState.ABORTED: OrphanReason.ABORTED,
    AttemptState.COMMITTED: OrphanReason.LEFT,
}
