"""How a stream ends: each kind has an exit code of its own, so that scripts and supervisors can tell."""

from __future__ import annotations

import enum
from typing import Final

from lakelog.errors import (
    Fenced,
    HistoryDiverged,
    InvalidArgument,
    LakelogError,
    NotFound,
    OutcomeUnknown,
    PermissionDenied,
    ResourceExhausted,
    SnapshotExpired,
    Unavailable,
)
from lakelog.serving.lease import LEASE_HELD


class Ending(enum.IntEnum):
    """Exit codes of `python -m reader run`; of several streams the largest."""

    FINE = 0
    """Stopped by a signal after the batch in hand, or all that was there is read; also: the check found nothing."""
    FAILED = 1
    """Something unexpected; the log tells."""
    INVALID = 2
    """The command line, a stream's file, its tables or its function do not fit; starting again cannot help."""
    FUNCTION_FAILED = 3
    """The sink's function raised an error."""
    FENCED = 4
    """Another instance has taken over."""
    HELD = 5
    """Another instance runs, and we were told not to wait."""
    CHECKPOINT = 6
    """Checkpoint and tables do not belong together, or the next change is no longer kept."""
    UNAVAILABLE = 7
    """The metastore could not be reached for too long."""
    MISSING = 8
    """A table does not exist; starting again helps once it is made."""


CHECKPOINT_MISFIT: Final = "CHECKPOINT_MISFIT"
FUNCTION_FAILED: Final = "FUNCTION_FAILED"
_BY_REASON: Final = {
    CHECKPOINT_MISFIT: Ending.CHECKPOINT,
    "OTHER_CHECKPOINT": Ending.CHECKPOINT,
    "IDENTIFIER_GAP": Ending.CHECKPOINT,
    "CHECKPOINT_INVALID": Ending.CHECKPOINT,
    FUNCTION_FAILED: Ending.FUNCTION_FAILED,
    LEASE_HELD: Ending.HELD,
}


def to_ending(error: BaseException) -> Ending:
    """How a stream that met an error ends. Pure."""
    if not isinstance(error, LakelogError):
        return Ending.FAILED
    by_reason = _BY_REASON.get(error.reason)
    if by_reason is not None:
        return by_reason
    if isinstance(error, Fenced):
        return Ending.FENCED
    if isinstance(error, HistoryDiverged | SnapshotExpired):
        return Ending.CHECKPOINT
    if isinstance(error, Unavailable | OutcomeUnknown):
        return Ending.UNAVAILABLE
    if isinstance(error, NotFound):
        return Ending.MISSING
    if isinstance(error, InvalidArgument | PermissionDenied):
        return Ending.INVALID
    return Ending.FAILED


def may_pass(error: BaseException) -> bool:
    """Whether the same batch, repeated a little later, may succeed. Pure."""
    return isinstance(error, Unavailable | OutcomeUnknown | ResourceExhausted)
