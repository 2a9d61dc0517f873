"""TagService: from messages to use cases and back, nothing else."""

from __future__ import annotations

from typing import Any

import grpc

from lakelog.rpc.retention import to_proto_tag
from lakelog.rpc.v1 import tags_pb2, tags_pb2_grpc

from ...snapshots.tags import Tags

Context = grpc.aio.ServicerContext[Any, Any]


class TagServicer(tags_pb2_grpc.TagServiceServicer):
    """Names of snapshots."""

    def __init__(self, tags: Tags) -> None:
        self._tags = tags

    async def CreateTag(  # noqa: N802
        self, request: tags_pb2.CreateTagRequest, context: Context
    ) -> tags_pb2.CreateTagResponse:
        """Gives a snapshot a name."""
        tag = await self._tags.create_tag(request.table_uuid, request.name, request.snapshot_id)
        return tags_pb2.CreateTagResponse(tag=to_proto_tag(tag))

    async def ListTags(  # noqa: N802
        self, request: tags_pb2.ListTagsRequest, context: Context
    ) -> tags_pb2.ListTagsResponse:
        """Lists a table's tags."""
        found = await self._tags.list_tags(request.table_uuid)
        return tags_pb2.ListTagsResponse(tags=[to_proto_tag(tag) for tag in found])

    async def DeleteTag(  # noqa: N802
        self, request: tags_pb2.DeleteTagRequest, context: Context
    ) -> tags_pb2.DeleteTagResponse:
        """Deletes a tag."""
        await self._tags.delete_tag(request.table_uuid, request.name)
        return tags_pb2.DeleteTagResponse()
