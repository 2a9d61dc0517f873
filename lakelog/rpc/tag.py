"""Tags on the wire."""

from __future__ import annotations

from lakelog.format.retention.tag import Tag
from lakelog.rpc.translation import Translation
from lakelog.rpc.v1 import tags_pb2

to_proto_tag, from_proto_tag = Translation(Tag, tags_pb2.Tag).both
