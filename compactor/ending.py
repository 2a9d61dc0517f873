"""How the service ends: each kind has an exit code of its own, so that scripts and supervisors can tell."""

from __future__ import annotations

import enum

from lakelog.errors import InvalidArgument, LakelogError, NotFound, OutcomeUnknown, PermissionDenied, Unavailable


class Ending(enum.IntEnum):
    """Exit codes of `python -m compactor`; the same numbers as those of the writer where they mean the same."""

    FINE = 0
    """Stopped by a signal after the step in hand, or with `--once` all that was due is done."""
    FAILED = 1
    """Something unexpected; the log tells."""
    INVALID = 2
    """The command line does not fit, or the metastore refuses us; starting again cannot help."""
    UNAVAILABLE = 7
    """The metastore could not be reached for too long."""
    MISSING = 8
    """A table of `--tables` does not exist at the start; starting again helps once it is made."""


def to_ending(error: BaseException) -> Ending:
    """How a service that met an error ends. Pure."""
    if isinstance(error, Unavailable | OutcomeUnknown):
        return Ending.UNAVAILABLE
    if isinstance(error, NotFound):
        return Ending.MISSING
    if isinstance(error, InvalidArgument | PermissionDenied):
        return Ending.INVALID
    return Ending.FAILED


def may_pass(error: BaseException) -> bool:
    """Whether asking again a little later may succeed. Pure."""
    return isinstance(error, LakelogError) and (error.retryable or isinstance(error, OutcomeUnknown))
