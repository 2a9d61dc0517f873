"""Snapshots on the wire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakelog.format.tables.snapshot import ChangelogState, LogContent, Snapshot, SnapshotKind
from lakelog.rpc.messages import build, refusal
from lakelog.rpc.v1 import types_pb2

_KIND_TO_PROTO: Final[dict[SnapshotKind, types_pb2.SnapshotKind.ValueType]] = {
    SnapshotKind.APPEND: types_pb2.SNAPSHOT_KIND_APPEND,
    SnapshotKind.OVERWRITE: types_pb2.SNAPSHOT_KIND_OVERWRITE,
    SnapshotKind.COMPACT: types_pb2.SNAPSHOT_KIND_COMPACT,
}
_KIND_FROM_PROTO: Final = {int(number): kind for kind, number in _KIND_TO_PROTO.items()}

_CHANGELOG_TO_PROTO: Final[dict[ChangelogState, types_pb2.ChangelogState.ValueType]] = {
    ChangelogState.NONE: types_pb2.CHANGELOG_STATE_UNSPECIFIED,
    ChangelogState.ATTACHED: types_pb2.CHANGELOG_STATE_ATTACHED,
    ChangelogState.PENDING: types_pb2.CHANGELOG_STATE_PENDING,
    ChangelogState.LATER: types_pb2.CHANGELOG_STATE_LATER,
}
_CHANGELOG_FROM_PROTO: Final = {int(number): state for state, number in _CHANGELOG_TO_PROTO.items()}

_LOG_TO_PROTO: Final[dict[LogContent, types_pb2.LogContent.ValueType]] = {
    LogContent.NONE: types_pb2.LOG_CONTENT_UNSPECIFIED,
    LogContent.DATA: types_pb2.LOG_CONTENT_DATA,
    LogContent.CHANGELOG: types_pb2.LOG_CONTENT_CHANGELOG,
    LogContent.SEGMENTS: types_pb2.LOG_CONTENT_SEGMENTS,
}
_LOG_FROM_PROTO: Final = {int(number): content for content, number in _LOG_TO_PROTO.items()}


def to_proto_snapshot_kind(kind: SnapshotKind) -> types_pb2.SnapshotKind.ValueType:
    """Translates the kind of a snapshot."""
    return _KIND_TO_PROTO[kind]


def from_proto_snapshot_kind(number: int, field: str) -> SnapshotKind:
    """Translates the kind of a snapshot back.

    Args:
        number: The enum's number from the wire, which this version may not know.
        field: Its place, for the error.

    Raises:
        InvalidArgument: The number is 0 (not given) or unknown.
    """
    kind = _KIND_FROM_PROTO.get(number)
    if kind is None:
        problem = "is not given" if number == 0 else f"has the unknown value {number}"
        raise refusal(field, problem, "Use one of APPEND (1), OVERWRITE (2), COMPACT (3)")
    return kind


def to_proto_changelog_state(state: ChangelogState) -> types_pb2.ChangelogState.ValueType:
    """Translates the state of a changelog."""
    return _CHANGELOG_TO_PROTO[state]


def from_proto_changelog_state(number: int, field: str) -> ChangelogState:
    """Translates the state of a changelog back; `field` is its place, for the error.

    Raises:
        InvalidArgument: The number is unknown. As "no changelog" it would show other changes than there were.
    """
    state = _CHANGELOG_FROM_PROTO.get(number)
    if state is None:
        raise refusal(field, f"has the unknown value {number}", "Use none (0), ATTACHED (1), OPEN (2) or LATER (3)")
    return state


def to_proto_log_content(content: LogContent) -> types_pb2.LogContent.ValueType:
    """Translates the content of the external log."""
    return _LOG_TO_PROTO[content]


def from_proto_log_content(number: int, field: str) -> LogContent:
    """Translates the content of the external log back; `field` is its place, for the error.

    Raises:
        InvalidArgument: The number is unknown. As "nothing" it would leave rows out of the log.
    """
    content = _LOG_FROM_PROTO.get(number)
    if content is None:
        raise refusal(field, f"has the unknown value {number}", "Use none (0), DATA (1), CHANGELOG (2) or SEGMENTS (3)")
    return content


def to_proto_sent_offsets(offsets: Mapping[int, int] | None, generation: int = 0) -> types_pb2.SentOffsets | None:
    """Translates the end offsets of records that were sent before their commit; None leaves them absent."""
    return None if offsets is None else build(types_pb2.SentOffsets, offsets=dict(offsets), generation=generation)


def to_proto_snapshot(snapshot: Snapshot) -> types_pb2.Snapshot:
    """Translates a snapshot."""
    return build(
        types_pb2.Snapshot,
        snapshot_id=snapshot.snapshot_id,
        snapshot_uuid=snapshot.snapshot_uuid,
        parent_uuid=snapshot.parent_uuid,
        kind=_KIND_TO_PROTO[snapshot.kind],
        schema_id=snapshot.schema_id,
        committed_at_ms=snapshot.committed_at_ms,
        watermark_ms=snapshot.watermark_ms,
        total_rows=snapshot.total_rows,
        total_files=snapshot.total_files,
        total_bytes=snapshot.total_bytes,
        added_rows=snapshot.added_rows,
        added_files=snapshot.added_files,
        removed_files=snapshot.removed_files,
        writer=snapshot.writer,
        identifier=snapshot.identifier,
        properties=dict(snapshot.properties),
        changelog=_CHANGELOG_TO_PROTO[snapshot.changelog],
        co_committed=dict(snapshot.co_committed),
        log=_LOG_TO_PROTO[snapshot.log],
        attempt_id=snapshot.attempt_id,
        sent_offsets=to_proto_sent_offsets(snapshot.sent_offsets),
    )


def from_proto_snapshot(message: types_pb2.Snapshot) -> Snapshot:
    """Translates a snapshot back.

    Raises:
        InvalidArgument: Its kind is unknown.
    """
    return Snapshot(
        snapshot_id=message.snapshot_id,
        snapshot_uuid=message.snapshot_uuid,
        parent_uuid=message.parent_uuid,
        kind=from_proto_snapshot_kind(message.kind, "snapshot.kind"),
        schema_id=message.schema_id,
        committed_at_ms=message.committed_at_ms,
        watermark_ms=message.watermark_ms if message.HasField("watermark_ms") else None,
        total_rows=message.total_rows,
        total_files=message.total_files,
        total_bytes=message.total_bytes,
        added_rows=message.added_rows,
        added_files=message.added_files,
        removed_files=message.removed_files,
        writer=message.writer,
        identifier=message.identifier,
        properties=dict(message.properties),
        changelog=from_proto_changelog_state(message.changelog, "snapshot.changelog"),
        co_committed=dict(message.co_committed),
        log=from_proto_log_content(message.log, "snapshot.log"),
        attempt_id=message.attempt_id,
        sent_offsets=dict(message.sent_offsets.offsets) if message.HasField("sent_offsets") else None,
    )
