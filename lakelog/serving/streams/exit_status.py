"""How services end: exit codes that mean the same for all of them, so that scripts and supervisors can tell."""

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
    """Numbers that services share. Each says by an enumeration of its own which it has, and what they mean there."""

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
    """What an error means for any service: FAILED, INVALID, UNAVAILABLE or MISSING. Pure."""
    if isinstance(error, Unavailable | OutcomeUnknown):
        return ExitCode.UNAVAILABLE
    if isinstance(error, NotFound):
        return ExitCode.MISSING
    if isinstance(error, InvalidArgument | PermissionDenied):
        return ExitCode.INVALID
    return ExitCode.FAILED


def to_stream_exit_code(error: BaseException, by_reason: Mapping[str, int]) -> int:
    """What an error means for what runs under a lease, with a checkpoint of its own. Pure.

    Args:
        error: What ended it.
        by_reason: Exit codes that only this service has, by the reason of a lakelog error.
    """
    if isinstance(error, LakelogError):
        code = by_reason.get(error.reason, _BY_REASON.get(error.reason))
        if code is not None:
            return code
    return ExitCode.FENCED if isinstance(error, Fenced) else to_exit_code(error)


def may_pass(error: BaseException) -> bool:
    """Whether the same batch, repeated a little later, may succeed: it is applied once all the same. Pure.

    A full disk may have room later, and a metastore that was asked for too much at once be less busy.
    """
    return isinstance(error, Unavailable | OutcomeUnknown | ResourceExhausted)
