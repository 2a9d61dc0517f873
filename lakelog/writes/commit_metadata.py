"""What users state about a commit: its identity, and what is stored with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakelog.annotations import TimeLike
from lakelog.arguments import MAX_NUMBER, check_flag, to_epoch_ms
from lakelog.errors import InvalidArgument, LakelogError, NotFound


@dataclass(frozen=True)
class CommitIdentity:
    """The identity of a commit (semantics 7.1).

    Args:
        writer: The writer's name; None: a new unique name.
        identifier: The writer's own number of the commit; given if and only if `writer` is.
        previous_identifier: The required identifier of the writer's last commit; None: not checked.

    Raises:
        InvalidArgument: One is missing, or has an impossible value.
    """

    writer: str | None = None
    identifier: int | None = None
    previous_identifier: int | None = None

    def __post_init__(self) -> None:
        check_identity(self.writer, self.identifier, self.previous_identifier)


def check_identity(writer: str | None, identifier: int | None, previous_identifier: int | None) -> None:
    """Raises InvalidArgument for a writer or a number alone, a previous number without them, and wrong types."""
    if (writer is None) != (identifier is None):
        missing = "identifier" if identifier is None else "writer"
        raise InvalidArgument(
            f"A commit that shall be applied once needs both writer= and identifier=; {missing}= is missing.",
            metadata={"field": missing},
        )
    if writer is not None and (not isinstance(writer, str) or not writer):
        raise InvalidArgument(
            f"writer={writer!r:.80} is no name: give a text of at least one character.", metadata={"field": "writer"}
        )
    for name, value in (("identifier", identifier), ("previous_identifier", previous_identifier)):
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            raise InvalidArgument(
                f"{name}={value!r:.80} is no number: give a whole number of 0 or more.", metadata={"field": name}
            )
        if value is not None and value > MAX_NUMBER:
            raise InvalidArgument(
                f"{name}={value!r:.80} is too large: give at most {MAX_NUMBER}.", metadata={"field": name}
            )
    if previous_identifier is not None and writer is None:
        raise InvalidArgument(
            "previous_identifier= says something only together with writer= and identifier=.",
            metadata={"field": "previous_identifier"},
        )


@dataclass(frozen=True)
class CommitMetadata:
    """What a commit says besides its rows.

    Args:
        watermark_ms: Milliseconds since the epoch; None: none.
        properties: Texts by name, stored with the snapshot.
        allow_empty: Make a snapshot even without rows.
    """

    watermark_ms: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    allow_empty: bool = False


def make_commit_metadata(
    watermark: TimeLike | None, properties: Mapping[str, str] | None, allow_empty: bool
) -> CommitMetadata:
    """Returns what a commit says besides its rows.

    Raises:
        InvalidArgument: The watermark is no point in time, the properties do not map texts to texts, or `allow_empty`
            is neither True nor False.
    """
    check_flag(allow_empty, "allow_empty")
    watermark_ms = None if watermark is None else to_epoch_ms(watermark, "watermark")
    if properties is not None and not isinstance(properties, Mapping):
        raise InvalidArgument(
            f"properties is a {type(properties).__name__}: give a dict of texts, as {{'job': 'nightly'}}.",
            metadata={"field": "properties"},
        )
    for key, value in (properties or {}).items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise InvalidArgument(
                f"properties has {value!r:.80} for {key!r:.80}: keys and values are texts.",
                metadata={"field": "properties", "key": str(key)[:80]},
            )
    return CommitMetadata(watermark_ms, dict(properties or {}), allow_empty)


def name_dropped_table(error: LakelogError, names: Mapping[str, str]) -> NotFound | None:
    """Returns an error that names the dropped table of a commit; the metastore knows only its uuid. Pure.

    Args:
        error: The metastore's error for the commit.
        names: The names of the commit's tables, by uuid.

    Returns:
        The error to raise instead; None if the error is another one.
    """
    name = names.get(error.metadata.get("table_uuid", ""))
    if not isinstance(error, NotFound) or error.reason != "TABLE_NOT_FOUND" or name is None:
        return None
    return NotFound(
        f"Table {name} was dropped while it was written to, so nothing of this commit is visible. If a table of that "
        "name exists again, it is another one: look it up and write anew.",
        reason=error.reason,
        metadata=error.metadata | {"table": name},
    )
