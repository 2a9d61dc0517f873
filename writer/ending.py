"""How a pipeline ends: each kind has an exit code of its own, so that scripts and supervisors can tell."""

from __future__ import annotations

import enum
from typing import Final

from lakelog.errors import (
    Fenced,
    InvalidArgument,
    LakelogError,
    NotFound,
    OutcomeUnknown,
    PermissionDenied,
    ResourceExhausted,
    Unavailable,
)
from lakelog.serving.lease import LEASE_HELD


class Ending(enum.IntEnum):
    """Exit codes of `python -m writer`."""

    FINE = 0
    """Stopped by a signal after the batch in hand, or all that was there is read; also: the check found nothing."""
    FAILED = 1
    """Something unexpected; the log tells."""
    INVALID = 2
    """The command line, the pipeline's file, the table or the source do not fit; starting again cannot help."""
    BAD_RECORD = 3
    """A bad record, and the pipeline stops at those; or a file that changed while it was read."""
    FENCED = 4
    """Another instance has taken over."""
    HELD = 5
    """Another instance runs, and we were told not to wait."""
    CHECKPOINT = 6
    """The checkpoint and the table do not belong together."""
    UNAVAILABLE = 7
    """The metastore could not be reached for too long."""
    MISSING = 8
    """The table, its database or the source's folder does not exist; starting again helps once it is made."""


CHECKPOINT_MISFIT: Final = "CHECKPOINT_MISFIT"
_BY_REASON: Final = {
    "BAD_RECORD": Ending.BAD_RECORD,
    "FILE_CHANGED": Ending.BAD_RECORD,
    CHECKPOINT_MISFIT: Ending.CHECKPOINT,
    LEASE_HELD: Ending.HELD,
}


def to_ending(error: BaseException) -> Ending:
    """How a pipeline that met an error ends. Pure."""
    if not isinstance(error, LakelogError):
        return Ending.FAILED
    by_reason = _BY_REASON.get(error.reason)
    if by_reason is not None:
        return by_reason
    if isinstance(error, Fenced):
        return Ending.FENCED
    if isinstance(error, Unavailable | OutcomeUnknown):
        return Ending.UNAVAILABLE
    if isinstance(error, NotFound):
        return Ending.MISSING
    if isinstance(error, InvalidArgument | PermissionDenied):
        return Ending.INVALID
    if error.reason == "IDENTIFIER_GAP":
        return Ending.CHECKPOINT
    return Ending.FAILED


def may_pass(error: BaseException) -> bool:
    """Whether the same batch, repeated a little later, may succeed: it is applied once all the same. Pure.

    A full disk may have room later, and a metastore that was asked for too much at once be less busy.
    """
    return isinstance(error, Unavailable | OutcomeUnknown | ResourceExhausted)
