"""The keyword arguments that all writes take, declared once."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Final, TypedDict

from lakelog.writes.commit_note import CommitIdentity, CommitNote, make_note


class CommitOptions(TypedDict, total=False):
    """What every write takes by keyword; all of it may be left out.

    Args:
        writer: Who commits. With `identifier` the commit is applied once, whoever repeats it, however late.
        identifier: The writer's own number of this commit.
        previous_identifier: What the writer's last identifier must be; otherwise the commit is refused. -1: none.
        watermark: Milliseconds since the epoch, or a datetime with a time zone. A table's watermark never falls.
        properties: Texts by name, remembered with the snapshot.
        allow_empty: Make a snapshot even without rows.
    """

    writer: str | None
    identifier: int | None
    previous_identifier: int | None
    watermark: int | dt.datetime | None
    properties: Mapping[str, str] | None
    allow_empty: bool


_NAMES: Final = CommitOptions.__optional_keys__


def read_commit_options(call: str, given: CommitOptions) -> tuple[CommitIdentity, CommitNote]:
    """Returns by what a commit is known, and what it says besides its rows. Pure.

    Args:
        call: The function that was called, for messages.
        given: Its keyword arguments.

    Raises:
        TypeError: There is no such argument, as Python says it of any function.
        InvalidArgument: A value is not possible.
    """
    unknown = next((name for name in given if name not in _NAMES), None)
    if unknown is not None:
        raise TypeError(f"{call}() got an unexpected keyword argument '{unknown}'")
    identity = CommitIdentity(given.get("writer"), given.get("identifier"), given.get("previous_identifier"))
    return identity, make_note(given.get("watermark"), given.get("properties"), given.get("allow_empty", False))
