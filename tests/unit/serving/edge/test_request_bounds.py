"""Counting on the wire format: it agrees with protobuf on every message, and nothing slips past it."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from google.protobuf.message import DecodeError, Message
from hypothesis import given, settings
from hypothesis import strategies as st

from lakelog.errors import InvalidArgument, ResourceExhausted
from lakelog.rpc.v1 import publishing_pb2, snapshots_pb2, types_pb2
from lakelog.serving.edge.request_bounds import TOO_LARGE, RequestBounds, entry_name, reachable_messages


def bounds(message: type[Message], most: int = 3, *, max_bytes: int = 1 << 20, **others: int) -> RequestBounds:
    """Every repeated field may have `most` entries; `others` by the name of the field alone."""
    descriptor: Any = message.DESCRIPTOR
    fields = [field for each in reachable_messages(descriptor) for field in each.fields if field.is_repeated]
    return RequestBounds(
        "Call",
        descriptor,
        max_bytes,
        {entry_name(field): others.get(field.name, most) for field in fields},
    )


def varint(value: int, padding: int = 0) -> bytes:
    taken = bytearray()
    while value > 127:
        taken.append(value & 127 | 128)
        value >>= 7
    taken.append(value)
    for _ in range(padding):
        taken[-1] |= 128
        taken.append(0)
    return bytes(taken)


def field(number: int, inside: bytes, padding: int = 0) -> bytes:
    return varint(number << 3 | 2, padding) + varint(len(inside), padding) + inside


def entries_of(message: Message) -> Iterator[str]:
    """The name of each entry of each repeated field, by what protobuf made of the bytes."""
    for descriptor, value in message.ListFields():
        if not descriptor.is_repeated:
            if descriptor.message_type is not None:
                yield from entries_of(value)
            continue
        for each in value:
            yield entry_name(descriptor)
            if descriptor.message_type is not None and not descriptor.message_type.GetOptions().map_entry:
                yield from entries_of(each)


FILES = st.builds(
    types_pb2.DataFile,
    path=st.text(max_size=200),
    bucket=st.integers(0, 1000),
    statistics=st.builds(
        types_pb2.FileStatistics,
        columns=st.lists(st.builds(types_pb2.ColumnStatistics, field_id=st.integers(0, 2**31 - 1)), max_size=6),
    ),
)
CHANGES = st.builds(
    snapshots_pb2.Change,
    add_files=st.lists(FILES, max_size=6),
    log_files=st.lists(FILES, max_size=2),
    properties=st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=6),
    remove=st.builds(
        snapshots_pb2.Removal,
        files=st.builds(snapshots_pb2.FileIds, file_ids=st.lists(st.integers(-(2**63), 2**63 - 1), max_size=6)),
    ),
    groups=st.lists(
        st.builds(snapshots_pb2.CompactionGroup, input_file_ids=st.lists(st.integers(0, 2**40), max_size=6)),
        max_size=3,
    ),
)
COMMITS = st.builds(snapshots_pb2.CommitRequest, writer=st.text(max_size=5), changes=st.lists(CHANGES, max_size=6))


@settings(max_examples=300, deadline=None)
@given(COMMITS, st.integers(1, 8))
def test_a_request_passes_exactly_when_protobuf_finds_no_field_with_too_many(
    request: snapshots_pb2.CommitRequest, most: int
) -> None:
    counts = Counter(entries_of(request))
    checked = bounds(snapshots_pb2.CommitRequest, most)
    if all(count <= most for count in counts.values()):
        checked.check_entries(request.SerializeToString())
    else:
        with pytest.raises(InvalidArgument) as caught:
            checked.check_entries(request.SerializeToString())
        assert counts[caught.value.metadata["field"]] > most


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_are_passed_or_refused_and_what_passes_holds_no_more_than_allowed(data: bytes) -> None:
    checked = bounds(snapshots_pb2.CommitRequest, 2)
    counts: Counter[str] = Counter()
    # Other errors fail the test.
    with contextlib.suppress(InvalidArgument, DecodeError):
        checked.check_entries(data)
        counts.update(entries_of(snapshots_pb2.CommitRequest.FromString(data)))
    assert all(count <= 2 for count in counts.values())


def test_the_first_entry_that_is_too_many_ends_the_walk() -> None:
    checked = bounds(snapshots_pb2.CommitRequest, changes=256, max_bytes=64 << 20)
    with pytest.raises(InvalidArgument) as caught:
        # What follows is not even read: it is no message.
        checked.check_entries(b"\x3a\x00" * 257 + b"\xff" * (8 << 20))
    assert caught.value.reason == TOO_LARGE
    assert caught.value.metadata == {"method": "Call", "field": "CommitRequest.changes", "limit": "256"}
    assert "Call: CommitRequest.changes has more than 256 entries, which is the limit." in caught.value.message
    assert "split the request" in caught.value.message


def test_the_size_is_checked_by_itself() -> None:
    checked = bounds(snapshots_pb2.WatchRequest, max_bytes=100)
    checked.check_size(bytes(100))
    with pytest.raises(ResourceExhausted, match=r"Call: the request has 101 bytes, and 100 is the limit"):
        checked.check_size(bytes(101))


CHANGE = field(7, b"")
EVASIONS: Mapping[str, tuple[type[Message], bytes]] = {
    "entries of a nested field, spread over many messages": (
        snapshots_pb2.CommitRequest,
        field(7, field(4, b"") * 2) * 2,
    ),
    "a singular message that comes twice, which protobuf merges": (
        snapshots_pb2.CommitRequest,
        field(7, field(5, field(1, field(1, b"\x01\x01"))) * 2),
    ),
    "numbers one by one instead of packed": (
        snapshots_pb2.CommitRequest,
        field(7, field(14, varint(2 << 3) + b"\x05") * 1 + field(14, (varint(2 << 3) + b"\x05") * 4)),
    ),
    "numbers packed": (snapshots_pb2.PlanRequest, field(6, b"\x01\x80\x01\x01\x01")),
    "some packed and some not": (snapshots_pb2.PlanRequest, field(6, b"\x01\x01") + (varint(6 << 3) + b"\x01") * 2),
    "tags and lengths with more bytes than they need": (snapshots_pb2.CommitRequest, field(7, b"", padding=2) * 4),
    "entries of a map": (snapshots_pb2.CommitRequest, field(7, field(9, b"") * 4)),
    "entries of a map with the same key": (snapshots_pb2.CommitRequest, field(7, field(9, field(1, b"k")) * 4)),
    "fields that no one knows": (snapshots_pb2.CommitRequest, b"\xa0\x1f\x00" * 1000),
    "a singular number again and again": (snapshots_pb2.CommitRequest, b"\x10\x01" * 1000),
    "a singular message again and again": (snapshots_pb2.CommitRequest, field(7, field(5, b"") * 1000)),
    "alternatives in turns, of which protobuf makes one after the other": (
        snapshots_pb2.PlanRequest,
        field(5, (field(1, b"") + field(2, b"")) * 500),
    ),
    "fields that no one knows in a nested message": (
        snapshots_pb2.CommitRequest,
        field(7, field(4, b"\xa0\x1f\x00" * 1000)),
    ),
    "fields that no one knows in a message without repeated fields": (
        snapshots_pb2.PlanRequest,
        field(4, b"\xa0\x1f\x00" * 1000),
    ),
    "the same in an entry, and in an entry of a map": (
        snapshots_pb2.CommitRequest,
        field(7, field(7, b"\xa0\x1f\x00" * 20) + field(9, b"\x0a\x01k" + b"\xa0\x1f\x00" * 1000)),
    ),
    "a group": (snapshots_pb2.CommitRequest, b"\xa3\x1f" + b"\x10\x01" * 4 + b"\xa4\x1f"),
    "numbers of offsets": (publishing_pb2.ReportPublishedRequest, field(4, field(3, b"\x01\x01\x01\x01"))),
}


@pytest.mark.parametrize("evasion", EVASIONS)
def test_nothing_slips_past(evasion: str) -> None:
    message, data = EVASIONS[evasion]
    checked = bounds(message)
    with pytest.raises(InvalidArgument):
        checked.check_entries(data if len(data) > 8 else data * 2)


@pytest.mark.parametrize("depth", [60, 5000, 100_000])
def test_messages_inside_each_other_are_refused_before_the_stack_ends(depth: int) -> None:
    inside = b""
    for _ in range(min(depth, 300)):
        inside = field(1, field(1, inside))
    # Deeper ones of the same bytes: only the lengths differ.
    data = field(5, inside) if depth <= 300 else field(5, inside * (depth // 300))
    with pytest.raises(InvalidArgument):
        bounds(snapshots_pb2.PlanRequest, 2).check_entries(data)


def test_a_type_that_holds_itself_counts_all_its_levels_together() -> None:
    flat = types_pb2.Predicate(
        any_of=types_pb2.PredicateList(
            operands=[
                types_pb2.Predicate(all_of=types_pb2.PredicateList(operands=[types_pb2.Predicate()] * 3))
                for _ in range(3)
            ]
        )
    )
    data = snapshots_pb2.PlanRequest(predicate=flat).SerializeToString()
    bounds(snapshots_pb2.PlanRequest, 12).check_entries(data)
    with pytest.raises(InvalidArgument, match=r"PredicateList\.operands has more than 11"):
        bounds(snapshots_pb2.PlanRequest, 11).check_entries(data)


def test_a_field_of_a_newer_client_passes() -> None:
    request = snapshots_pb2.CommitRequest(writer="w", changes=[snapshots_pb2.Change(table_uuid="a" * 32)])
    bounds(snapshots_pb2.CommitRequest).check_entries(request.SerializeToString() + b"\xa0\x1f\x00" * 8)


def test_a_field_of_a_newer_client_passes_in_a_message_without_repeated_fields() -> None:
    newer = b"\xa0\x1f\x00" * 32
    column = types_pb2.ColumnStatistics(field_id=1, null_count=2, min_value=b"a" * 1000, max_value=b"b")
    file = field(10, field(1, column.SerializeToString() + newer))
    bounds(snapshots_pb2.CommitRequest).check_entries(field(7, field(4, file) + field(7, newer)))


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_message_that_was_cut_off_is_refused(cut: int) -> None:
    request = snapshots_pb2.CommitRequest(writer="w" * 20, changes=[snapshots_pb2.Change(table_uuid="a" * 32)])
    with pytest.raises(InvalidArgument, match="no message of this call"):
        bounds(snapshots_pb2.CommitRequest).check_entries(request.SerializeToString()[:-cut])


def test_a_repeated_field_without_a_bound_is_found_when_the_bounds_are_made() -> None:
    with pytest.raises(KeyError, match=r"WatchRequest\.positions"):
        RequestBounds("Watch", snapshots_pb2.WatchRequest.DESCRIPTOR, 100, {})
