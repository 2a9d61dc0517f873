"""Files of tables, and unfinished attempts, over gRPC."""

from __future__ import annotations

from collections.abc import Sequence

from lakelog.client.connection.calls import Calls
from lakelog.format.retention.partition_expiry import PartitionPage
from lakelog.format.retention.table_files import MAX_FILES_A_CALL, AttemptAge, FoundFiles, UsedPage
from lakelog.rpc.messages import build
from lakelog.rpc.table_files import (
    from_proto_attempt,
    from_proto_found_files,
    from_proto_partition_page,
    from_proto_used_page,
)
from lakelog.rpc.v1 import table_files_pb2


class GrpcTableFiles:
    """The part of `lakelog.client.metastore.metastore.Metastore` that is about files below tables' locations."""

    _calls: Calls

    def find_used_files(self, table_uuid: str, paths: Sequence[str]) -> FoundFiles:
        """Finds which of some files a table refers to."""
        request = build(table_files_pb2.FindUsedFilesRequest, table_uuid=table_uuid, paths=paths)
        response = self._calls.read("FindUsedFiles", lambda on: on.table_files.FindUsedFiles, request)
        return from_proto_found_files(response)

    def list_used_files(self, table_uuid: str, cursor: str = "", limit: int = MAX_FILES_A_CALL) -> UsedPage:
        """The files that a table refers to, page by page."""
        request = build(table_files_pb2.ListUsedFilesRequest, table_uuid=table_uuid, cursor=cursor, limit=limit)
        response = self._calls.read("ListUsedFiles", lambda on: on.table_files.ListUsedFiles, request)
        return from_proto_used_page(response)

    def list_partition_files(
        self, table_uuid: str, after: bytes | None = None, limit: int = MAX_FILES_A_CALL
    ) -> PartitionPage:
        """The partitions that have live files, page by page."""
        request = build(table_files_pb2.ListPartitionFilesRequest, table_uuid=table_uuid, after=after, limit=limit)
        response = self._calls.read("ListPartitionFiles", lambda on: on.table_files.ListPartitionFiles, request)
        return from_proto_partition_page(response)

    def list_unfinished_attempts(
        self, table_uuid: str, *, open_ms: int, aborted_ms: int, limit: int = MAX_FILES_A_CALL
    ) -> list[AttemptAge]:
        """Attempts that are open or aborted, the oldest first."""
        request = build(
            table_files_pb2.ListUnfinishedAttemptsRequest,
            table_uuid=table_uuid,
            open_ms=open_ms,
            aborted_ms=aborted_ms,
            limit=limit,
        )
        response = self._calls.read("ListUnfinishedAttempts", lambda on: on.table_files.ListUnfinishedAttempts, request)
        return [from_proto_attempt(attempt) for attempt in response.attempts]

    def abort_attempts(self, table_uuid: str, attempt_ids: Sequence[str], open_ms: int) -> list[str]:
        """Aborts attempts that have been open for too long. Repeated: idempotent."""
        request = build(
            table_files_pb2.AbortAttemptsRequest, table_uuid=table_uuid, attempt_ids=attempt_ids, open_ms=open_ms
        )
        response = self._calls.mutate("AbortAttempts", lambda on: on.table_files.AbortAttempts, request)
        return list(response.aborted_attempt_ids)

    def forget_attempts(self, table_uuid: str, attempt_ids: Sequence[str]) -> int:
        """Forgets aborted attempts. Repeated: idempotent, but for the count."""
        request = build(table_files_pb2.ForgetAttemptsRequest, table_uuid=table_uuid, attempt_ids=attempt_ids)
        return self._calls.mutate("ForgetAttempts", lambda on: on.table_files.ForgetAttempts, request).forgotten
