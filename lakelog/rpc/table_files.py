"""Files of tables, and attempts by age, on the wire."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from lakelog.errors import InternalError
from lakelog.format.commit.facts import AttemptState
from lakelog.format.retention.partition_expiry import PartitionFiles, PartitionPage
from lakelog.format.retention.table_files import AttemptAge, FileUse, FoundFiles, UsedFile, UsedPage
from lakelog.rpc.messages import build
from lakelog.rpc.translation import Translation
from lakelog.rpc.v1 import table_files_pb2

E = TypeVar("E")


def _translate_enum(numbers: Mapping[E, int], noun: str) -> tuple[Callable[[E], int], Callable[[int], E]]:
    """The translations in both directions. A value that only a newer metastore knows is an InternalError."""
    known = {number: member for member, number in numbers.items()}

    def read(number: int) -> E:
        if number not in known:
            raise InternalError(
                f"The metastore names {noun.format(number)}, which this version does not know. Use a newer client."
            )
        return known[number]

    return numbers.__getitem__, read


_USE: Final = _translate_enum(
    {
        FileUse.DATA: table_files_pb2.FILE_USE_DATA,
        FileUse.CHANGELOG: table_files_pb2.FILE_USE_CHANGELOG,
        FileUse.DELETION_VECTORS: table_files_pb2.FILE_USE_DELETION_VECTORS,
        FileUse.EXPIRED: table_files_pb2.FILE_USE_EXPIRED,
    },
    "the use {} of a file",
)
_STATE: Final = _translate_enum(
    {
        AttemptState.OPEN: table_files_pb2.ATTEMPT_STATE_OPEN,
        AttemptState.COMMITTED: table_files_pb2.ATTEMPT_STATE_COMMITTED,
        AttemptState.ABORTED: table_files_pb2.ATTEMPT_STATE_ABORTED,
    },
    "the state {} of an attempt",
)


def to_proto_used_file(file: UsedFile) -> table_files_pb2.UsedFile:
    """Written by hand: pages have thousands of files, and this takes a quarter of the time."""
    return build(
        table_files_pb2.UsedFile,
        path=file.path,
        use=_USE[0](file.use),
        size_bytes=file.size_bytes,
        first_snapshot_id=file.first_snapshot_id,
        last_snapshot_id=file.last_snapshot_id,
    )


def from_proto_used_file(message: table_files_pb2.UsedFile) -> UsedFile:
    """Translates a file that something refers to back."""
    return UsedFile(
        message.path,
        _USE[1](message.use),
        message.size_bytes if message.HasField("size_bytes") else None,
        message.first_snapshot_id if message.HasField("first_snapshot_id") else None,
        message.last_snapshot_id if message.HasField("last_snapshot_id") else None,
    )


_USED_FILE: Final = (to_proto_used_file, from_proto_used_file)
_ATTEMPT: Final = Translation(AttemptAge, table_files_pb2.AttemptAge, fields={"state": _STATE})
to_proto_attempt, from_proto_attempt = _ATTEMPT.both
to_proto_found_files, from_proto_found_files = Translation(
    FoundFiles,
    table_files_pb2.FindUsedFilesResponse,
    fields={"files": _USED_FILE, "attempts": _ATTEMPT.both},
).both
to_proto_used_page, from_proto_used_page = Translation(
    UsedPage, table_files_pb2.ListUsedFilesResponse, fields={"files": _USED_FILE}
).both
to_proto_partition_page, from_proto_partition_page = Translation(
    PartitionPage,
    table_files_pb2.ListPartitionFilesResponse,
    fields={"partitions": Translation(PartitionFiles, table_files_pb2.PartitionFiles).both},
).both
