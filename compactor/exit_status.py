"""How the service ends: each kind has an exit code of its own, so that scripts and supervisors can tell."""

from __future__ import annotations

import enum

from lakelog.errors import LakelogError, OutcomeUnknown, Unavailable
from lakelog.serving.streams.exit_status import ExitCode, to_exit_code


class ExitStatus(enum.IntEnum):
    """Exit codes of `lakelog compactor`."""

    FINE = ExitCode.FINE
    """Stopped by a signal after the step in hand, or with `--once` all that was due is done."""
    FAILED = ExitCode.FAILED
    """Something unexpected; the log tells."""
    INVALID = ExitCode.INVALID
    """The command line does not fit, or the metastore refuses us; starting again cannot help."""
    UNAVAILABLE = ExitCode.UNAVAILABLE
    """The metastore could not be reached for too long."""
    MISSING = ExitCode.MISSING
    """A table of `--tables` does not exist at the start; starting again helps once it is made."""


def to_exit_status(error: BaseException) -> ExitStatus:
    """How a service that met an error ends. Pure."""
    return ExitStatus(to_exit_code(error))


def may_pass(error: BaseException) -> bool:
    """Whether asking the metastore again a little later may succeed. Pure."""
    return isinstance(error, Unavailable | OutcomeUnknown)


def may_job_pass(error: BaseException) -> bool:
    """Whether a job that failed so may go well later though nothing is done about the job itself. Pure.

    A store that is away comes back, and where a disk is full somebody makes room: such a job is never given up.
    """
    return isinstance(error, LakelogError) and (error.retryable or error.reason == "DISK_FULL")
