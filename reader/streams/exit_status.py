"""How a stream ends: each kind has its own exit code, for scripts and supervisors."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from lakelog.errors import HistoryDiverged, SnapshotExpired
from lakelog.serving.streams.exit_status import ExitCode, to_stream_exit_code


class ExitStatus(enum.IntEnum):
    """Exit codes of `lakelog reader run`; of several streams the largest."""

    FINE = ExitCode.FINE
    """Stopped by a signal after the current batch, or everything was read; also: the check found nothing."""
    FAILED = ExitCode.FAILED
    """An unexpected error; see the log."""
    INVALID = ExitCode.INVALID
    """The command line, a stream's file, its tables or its function are wrong; starting again cannot help."""
    FUNCTION_FAILED = 3
    """The sink's function raised an error."""
    FENCED = ExitCode.FENCED
    """Another instance has taken over."""
    HELD = ExitCode.HELD
    """Another instance runs, and the options say not to wait."""
    CHECKPOINT = ExitCode.CHECKPOINT
    """Checkpoint and tables do not belong together, or the next change is no longer kept."""
    UNAVAILABLE = ExitCode.UNAVAILABLE
    """The metastore could not be reached for too long."""
    MISSING = ExitCode.MISSING
    """A table does not exist; starting again helps once it is made."""


FUNCTION_FAILED: Final = "FUNCTION_FAILED"
_BY_REASON: Final[Mapping[str, int]] = {
    "OTHER_CHECKPOINT": ExitStatus.CHECKPOINT,
    "CHECKPOINT_INVALID": ExitStatus.CHECKPOINT,
    FUNCTION_FAILED: ExitStatus.FUNCTION_FAILED,
}


def to_exit_status(error: BaseException) -> ExitStatus:
    """The exit status for an error that ends a stream. Pure."""
    exit_status = ExitStatus(to_stream_exit_code(error, _BY_REASON))
    if exit_status is ExitStatus.FAILED and isinstance(error, HistoryDiverged | SnapshotExpired):
        return ExitStatus.CHECKPOINT
    return exit_status
