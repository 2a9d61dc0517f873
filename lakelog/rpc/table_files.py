"""Files of tables, and attempts by age, on the wire."""

from __future__ import annotations

from lakelog.errors import InternalError
from lakelog.format.commit.facts import AttemptState
from lakelog.format.retention.partition_expiry import PartitionFiles, PartitionPage
from lakelog.format.retention.table_files import AttemptAge, FileUse, FoundFiles, UsedFile, UsedPage
from lakelog.rpc.messages import build
from lakelog.rpc.v1 import table_files_pb2

_USES = {
    FileUse.DATA: table_files_pb2.FILE_USE_DATA,
    FileUse.CHANGELOG: table_files_pb2.FILE_USE_CHANGELOG,
    FileUse.DELETION_VECTORS: table_files_pb2.FILE_USE_DELETION_VECTORS,
    FileUse.EXPIRED: table_files_pb2.FILE_USE_EXPIRED,
}
_USES_BACK = {number: use for use, number in _USES.items()}
_STATES = {
    AttemptState.OPEN: table_files_pb2.ATTEMPT_STATE_OPEN,
    AttemptState.COMMITTED: table_files_pb2.ATTEMPT_STATE_COMMITTED,
    AttemptState.ABORTED: table_files_pb2.ATTEMPT_STATE_ABORTED,
}
_STATES_BACK = {number: state for state, number in _STATES.items()}


def to_proto_used_file(file: UsedFile) -> table_files_pb2.UsedFile:
    """Translates a file that something refers to."""
    return build(table_files_pb2.UsedFile, path=file.path, use=_USES[file.use], size_bytes=file.size_bytes)


def from_proto_used_file(message: table_files_pb2.UsedFile) -> UsedFile:
    """Translates such a file back.

    Raises:
        InternalError: The metastore says what this version does not know.
    """
    use = _USES_BACK.get(message.use)
    if use is None:
        raise InternalError(
            f"The metastore tells of the use {message.use} of a file, which this version does not know."
        )
    return UsedFile(message.path, use, message.size_bytes if message.HasField("size_bytes") else None)


def to_proto_attempt(attempt: AttemptAge) -> table_files_pb2.AttemptAge:
    """Translates an attempt."""
    return build(
        table_files_pb2.AttemptAge,
        attempt_id=attempt.attempt_id,
        state=_STATES[attempt.state],
        age_ms=attempt.age_ms,
    )


def from_proto_attempt(message: table_files_pb2.AttemptAge) -> AttemptAge:
    """Translates an attempt back.

    Raises:
        InternalError: The metastore says what this version does not know.
    """
    state = _STATES_BACK.get(message.state)
    if state is None:
        raise InternalError(
            f"The metastore tells of the state {message.state} of an attempt, which this version does not know."
        )
    return AttemptAge(message.attempt_id, state, message.age_ms)


def to_proto_found_files(found: FoundFiles) -> table_files_pb2.FindUsedFilesResponse:
    """Translates what is known of some paths."""
    return build(
        table_files_pb2.FindUsedFilesResponse,
        files=[to_proto_used_file(file) for file in found.files],
        attempts=[to_proto_attempt(attempt) for attempt in found.attempts],
    )


def from_proto_found_files(message: table_files_pb2.FindUsedFilesResponse) -> FoundFiles:
    """Translates what is known of some paths back."""
    return FoundFiles(
        tuple([from_proto_used_file(file) for file in message.files]),
        tuple([from_proto_attempt(attempt) for attempt in message.attempts]),
    )


def to_proto_used_page(page: UsedPage) -> table_files_pb2.ListUsedFilesResponse:
    """Translates a page of files."""
    return build(
        table_files_pb2.ListUsedFilesResponse,
        files=[to_proto_used_file(file) for file in page.files],
        cursor=page.cursor,
    )


def from_proto_used_page(message: table_files_pb2.ListUsedFilesResponse) -> UsedPage:
    """Translates a page of files back."""
    return UsedPage(tuple([from_proto_used_file(file) for file in message.files]), message.cursor)


def to_proto_partition_page(page: PartitionPage) -> table_files_pb2.ListPartitionFilesResponse:
    """Translates a page of partitions."""
    partitions = [
        build(
            table_files_pb2.PartitionFiles,
            partition=each.partition,
            files=each.files,
            rows=each.rows,
            size_bytes=each.size_bytes,
            updated_at_ms=each.updated_at_ms,
        )
        for each in page.partitions
    ]
    return build(
        table_files_pb2.ListPartitionFilesResponse,
        partitions=partitions,
        snapshot_id=page.snapshot_id,
        now_ms=page.now_ms,
        is_last=page.is_last,
    )


def from_proto_partition_page(message: table_files_pb2.ListPartitionFilesResponse) -> PartitionPage:
    """Translates a page of partitions back."""
    partitions = [
        PartitionFiles(each.partition, each.files, each.rows, each.size_bytes, each.updated_at_ms)
        for each in message.partitions
    ]
    return PartitionPage(tuple(partitions), message.snapshot_id, message.now_ms, message.is_last)
