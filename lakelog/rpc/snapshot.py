"""Snapshots on the wire."""

from __future__ import annotations

from collections.abc import Mapping

from lakelog.format.tables.snapshot import ChangelogState, LogContent, Snapshot, SnapshotKind
from lakelog.rpc.messages import build
from lakelog.rpc.translation import translate_enum
from lakelog.rpc.v1 import types_pb2

to_proto_snapshot_kind, from_proto_snapshot_kind = translate_enum(
    {
        SnapshotKind.APPEND: types_pb2.SNAPSHOT_KIND_APPEND,
        SnapshotKind.OVERWRITE: types_pb2.SNAPSHOT_KIND_OVERWRITE,
        SnapshotKind.COMPACT: types_pb2.SNAPSHOT_KIND_COMPACT,
    },
    "snapshot.kind",
    "Use one of APPEND (1), OVERWRITE (2), COMPACT (3)",
    zero="is not given",
)
# An unknown state must be an error: as "no changelog" it would show other changes than there were.
to_proto_changelog_state, from_proto_changelog_state = translate_enum(
    {
        ChangelogState.NONE: types_pb2.CHANGELOG_STATE_UNSPECIFIED,
        ChangelogState.ATTACHED: types_pb2.CHANGELOG_STATE_ATTACHED,
        ChangelogState.PENDING: types_pb2.CHANGELOG_STATE_PENDING,
        ChangelogState.LATER: types_pb2.CHANGELOG_STATE_LATER,
    },
    "snapshot.changelog",
    "Use none (0), ATTACHED (1), OPEN (2) or LATER (3)",
)
# Likewise: as "nothing" it would leave rows out of the log.
to_proto_log_content, from_proto_log_content = translate_enum(
    {
        LogContent.NONE: types_pb2.LOG_CONTENT_UNSPECIFIED,
        LogContent.DATA: types_pb2.LOG_CONTENT_DATA,
        LogContent.CHANGELOG: types_pb2.LOG_CONTENT_CHANGELOG,
        LogContent.SEGMENTS: types_pb2.LOG_CONTENT_SEGMENTS,
    },
    "snapshot.log",
    "Use none (0), DATA (1), CHANGELOG (2) or SEGMENTS (3)",
)


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
        kind=to_proto_snapshot_kind(snapshot.kind),
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
        changelog=to_proto_changelog_state(snapshot.changelog),
        co_committed=dict(snapshot.co_committed),
        log=to_proto_log_content(snapshot.log),
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
        kind=from_proto_snapshot_kind(message.kind),
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
        changelog=from_proto_changelog_state(message.changelog),
        co_committed=dict(message.co_committed),
        log=from_proto_log_content(message.log),
        attempt_id=message.attempt_id,
        sent_offsets=dict(message.sent_offsets.offsets) if message.HasField("sent_offsets") else None,
    )
