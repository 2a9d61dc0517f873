"""Reads large commits in slices: their files are translated while they are parsed, a thousand at a time.

A parsed commit of 100,000 files takes more memory than its bytes, and its translation takes as much again. So the bytes
are cut between the files, each slice is parsed and translated by itself, and what was parsed is freed before the next.

Why cutting is right: a message parsed from joined bytes is the merge of the messages parsed from each part, if they are
cut between fields. Protobuf defines it so: repeated fields are appended, the last value of a singular one holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from google.protobuf.message import Message

from lakelog.format.commit.request import Change, CommitRequest
from lakelog.format.tables.files import DataFile
from lakelog.rpc.commit import from_proto_commit_request
from lakelog.rpc.files import from_proto_data_file
from lakelog.rpc.v1 import snapshots_pb2
from lakelog.serving.edge.wire_fields import Field, split_fields

from ...heavy_work import SLICE

_CHANGES: Final = snapshots_pb2.CommitRequest.DESCRIPTOR.fields_by_name["changes"].number << 3 | 2
_COMMIT: Final = snapshots_pb2.CommitStreamRequest.DESCRIPTOR.fields_by_name["commit"].number << 3 | 2
_FILES: Final = ("add_files", "changelog_files", "log_files")

_WHOLE_BYTES: Final = 64 * 1024
"""Changes up to this size are parsed whole: slices of a few files save nothing, and a commit can have many changes."""


@dataclass
class _Files:
    """The files of one change, by field."""

    lists: dict[str, list[DataFile]] = field(default_factory=lambda: {name: [] for name in _FILES})

    def move_from(self, part: snapshots_pb2.Change) -> None:
        """Translates the files of a parsed part and takes them out of it."""
        for name, files in self.lists.items():
            messages = getattr(part, name)
            if messages:
                files += [from_proto_data_file(each) for each in messages]
                part.ClearField(name)  # type: ignore[arg-type]  # It is one of the names above.

    def put_into(self, change: Change) -> Change:
        """The change with its files; nothing is left here."""
        taken = {name: tuple(files) for name, files in self.lists.items()}
        self.lists.clear()
        return replace(change, **taken)  # type: ignore[arg-type]  # The names are those of fields with files.


class LargeCommit:
    """A commit that was parsed and translated in slices.

    Args:
        message: All of it except for the files of its large changes.
        files: These files, change by change; None: the change is small, and the message has its files.
    """

    def __init__(self, message: snapshots_pb2.CommitRequest, files: list[_Files | None]) -> None:
        self.message: Final = message
        # What the log says of them, also after they were taken.
        self.file_counts: Final[Mapping[str, int]] = {
            name: sum(len(each.lists[name]) for each in files if each is not None) for name in _FILES
        }
        self._files = files

    def take(self) -> CommitRequest:
        """Returns the commit, once: nothing of the files is left here.

        Raises:
            InvalidArgument: As `from_proto_commit_request`.
        """
        commit = from_proto_commit_request(self.message)
        files, self._files = self._files, []
        changes = [
            change if its_files is None else its_files.put_into(change)
            for change, its_files in zip(commit.changes, files, strict=True)
        ]
        return replace(commit, changes=tuple(changes))


def read_commit(data: bytes) -> LargeCommit:
    """Parses a `CommitRequest`.

    Raises:
        DecodeError: The bytes are no such message.
    """
    message = snapshots_pb2.CommitRequest()
    files: list[_Files | None] = []
    start = 0

    def read_whole(end: int) -> None:
        message.MergeFromString(data[start:end])
        files.extend([None] * (len(message.changes) - len(files)))

    for each in split_fields(data, 0, len(data)):
        if each.tag == _CHANGES and each.end - each.inside > _WHOLE_BYTES:
            read_whole(each.start)
            change, its_files = _read_change(data, each)
            message.changes.append(change)
            files.append(its_files)
            start = each.end
    read_whole(len(data))
    return LargeCommit(message, files)


def read_stream_commit(data: bytes) -> LargeCommit | Message:
    """Parses a `CommitStreamRequest`; one with a single commit in slices.

    Raises:
        DecodeError: The bytes are no such message.
    """
    fields = list(split_fields(data, 0, len(data)))
    if [each.tag for each in fields] != [_COMMIT]:
        # It has none or, what no client sends, several that are merged.
        return snapshots_pb2.CommitStreamRequest.FromString(data)
    return read_commit(data[fields[0].inside : fields[0].end])


def _read_change(data: bytes, whole: Field) -> tuple[snapshots_pb2.Change, _Files]:
    change, files = snapshots_pb2.Change(), _Files()
    for start, end in _cut(data, whole):
        part = snapshots_pb2.Change.FromString(data[start:end])
        files.move_from(part)
        change.MergeFrom(part)
    return change, files


def _cut(data: bytes, whole: Field) -> Iterator[tuple[int, int]]:
    """The bounds of slices of a message with `SLICE` fields each."""
    start = end = whole.inside
    for count, each in enumerate(split_fields(data, whole.inside, whole.end), start=1):
        end = each.end
        if count % SLICE == 0:
            yield start, end
            start = end
    if start < end:
        yield start, end


def to_commit_request(message: snapshots_pb2.CommitRequest | LargeCommit) -> CommitRequest:
    """Translates a commit of any size.

    Raises:
        InvalidArgument: As `from_proto_commit_request`.
    """
    return message.take() if isinstance(message, LargeCommit) else from_proto_commit_request(message)
