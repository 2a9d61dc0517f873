"""How the command fails: with one line on the standard error, and an exit code for scripts."""

from __future__ import annotations

import enum
from contextlib import suppress
from typing import Final

from lakelog.cli.output.documents import to_json_line, to_yaml
from lakelog.cli.output.output_format import OutputFormat
from lakelog.errors import (
    AlreadyExists,
    CommitConflict,
    Fenced,
    InvalidArgument,
    LakelogError,
    NotFound,
    OutcomeUnknown,
    SnapshotExpired,
    Unavailable,
)
from lakelog.privacy.redaction import blot_out


class ExitCode(enum.IntEnum):
    """The codes that the command returns to the shell."""

    FINE = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    CONFLICT = 4
    UNAVAILABLE = 5
    INTERRUPTED = 130


EXIT_CODE_MEANINGS: Final = {
    ExitCode.FINE: "fine",
    ExitCode.FAILED: "the operation failed",
    ExitCode.USAGE: "wrong usage, or an argument that can never work",
    ExitCode.NOT_FOUND: "a database, table, snapshot or file does not exist, or no longer",
    ExitCode.CONFLICT: "it exists already, or another commit or holder was there first",
    ExitCode.UNAVAILABLE: "lakelog cannot be reached or does not serve, or the outcome is not known",
    ExitCode.INTERRUPTED: "interrupted by Ctrl-C",
}

_CODES: Final[tuple[tuple[type[LakelogError], ExitCode], ...]] = (
    (InvalidArgument, ExitCode.USAGE),
    (NotFound, ExitCode.NOT_FOUND),
    (SnapshotExpired, ExitCode.NOT_FOUND),
    (AlreadyExists, ExitCode.CONFLICT),
    (CommitConflict, ExitCode.CONFLICT),
    (Fenced, ExitCode.CONFLICT),
    (Unavailable, ExitCode.UNAVAILABLE),
    (OutcomeUnknown, ExitCode.UNAVAILABLE),
)

_SAYS_ALL: Final = (InvalidArgument, NotFound, AlreadyExists, SnapshotExpired)
"""Kinds about what the caller has given: no log says more."""


def exit_code_of(error: LakelogError) -> ExitCode:
    """The exit code of an error's kind. Pure."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), ExitCode.FAILED)


def describe_error(error: LakelogError, output: OutputFormat) -> str:
    """The text of an error for the standard error, without secrets.

    Returns:
        The message after `Error: ` (per-column differences keep their lines), and a line with the id of the request if
        logs of services say more; or for programs an object with the keys `kind`, `reason`, `message`, `metadata`,
        `exit_code`: a document in YAML, or else one line of JSON.
    """
    if not output.for_programs:
        request_id = "" if isinstance(error, _SAYS_ALL) else error.metadata.get("request_id", "")
        return blot_out(f"Error: {error.message}") + (f"\nRequest: {request_id}" if request_id else "")
    record = {
        "kind": type(error).__name__,
        "reason": error.reason,
        "message": error.message,
        "metadata": dict(error.metadata),
        "exit_code": int(exit_code_of(error)),
    }
    if output is OutputFormat.YAML:
        # Without the package JSON takes its place, which YAML contains: the error may be that it is missing.
        with suppress(ImportError):
            return blot_out(f"---\n{to_yaml(record)}".rstrip("\n"))
    return blot_out(to_json_line(record).rstrip("\n"))
