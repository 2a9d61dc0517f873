"""What users say of a commit: by what it is known, and what is remembered with it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field

from lakelog.arguments import to_epoch_ms
from lakelog.errors import InvalidArgument


@dataclass(frozen=True)
class CommitIdentity:
    """By what a commit is known (SEMANTICS.md 7.1).

    Args:
        writer: Who commits; None: a new name that nobody else has.
        identifier: The writer's own number; given if and only if `writer` is.
        previous_identifier: What the writer's last one must be; None: not checked.
    """

    writer: str | None = None
    identifier: int | None = None
    previous_identifier: int | None = None

    def __post_init__(self) -> None:
        check_identity(self.writer, self.identifier, self.previous_identifier)


def check_identity(writer: str | None, identifier: int | None, previous_identifier: int | None) -> None:
    """Raises InvalidArgument where a commit has a writer or a number alone, or follows a number without having one."""
    if (writer is None) != (identifier is None):
        missing = "identifier" if identifier is None else "writer"
        raise InvalidArgument(
            f"A commit that shall be applied once needs both writer= and identifier=; {missing}= is missing.",
            metadata={"field": missing},
        )
    if previous_identifier is not None and writer is None:
        raise InvalidArgument(
            "previous_identifier= says something only together with writer= and identifier=.",
            metadata={"field": "previous_identifier"},
        )


@dataclass(frozen=True)
class CommitNote:
    """What a commit says besides its rows.

    Args:
        watermark_ms: Milliseconds since the epoch; None: none.
        properties: To be remembered with the snapshot.
        allow_empty: Make a snapshot even without rows.
    """

    watermark_ms: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    allow_empty: bool = False


def make_note(
    watermark: int | dt.datetime | None, properties: Mapping[str, str] | None, allow_empty: bool
) -> CommitNote:
    """Returns what a commit says besides its rows, checked."""
    watermark_ms = None if watermark is None else to_epoch_ms(watermark, "watermark")
    return CommitNote(watermark_ms, dict(properties or {}), allow_empty)
