"""A table of fields is complete, or its module cannot be imported: nothing can be left out on the way over the wire."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from lakelog.errors import InvalidArgument
from lakelog.format.retention.consumer import ConsumerPosition
from lakelog.rpc.retention import to_proto_position
from lakelog.rpc.translation import Translation
from lakelog.rpc.v1 import jobs_pb2, retention_pb2


@dataclass(frozen=True)
class Grant:
    acquired: bool
    epoch: int
    holder: str


@dataclass(frozen=True)
class GrantWithAge(Grant):
    remaining_ms: int
    age_ms: int


@dataclass(frozen=True)
class GrantForSome(Grant):
    remaining_ms: int | None


@dataclass(frozen=True)
class Overdue:
    table: str
    lease: object
    count: int
    since_ms: int


def test_fields_of_one_side_only_are_refused() -> None:
    with pytest.raises(TypeError, match=r"differ in \['remaining_ms'\]"):
        Translation(Grant, jobs_pb2.AcquireLeaseResponse)
    with pytest.raises(TypeError, match=r"differ in \['age_ms'\]"):
        Translation(GrantWithAge, jobs_pb2.AcquireLeaseResponse)


def test_what_only_one_side_can_leave_out_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Only one of lakelog\S*\.remaining_ms"):
        Translation(GrantForSome, jobs_pb2.AcquireLeaseResponse)


def test_messages_within_need_a_translation() -> None:
    with pytest.raises(TypeError, match=r"lease is a message without a translation"):
        Translation(Overdue, retention_pb2.OverdueSnapshots)


def test_fields_apart_are_given_by_name() -> None:
    grants = Translation(GrantWithAge, jobs_pb2.AcquireLeaseResponse, apart=("age_ms",))
    message = grants.to_proto(GrantWithAge(True, 3, "a", 4, age_ms=9))
    assert grants.from_proto(message, age_ms=5) == GrantWithAge(True, 3, "a", 4, 5)


def test_values_that_do_not_fit_are_named() -> None:
    with pytest.raises(InvalidArgument, match="epoch cannot be"):
        to_proto_position(ConsumerPosition("t", 2**63, 1, "u"))
