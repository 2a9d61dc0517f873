"""Tags over gRPC."""

from __future__ import annotations

from lakelog.client.connection.calls import Calls
from lakelog.format.retention.tag import Tag
from lakelog.rpc.messages import build
from lakelog.rpc.retention import from_proto_tag
from lakelog.rpc.v1 import tags_pb2


class GrpcTags:
    """The part of `lakelog.client.metastore.metastore.Metastore` that is about names of snapshots."""

    _calls: Calls

    def create_tag(self, table_uuid: str, name: str, snapshot_id: int = 0) -> Tag:
        """Gives a snapshot a name. Not repeated after an unknown outcome: the name would be taken by then."""
        request = build(tags_pb2.CreateTagRequest, table_uuid=table_uuid, name=name, snapshot_id=snapshot_id)
        response = self._calls.mutate("CreateTag", lambda on: on.tags.CreateTag, request, repeat_unknown=False)
        return from_proto_tag(response.tag)

    def list_tags(self, table_uuid: str) -> list[Tag]:
        """A table's tags by name."""
        request = build(tags_pb2.ListTagsRequest, table_uuid=table_uuid)
        response = self._calls.read("ListTags", lambda on: on.tags.ListTags, request)
        return [from_proto_tag(tag) for tag in response.tags]

    def delete_tag(self, table_uuid: str, name: str) -> None:
        """Deletes a tag. Not repeated after an unknown outcome: a repeat would find no tag."""
        request = build(tags_pb2.DeleteTagRequest, table_uuid=table_uuid, name=name)
        self._calls.mutate("DeleteTag", lambda on: on.tags.DeleteTag, request, repeat_unknown=False)
