"""Tags on the wire."""

from __future__ import annotations

from lakelog.format.retention.tag import Tag
from lakelog.rpc.messages import build
from lakelog.rpc.v1 import tags_pb2


def to_proto_tag(tag: Tag) -> tags_pb2.Tag:
    """Translates a tag."""
    return build(tags_pb2.Tag, **vars(tag))


def from_proto_tag(message: tags_pb2.Tag) -> Tag:
    """Translates a tag back."""
    return Tag(message.name, message.snapshot_id, message.created_at_ms, message.committed_at_ms, message.total_rows)
