"""How services end: exit codes with the same meaning for all of them, for scripts and supervisors."""

from __future__ import annotations

import enum
from collections.abc import Mapping
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

CHECKPOINT_MISFIT: Final = "CHECKPOINT_MISFIT"
"""The reason of an InvalidArgument for a checkpoint that does not belong to a table."""


class ExitCode(enum.IntEnum):
    """Numbers that services share. Each service lists its codes and their meaning in its own enumeration."""

    FINE = 0
    FAILED = 1
    INVALID = 2
    FENCED = 4
    HELD = 5
    CHECKPOINT = 6
    UNAVAILABLE = 7
    MISSING = 8


_BY_REASON: Final[Mapping[str, int]] = {
    LEASE_HELD: ExitCode.HELD,
    CHECKPOINT_MISFIT: ExitCode.CHECKPOINT,
    "IDENTIFIER_GAP": ExitCode.CHECKPOINT,
}


def to_exit_code(error: BaseException) -> ExitCode:
    """The meaning of an error for any service: FAILED, INVALID, UNAVAILABLE or MISSING. Pure."""
    if isinstance(error, Unavailable | OutcomeUnknown):
        return ExitCode.UNAVAILABLE
    if isinstance(error, NotFound):
        return ExitCode.MISSING
    if isinstance(error, InvalidArgument | PermissionDenied):
        return ExitCode.INVALID
    return ExitCode.FAILED


def to_stream_exit_code(error: BaseException, by_reason: Mapping[str, int]) -> int:
    """The meaning of an error for work under a lease, with a checkpoint of its own. Pure.

    Args:
        error: The error that ended it.
        by_reason: Exit codes that only this service has, by the reason of a lakelog error.
    """
    if isinstance(error, LakelogError):
        code = by_reason.get(error.reason, _BY_REASON.get(error.reason))
        if code is not None:
            return code
    return ExitCode.FENCED if isinstance(error, Fenced) else to_exit_code(error)


def may_pass(error: BaseException) -> bool:
    """Whether a repeat of the same batch, a little later, may succeed; the batch is applied once all the same. Pure.

    A full disk may have space later, and an overloaded metastore may be less busy.
    """
    return isinstance(error, Unavailable | OutcomeUnknown | ResourceExhausted)
