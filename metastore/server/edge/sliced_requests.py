"""Reads large commits and changelogs in slices: their files are translated while they are parsed, slice by slice.

A parsed commit of 100,000 files takes more memory than its bytes, and its translation takes as much again. So the bytes
are cut between the files, each slice is parsed and translated by itself, and what was parsed is freed before the next.
Protobuf holds Python's lock while it parses, so short slices also let the event loop go on.

Why cutting is right: a message parsed from joined bytes is the merge of the messages parsed from each part, if they are
cut between fields. Protobuf defines it so: repeated fields are appended, the last value of a singular one holds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, TypeVar

from google.protobuf.message import Message

from lakelog.errors import InvalidArgument
from lakelog.format.commit.attachment import AttachRequest
from lakelog.format.commit.request import CommitRequest
from lakelog.format.tables.files import DataFile
from lakelog.rpc.commit import from_proto_commit_request
from lakelog.rpc.files import from_proto_data_file
from lakelog.rpc.job import from_proto_attach_request
from lakelog.rpc.v1 import snapshots_pb2
from lakelog.serving.edge.request_bounds import TOO_LARGE
from lakelog.serving.edge.wire_fields import Field, split_fields

from ...heavy_work import SLICE

R = TypeVar("R", CommitRequest, AttachRequest)
Files = Mapping[str, list[DataFile]]
"""The files of one part of a request, by field."""

_COMMIT: Final = snapshots_pb2.CommitStreamRequest.DESCRIPTOR.fields_by_name["commit"].number << 3 | 2

_WHOLE_BYTES: Final = 4 * 1024
"""Parts up to this size are parsed whole: slices of a few files save nothing, and a request can have many parts."""

_SLICE_BYTES: Final = 256 * 1024
"""A slice has no more bytes, unless a single field has."""

_MOST_FILE_BYTES: Final = 1024 * 1024
"""The most bytes of one file: its statistics have 256 KiB at most, its bounds 64 KiB each."""


@dataclass(frozen=True)
class _Shape(Generic[R]):
    """Where the files of a request stand.

    Args:
        request: The type of the message.
        part: The type of its parts.
        parts: The field with the parts, in the message and in what it is translated to.
        files: The fields of a part with files, in both.
        translate: Translates the message.
    """

    request: type[Message]
    part: type[Message]
    parts: str
    files: Sequence[str]
    translate: Callable[[Any], R]

    @property
    def part_tag(self) -> int:
        """The tag of the parts, as on the wire."""
        return self.request.DESCRIPTOR.fields_by_name[self.parts].number << 3 | 2

    @property
    def file_tags(self) -> frozenset[int]:
        """The tags of files, as on the wire."""
        return frozenset(self.part.DESCRIPTOR.fields_by_name[name].number << 3 | 2 for name in self.files)


_COMMITS: Final = _Shape(
    snapshots_pb2.CommitRequest,
    snapshots_pb2.Change,
    "changes",
    ("add_files", "changelog_files", "log_files"),
    from_proto_commit_request,
)
_ATTACHMENTS: Final = _Shape(
    snapshots_pb2.AttachChangelogsRequest,
    snapshots_pb2.SnapshotChangelog,
    "changelogs",
    ("files",),
    from_proto_attach_request,
)


class SlicedRequest(Generic[R]):
    """A request that was parsed in slices.

    Args:
        shape: Its kind.
        message: All of it except for the files of its large parts.
        message_bytes: The size of that.
        files: These files, part by part; None: the part is small, and the message has its files.
    """

    def __init__(self, shape: _Shape[R], message: Message, message_bytes: int, files: list[Files | None]) -> None:
        self.message: Final = message
        self.message_bytes: Final = message_bytes
        # What the log says of them, also after they were taken.
        self.file_counts: Final[Mapping[str, int]] = {
            name: sum(len(each[name]) for each in files if each is not None) for name in shape.files
        }
        self._shape: Final[_Shape[R]] = shape
        self._files = files

    def take(self) -> R:
        """Returns the translated request, once: nothing of the files is left here.

        Raises:
            InvalidArgument: As the translation of the message.
        """
        request = self._shape.translate(self.message)
        files, self._files = self._files, []
        parts = [
            part if its_files is None else replace(part, **{name: tuple(each) for name, each in its_files.items()})
            for part, its_files in zip(getattr(request, self._shape.parts), files, strict=True)
        ]
        fields: dict[str, Any] = {self._shape.parts: tuple(parts)}
        return replace(request, **fields)


def read_commit(data: bytes) -> SlicedRequest[CommitRequest]:
    """Parses a `CommitRequest`.

    Raises:
        DecodeError: The bytes are no such message.
        InvalidArgument: A file is too large.
    """
    return _read(data, _COMMITS)


def read_attachment(data: bytes) -> SlicedRequest[AttachRequest]:
    """Parses an `AttachChangelogsRequest`.

    Raises:
        DecodeError: The bytes are no such message.
        InvalidArgument: A file is too large.
    """
    return _read(data, _ATTACHMENTS)


def read_stream_commit(data: bytes) -> SlicedRequest[CommitRequest] | Message:
    """Parses a `CommitStreamRequest`; one without a commit stays what it is.

    Raises:
        DecodeError: The bytes are no such message.
        InvalidArgument: A file is too large.
    """
    commits = [data[each.inside : each.end] for each in split_fields(data, 0, len(data)) if each.tag == _COMMIT]
    if not commits:
        return snapshots_pb2.CommitStreamRequest.FromString(data)
    # No client sends several; protobuf merges them.
    return read_commit(commits[0] if len(commits) == 1 else b"".join(commits))


def _read(data: bytes, shape: _Shape[R]) -> SlicedRequest[R]:
    message: Any = shape.request()
    parts = getattr(message, shape.parts)
    files: list[Files | None] = []
    start = message_bytes = 0
    part_tag, file_tags = shape.part_tag, shape.file_tags

    def read_whole(end: int) -> None:
        message.MergeFromString(data[start:end])
        files.extend([None] * (len(parts) - len(files)))

    for each in split_fields(data, 0, len(data)):
        if each.tag == part_tag and each.end - each.inside > _WHOLE_BYTES:
            read_whole(each.start)
            message_bytes += each.start - start
            its_files: Files = {name: [] for name in shape.files}
            message_bytes += _read_part(data, each, shape.part, file_tags, parts.add(), its_files)
            files.append(its_files)
            start = each.end
    read_whole(len(data))
    return SlicedRequest(shape, message, message_bytes + len(data) - start, files)


def _read_part(
    data: bytes, whole: Field, part_type: type[Message], file_tags: Collection[int], part: Message, files: Files
) -> int:
    """Translates the files of a part into `files`, parses the rest into `part`, and returns the size of that."""
    rest_bytes = 0
    for start, end, is_files in _cut(data, whole, file_tags):
        if not is_files:
            part.MergeFromString(data[start:end])
            rest_bytes += end - start
            continue
        parsed = part_type.FromString(data[start:end])
        for name, translated in files.items():
            translated += [from_proto_data_file(each) for each in getattr(parsed, name)]
    return rest_bytes


def _cut(data: bytes, whole: Field, file_tags: Collection[int]) -> Iterator[tuple[int, int, bool]]:
    """The bounds of a part's slices, and for each whether its fields are files; if not, none of them is."""
    start = end = whole.inside
    count, is_files = 0, False
    for each in split_fields(data, whole.inside, whole.end):
        is_file = each.tag in file_tags
        if is_file and each.end - each.inside > _MOST_FILE_BYTES:
            raise _too_large(each)
        if count and (is_file is not is_files or count == SLICE or each.end - start > _SLICE_BYTES):
            yield start, end, is_files
            start, count = end, 0
        end, is_files = each.end, is_file
        count += 1
    if count:
        yield start, end, is_files


def _too_large(file: Field) -> InvalidArgument:
    return InvalidArgument(
        f"A file of the request has {file.end - file.inside} bytes, and {_MOST_FILE_BYTES} is the limit. Nothing was "
        "done: give bounds of fewer columns, or shorter ones.",
        reason=TOO_LARGE,
        metadata={"field": "files", "limit": str(_MOST_FILE_BYTES)},
    )
