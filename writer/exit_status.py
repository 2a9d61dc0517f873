"""How a pipeline ends: each kind has its own exit code, for scripts and supervisors."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from lakelog.serving.streams.exit_status import ExitCode, to_stream_exit_code


class ExitStatus(enum.IntEnum):
    """Exit codes of `lakelog pipeline`."""

    FINE = ExitCode.FINE
    """Stopped by a signal after the current batch, or everything was read; also: the check found nothing."""
    FAILED = ExitCode.FAILED
    """An unexpected error; see the log."""
    INVALID = ExitCode.INVALID
    """The command line, the pipeline's file, the table or the source are wrong; starting again cannot help."""
    BAD_RECORD = 3
    """A bad record, and the pipeline stops at those; or a file that changed while it was read."""
    FENCED = ExitCode.FENCED
    """Another instance has taken over."""
    HELD = ExitCode.HELD
    """Another instance runs, and the options say not to wait."""
    CHECKPOINT = ExitCode.CHECKPOINT
    """The checkpoint and the table do not belong together; or the topic was made again, or lost unread records."""
    UNAVAILABLE = ExitCode.UNAVAILABLE
    """The metastore could not be reached for too long."""
    MISSING = ExitCode.MISSING
    """The table, its database, the source's folder or topic does not exist; starting again helps once it is made."""


_BY_REASON: Final[Mapping[str, int]] = {
    "BAD_RECORD": ExitStatus.BAD_RECORD,
    "FILE_CHANGED": ExitStatus.BAD_RECORD,
    "TOPIC_CHANGED": ExitStatus.CHECKPOINT,
}


def to_exit_status(error: BaseException) -> ExitStatus:
    """The exit status for an error that ends a pipeline. Pure."""
    return ExitStatus(to_stream_exit_code(error, _BY_REASON))
