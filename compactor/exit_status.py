"""How the service ends: each kind has its own exit code, for scripts and supervisors."""

from __future__ import annotations

import enum

from lakelog.errors import LakelogError, OutcomeUnknown, Unavailable
from lakelog.serving.streams.exit_status import ExitCode, to_exit_code


class ExitStatus(enum.IntEnum):
    """Exit codes of `lakelog compactor`."""

    FINE = ExitCode.FINE
    """Stopped by a signal after the current step, or with `--once` all that was due is done."""
    FAILED = ExitCode.FAILED
    """An unexpected error; see the log."""
    INVALID = ExitCode.INVALID
    """The command line is wrong, or the metastore refuses us; starting again cannot help."""
    UNAVAILABLE = ExitCode.UNAVAILABLE
    """The metastore could not be reached for too long."""
    MISSING = ExitCode.MISSING
    """A table of `--tables` does not exist at the start; starting again helps once it is made."""


def to_exit_status(error: BaseException) -> ExitStatus:
    """The exit status for an error that ends the service. Pure."""
    return ExitStatus(to_exit_code(error))


def may_pass(error: BaseException) -> bool:
    """Whether the same request to the metastore may succeed a little later. Pure."""
    return isinstance(error, Unavailable | OutcomeUnknown)


def may_job_pass(error: BaseException) -> bool:
    """Whether a failed job may succeed later without a change to the job itself. Pure.

    A store may become reachable again, and someone may free space on a full disk: such a job is never given up.
    """
    return isinstance(error, LakelogError) and (error.retryable or error.reason == "DISK_FULL")
