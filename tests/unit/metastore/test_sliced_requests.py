"""Large requests are read in slices: the result is that of reading them whole, and takes a part of the memory."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from lakelog.errors import InvalidArgument
from lakelog.format.commit.request import CommitRequest
from lakelog.format.tables.files import ColumnStatistics, DataFile
from lakelog.format.tables.packed_statistics import PackedStatistics, encode_statistics
from lakelog.rpc import files as wire_files
from lakelog.rpc.commit import from_proto_commit_request
from lakelog.rpc.job import from_proto_attach_request
from lakelog.rpc.v1 import snapshots_pb2, types_pb2
from metastore.server.audit import describe_request
from metastore.server.edge import sliced_requests
from metastore.server.edge.requests import Requests
from metastore.server.edge.sliced_requests import SlicedRequest, read_attachment, read_commit, read_stream_commit
from tests.support.peak_memory import peak_growth

MANY = 30_000
MIB = 1 << 20

numbers = st.integers(-(2**31), 2**31 - 1)
octets = st.binary(max_size=6)
columns = st.builds(
    types_pb2.ColumnStatistics,
    field_id=numbers,
    null_count=numbers,
    min_value=st.none() | octets,
    max_value=st.none() | octets,
)
data_files = st.builds(
    types_pb2.DataFile,
    path=st.text(max_size=5),
    partition=octets,
    row_count=numbers,
    min_key=st.none() | octets,
    statistics=st.builds(types_pb2.FileStatistics, columns=st.lists(columns, max_size=3)),
    deletion_vector_path=st.none() | st.text(max_size=2),
)
changes = st.builds(
    snapshots_pb2.Change,
    table_uuid=st.text(max_size=5),
    # Zero is no kind: its change is refused.
    kind=st.sampled_from([1, 1, 1, 2, 0]),
    schema_id=numbers,
    add_files=st.lists(data_files, max_size=9),
    changelog_files=st.lists(data_files, max_size=3),
    log_files=st.lists(data_files, max_size=3),
    properties=st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=3),
    watermark_ms=st.none() | numbers,
    unchanged_buckets=st.lists(st.builds(snapshots_pb2.BucketRef, bucket=numbers), max_size=3),
    remove=st.none() | st.just(snapshots_pb2.Removal(everything=True)),
)
commits = st.builds(
    snapshots_pb2.CommitRequest,
    writer=st.text(max_size=5),
    identifier=numbers,
    previous_identifier=st.none() | numbers,
    changes=st.lists(changes, max_size=3),
    fences=st.lists(st.builds(snapshots_pb2.Fence, lease=st.text(max_size=3), epoch=numbers), max_size=2),
    attempt_id=st.text(max_size=5),
)

attachments = st.builds(
    snapshots_pb2.AttachChangelogsRequest,
    table_uuid=st.text(max_size=5),
    job_id=numbers,
    changelogs=st.lists(
        st.builds(
            snapshots_pb2.SnapshotChangelog,
            snapshot_id=numbers,
            files=st.lists(data_files, max_size=9),
            snapshot_uuid=st.text(max_size=3),
        ),
        max_size=4,
    ),
)


def whole(data: bytes) -> CommitRequest | str:
    try:
        return from_proto_commit_request(snapshots_pb2.CommitRequest.FromString(data))
    except InvalidArgument as refused:
        return refused.message
    except DecodeError:
        return "no message"


def in_slices(data: bytes) -> CommitRequest | str:
    try:
        return taken(read_commit(data))
    except InvalidArgument as refused:
        return refused.message
    except DecodeError:
        return "no message"


def taken(read: SlicedRequest[CommitRequest]) -> CommitRequest | str:
    try:
        return read.take()
    except InvalidArgument as refused:
        return refused.message


def taken_files(request: snapshots_pb2.CommitRequest) -> tuple[DataFile, ...]:
    return read_commit(request.SerializeToString()).take().changes[0].add_files


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sliced_requests, "SLICE", 2)
    monkeypatch.setattr(sliced_requests, "_WHOLE_BYTES", 40)


@pytest.mark.usefixtures("small_slices")
def test_slices_make_the_same_commit_and_the_same_log_line() -> None:
    @settings(max_examples=40, deadline=None)
    @given(st.lists(commits, min_size=1, max_size=2))
    def check(parts: list[snapshots_pb2.CommitRequest]) -> None:
        # Two messages one after the other are their merge: singular fields come twice then.
        data = b"".join(part.SerializeToString() for part in parts)
        assert in_slices(data) == whole(data)
        assert describe_request(read_commit(data)) == describe_request(snapshots_pb2.CommitRequest.FromString(data))
        streamed = snapshots_pb2.CommitStreamRequest(commit=snapshots_pb2.CommitRequest.FromString(data))
        read = read_stream_commit(streamed.SerializeToString())
        assert isinstance(read, SlicedRequest)
        assert in_slices(streamed.commit.SerializeToString()) == whole(data)

    check()


@pytest.mark.usefixtures("small_slices")
def test_a_change_whose_fields_come_in_any_order_and_twice_is_merged_alike() -> None:
    @settings(max_examples=30, deadline=None)
    @given(st.lists(changes, min_size=2, max_size=3))
    def check(parts: list[snapshots_pb2.Change]) -> None:
        merged = b"".join(part.SerializeToString() for part in parts)
        data = snapshots_pb2.CommitRequest(writer="w").SerializeToString() + _field(7, merged)
        assert in_slices(data) == whole(data)

    check()


@pytest.mark.usefixtures("small_slices")
def test_damaged_bytes_are_no_message_either_way() -> None:
    @settings(max_examples=40, deadline=None)
    @given(commits, st.data())
    def check(commit: snapshots_pb2.CommitRequest, draw: st.DataObject) -> None:
        data = bytearray(commit.SerializeToString())
        if data:
            data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
        cut = bytes(data[: draw.draw(st.integers(0, len(data)))])
        expected, read = whole(cut), in_slices(cut)
        # Groups are no part of proto3: read whole they are unknown fields, here they are no message.
        assert read in (expected, "no message")
        if expected == "no message":
            assert read == "no message"

    check()


@pytest.mark.usefixtures("small_slices")
def test_a_stream_message_with_several_commits_or_none_is_what_protobuf_makes_of_it() -> None:
    @settings(max_examples=30, deadline=None)
    @given(st.lists(commits, min_size=2, max_size=3))
    def check(parts: list[snapshots_pb2.CommitRequest]) -> None:
        data = b"".join(snapshots_pb2.CommitStreamRequest(commit=part).SerializeToString() for part in parts)
        merged = snapshots_pb2.CommitStreamRequest.FromString(data).commit
        read = read_stream_commit(data + _field(9, b"of a newer client"))
        assert isinstance(read, SlicedRequest)
        assert taken(read) == whole(merged.SerializeToString())

    check()
    assert read_stream_commit(b"") == snapshots_pb2.CommitStreamRequest()


@pytest.mark.usefixtures("small_slices")
def test_slices_make_the_same_changelogs_and_the_same_log_line() -> None:
    @settings(max_examples=40, deadline=None)
    @given(st.lists(attachments, min_size=1, max_size=2))
    def check(parts: list[snapshots_pb2.AttachChangelogsRequest]) -> None:
        data = b"".join(part.SerializeToString() for part in parts)
        message = snapshots_pb2.AttachChangelogsRequest.FromString(data)
        read = read_attachment(data)
        assert describe_request(read) == describe_request(message)
        assert read.take() == from_proto_attach_request(message)

    check()


def test_no_slice_is_longer_than_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[int] = []
    cut = sliced_requests._cut

    def note(*arguments: Any) -> Iterator[tuple[int, int, bool]]:
        for start, end, is_files in cut(*arguments):
            lengths.append(end - start)
            yield start, end, is_files

    monkeypatch.setattr(sliced_requests, "_cut", note)
    change = snapshots_pb2.Change(table_uuid="a" * 32, kind=types_pb2.SNAPSHOT_KIND_APPEND)
    for number in range(300):
        change.add_files.add(path=f"{number}", min_key=b"k" * 10_000)
    assert len(taken_files(snapshots_pb2.CommitRequest(changes=[change]))) == 300
    assert max(lengths) <= sliced_requests._SLICE_BYTES
    assert len(lengths) > 10


@pytest.mark.parametrize("has_many_buckets", [True, False])
def test_what_is_left_of_a_large_commit_is_translated_beside_the_event_loop(
    monkeypatch: pytest.MonkeyPatch, has_many_buckets: bool
) -> None:
    change = snapshots_pb2.Change(table_uuid="a" * 32, kind=types_pb2.SNAPSHOT_KIND_APPEND, add_files=many_files(100))
    for bucket in range(10_000 if has_many_buckets else 0):
        change.unchanged_buckets.add(bucket=bucket)
    data = snapshots_pb2.CommitRequest(changes=[change]).SerializeToString()
    threads: list[str] = []
    take = SlicedRequest.take

    def note(read: SlicedRequest[CommitRequest]) -> CommitRequest:
        threads.append(threading.current_thread().name)
        return take(read)

    monkeypatch.setattr(SlicedRequest, "take", note)

    async def translate() -> CommitRequest:
        requests = Requests({}, 1 << 20)
        try:
            return await requests.translate(read_commit(data), from_proto_commit_request)
        finally:
            requests.close()

    assert asyncio.run(translate()) == whole(data)
    assert [name.startswith("requests") for name in threads] == [has_many_buckets]


def test_a_file_that_no_commit_can_have_is_refused_before_it_is_parsed() -> None:
    change = snapshots_pb2.Change(table_uuid="a" * 32, kind=types_pb2.SNAPSHOT_KIND_APPEND)
    change.add_files.add(
        path="p", statistics=types_pb2.FileStatistics(columns=[types_pb2.ColumnStatistics()] * 600_000)
    )
    request = snapshots_pb2.CommitRequest(changes=[change])
    with pytest.raises(InvalidArgument, match="A file of the request has 1200007 bytes, and 1048576 is the limit"):
        read_commit(request.SerializeToString())


def test_packed_statistics_are_equal_to_the_objects() -> None:
    plain = (
        ColumnStatistics(1, 0, b"", None),
        ColumnStatistics(7, 2**40, None, b"xyz"),
        ColumnStatistics(2, 1, b"a", b"b"),
    )
    encoded = encode_statistics(plain)
    assert encoded is not None
    packed = PackedStatistics(encoded)
    assert packed == plain
    assert plain == packed
    assert hash(packed) == hash(plain)
    assert repr(packed) == repr(plain)
    assert (len(packed), packed[1], packed[-1], packed[1:]) == (3, plain[1], plain[-1], plain[1:])
    assert packed != plain[:2]
    assert encode_statistics(packed) is encoded
    assert encode_statistics(()) is None


def test_a_large_commit_takes_a_part_of_the_memory_that_its_objects_take(monkeypatch: pytest.MonkeyPatch) -> None:
    data = snapshots_pb2.CommitRequest(
        writer="w",
        identifier=1,
        changes=[
            snapshots_pb2.Change(table_uuid="a" * 32, kind=types_pb2.SNAPSHOT_KIND_APPEND, add_files=many_files(MANY))
        ],
    ).SerializeToString()
    growth, growth_of_control = peaks(monkeypatch, lambda: in_slices(data), lambda: whole(data))
    assert growth < 27 * MIB
    assert growth_of_control > 2 * growth


def test_large_changelogs_take_a_part_of_the_memory_that_their_objects_take(monkeypatch: pytest.MonkeyPatch) -> None:
    # Each changelog by itself is small.
    changelogs = [
        snapshots_pb2.SnapshotChangelog(snapshot_id=number, files=many_files(100)) for number in range(MANY // 100)
    ]
    data = snapshots_pb2.AttachChangelogsRequest(changelogs=changelogs).SerializeToString()
    growth, growth_of_control = peaks(
        monkeypatch,
        lambda: read_attachment(data).take(),
        lambda: from_proto_attach_request(snapshots_pb2.AttachChangelogsRequest.FromString(data)),
    )
    assert growth < 27 * MIB
    assert growth_of_control > 2 * growth


def peaks(
    monkeypatch: pytest.MonkeyPatch, in_slices: Callable[[], object], whole: Callable[[], object]
) -> tuple[int, int]:
    """What a request takes; and the control: it is parsed as a whole, and each column of statistics is an object."""
    made: list[object] = []
    growth = peak_growth(lambda: made.append(in_slices()))
    monkeypatch.setattr(
        wire_files, "_from_proto_statistics", lambda found: wire_files._unpacked(map(wire_files._to_entry, found))
    )
    control: list[object] = []
    growth_of_control = peak_growth(lambda: control.append(whole()))
    assert made == control
    return growth, growth_of_control


def many_files(count: int) -> list[types_pb2.DataFile]:
    files = []
    for number in range(count):
        file = types_pb2.DataFile(path=f"data/{'b' * 32}/{number:032x}.parquet", row_count=1000, size_bytes=10**8)
        for column in range(1, 6):
            bound = number.to_bytes(9, "big")
            file.statistics.columns.add(field_id=column, min_value=bound, max_value=bound)
        files.append(file)
    return files


def _field(number: int, inside: bytes) -> bytes:
    length, size = b"", len(inside)
    while size > 127:
        length += bytes((size & 127 | 128,))
        size >>= 7
    return bytes((number << 3 | 2,)) + length + bytes((size,)) + inside
