"""The errors of lakelog: few kinds, chosen by what the caller does next.

Every error says whether its effect may have happened (`effect`) and carries a machine-readable `reason` and `metadata`.
There is no list of all reasons: each is given where its error is raised.

An error survives pickling and the wire unchanged. Only `lakelog/client/connection/status.py` decides which gRPC status
a kind becomes.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, ClassVar, Final


class Effect(enum.Enum):
    """What is certain about the effect of the call that failed."""

    NONE = "none"
    """Certainly nothing happened."""
    UNKNOWN = "unknown"
    """It may have happened: repeat the same request to find out, and delete nothing meanwhile."""


class LakelogError(Exception):
    """Base of every error that lakelog raises on purpose.

    Args:
        message: What happened to what, why, and what to do about it, in whole sentences.
        reason: An upper-case word for programs, for instance `TABLE_NOT_FOUND`; by default the kind's own.
        metadata: Names and values that the message mentions; only strings, never secrets.
    """

    default_reason: ClassVar[str] = "LAKELOG_ERROR"
    effect: ClassVar[Effect] = Effect.NONE
    retryable: ClassVar[bool] = False
    """Whether the same request, repeated unchanged a little later, may succeed."""

    def __init__(self, message: str, *, reason: str | None = None, metadata: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.message: Final = message
        self.reason: Final = reason or self.default_reason
        self.metadata: Final[dict[str, str]] = dict(metadata or {})

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild_error, (type(self), self.message, self.reason, self.metadata))

    def __str__(self) -> str:
        return self.message


def _rebuild_error(kind: type[LakelogError], message: str, reason: str, metadata: dict[str, str]) -> LakelogError:
    return kind(message, reason=reason, metadata=metadata)


class InvalidArgument(LakelogError):
    """The request can never succeed in this form: change it. Names the field, the value and the remedy."""

    default_reason = "INVALID_ARGUMENT"


class NotFound(LakelogError):
    """A database, table, snapshot or other named thing does not exist."""

    default_reason = "NOT_FOUND"


class AlreadyExists(LakelogError):
    """The name is taken."""

    default_reason = "ALREADY_EXISTS"


class PermissionDenied(LakelogError):
    """The caller may not do this, or could not be recognized."""

    default_reason = "PERMISSION_DENIED"


class CommitConflict(LakelogError):
    """Another commit changed what this one assumed; no part of this one was applied.

    `metadata["retry"]` is `replan` if a new plan on the newest snapshot can help, and `never` if not.
    """

    default_reason = "COMMIT_CONFLICT"


class Fenced(LakelogError):
    """Another holder of the same identity exists, or the metastore was set back and does not know this one.

    Stop, and read again what was done before going on.
    """

    default_reason = "FENCED"


class Unavailable(LakelogError):
    """The service or its database cannot be reached or is draining; certainly nothing happened."""

    default_reason = "UNAVAILABLE"
    retryable = True


class OutcomeUnknown(LakelogError):
    """The answer was lost, the effect may have happened: repeat the same request, delete no file."""

    default_reason = "OUTCOME_UNKNOWN"
    effect = Effect.UNKNOWN
    retryable = True


class ResourceExhausted(LakelogError):
    """A limit of size, count or rate was passed; the message names the limit."""

    default_reason = "RESOURCE_EXHAUSTED"


class SnapshotExpired(LakelogError):
    """The snapshot existed, but its files may be gone; the message names what can still be read."""

    default_reason = "SNAPSHOT_EXPIRED"


class HistoryDiverged(LakelogError):
    """What the caller remembers is not in the table's history, for instance after a restore: stop and look."""

    default_reason = "HISTORY_DIVERGED"


class DataCorrupted(LakelogError):
    """A file is damaged, truncated or not what its entry says; the message names it."""

    default_reason = "DATA_CORRUPTED"


FILE_MISSING: Final = "FILE_MISSING"
"""The reason of a DataCorrupted for a missing file; it may have expired since it was planned."""


INVALID_PATH: Final = "INVALID_PATH"
"""The reason of an InvalidArgument for the path of a file, and of a DataCorrupted for a committed one."""


class JobFailed(LakelogError):
    """Work that the caller requested has failed. The message names the job and the cause: fix that, then try again."""

    default_reason = "JOB_FAILED"


class InternalError(LakelogError):
    """A defect of lakelog itself; please report it with the message."""

    default_reason = "INTERNAL"


def forget_frames(error: BaseException) -> None:
    """Releases the objects that an error's traceback holds: the variables of all functions that it passed through.

    A variable that outlives its `except` and holds an error forms a cycle with the traceback. So all of these objects
    stay in memory until the garbage collector runs, for instance the large request that the error is about.
    """
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            each.__traceback__ = None
            waiting += [each.__cause__, each.__context__]
