"""Large commits are read in slices: the result is that of reading them whole, and takes a part of the memory."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.message import DecodeError, Message
from hypothesis import given, settings
from hypothesis import strategies as st

from lakelog.errors import InvalidArgument
from lakelog.format.commit.request import CommitRequest
from lakelog.format.tables.files import ColumnStatistics
from lakelog.format.tables.packed_statistics import PackedStatistics, encode_statistics
from lakelog.rpc import files as wire_files
from lakelog.rpc.commit import from_proto_commit_request
from lakelog.rpc.v1 import snapshots_pb2, types_pb2
from metastore.server.audit import describe_request
from metastore.server.edge import large_commits
from metastore.server.edge.large_commits import LargeCommit, read_commit, read_stream_commit
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


def whole(data: bytes) -> CommitRequest | str:
    try:
        return from_proto_commit_request(snapshots_pb2.CommitRequest.FromString(data))
    except InvalidArgument as refused:
        return refused.message
    except DecodeError:
        return "no message"


def in_slices(data: bytes) -> CommitRequest | str:
    try:
        return read_commit(data).take()
    except InvalidArgument as refused:
        return refused.message
    except DecodeError:
        return "no message"


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_commits, "SLICE", 2)
    monkeypatch.setattr(large_commits, "_WHOLE_BYTES", 40)


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
        assert isinstance(read, LargeCommit)
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


def test_a_stream_message_with_several_commits_or_none_is_merged_by_protobuf() -> None:
    two = [snapshots_pb2.CommitStreamRequest(commit=snapshots_pb2.CommitRequest(writer=name)) for name in "ab"]
    read = read_stream_commit(b"".join(each.SerializeToString() for each in two))
    assert isinstance(read, Message)
    assert read == two[1]
    assert read_stream_commit(b"") == snapshots_pb2.CommitStreamRequest()


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
    data = _large()
    sliced: list[Any] = []
    growth = peak_growth(lambda: sliced.append(in_slices(data)))
    # The control: the message is parsed as a whole, and each column of statistics is an object.
    monkeypatch.setattr(
        wire_files, "_from_proto_statistics", lambda found: wire_files._unpacked(map(wire_files._to_entry, found))
    )
    control: list[Any] = []
    growth_of_control = peak_growth(lambda: control.append(whole(data)))
    assert sliced == control
    assert growth < 27 * MIB
    assert growth_of_control > 2 * growth


def _large() -> bytes:
    change = snapshots_pb2.Change(table_uuid="a" * 32, kind=types_pb2.SNAPSHOT_KIND_APPEND)
    for number in range(MANY):
        file = change.add_files.add(path=f"data/{'b' * 32}/{number:032x}.parquet", row_count=1000, size_bytes=10**8)
        for column in range(1, 6):
            bound = number.to_bytes(9, "big")
            file.statistics.columns.add(field_id=column, min_value=bound, max_value=bound)
    return snapshots_pb2.CommitRequest(writer="w", identifier=1, changes=[change]).SerializeToString()


def _field(number: int, inside: bytes) -> bytes:
    length, size = b"", len(inside)
    while size > 127:
        length += bytes((size & 127 | 128,))
        size >>= 7
    return bytes((number << 3 | 2,)) + length + bytes((size,)) + inside
