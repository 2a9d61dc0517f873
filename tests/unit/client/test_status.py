"""Errors over the wire: the same error arrives, small enough to travel and without secrets."""

from __future__ import annotations

import base64
from typing import Any

import grpc
import hypothesis.strategies as st
import pytest
from hypothesis import given

from lakelog import errors
from lakelog.client.connection.status import (
    DETAILS_KEY,
    CallKind,
    from_proto_status,
    from_rpc_error,
    to_proto_status,
    to_wire_status,
)
from lakelog.rpc.messages import parse
from lakelog.rpc.v1 import types_pb2

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.LakelogError)]
REAL_KINDS = [kind for kind in KINDS if kind is not errors.LakelogError]


class FailedCall(grpc.RpcError):
    """What a stub raises."""

    def __init__(self, code: grpc.StatusCode, text: str = "", details: bytes | None = None) -> None:
        self._code, self._text, self._details = code, text, details

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._text

    def trailing_metadata(self) -> Any:
        return () if self._details is None else ((DETAILS_KEY, self._details),)


# What stubs raise counts as a call; registered, so that what this test has no use for need not be written.
grpc.Call.register(FailedCall)


def failed(code: grpc.StatusCode, text: str = "", details: bytes | None = None) -> grpc.RpcError:
    return FailedCall(code, text, details)


def over_the_wire(error: errors.LakelogError, kind: CallKind = CallKind.MUTATION) -> errors.LakelogError:
    wire = to_wire_status(error)
    received = failed(wire.code, wire.message, wire.details)
    return from_rpc_error(received, kind=kind, method="Commit", target="here:1", deadline_s=5)


@pytest.mark.parametrize("kind", REAL_KINDS)
@pytest.mark.parametrize("call", CallKind)
def test_every_kind_arrives_as_it_was_sent(kind: type[errors.LakelogError], call: CallKind) -> None:
    sent = kind("What happened, żółć.", reason="SOME_REASON", metadata={"table": "shop.orders", "retry": "never"})
    received = over_the_wire(sent, call)
    assert type(received) is kind
    assert (received.message, received.reason, received.metadata) == (sent.message, sent.reason, sent.metadata)
    assert received.effect is sent.effect


def test_the_kinds_are_all_mapped() -> None:
    assert len(REAL_KINDS) == 14
    codes = {kind: to_wire_status(kind("x")).code for kind in REAL_KINDS}
    assert codes[errors.OutcomeUnknown] is grpc.StatusCode.UNKNOWN
    assert codes[errors.Unavailable] is grpc.StatusCode.UNAVAILABLE
    unavailable = [kind for kind, code in codes.items() if code is grpc.StatusCode.UNAVAILABLE]
    assert unavailable == [errors.Unavailable], "proxies repeat what is UNAVAILABLE"


def test_anyone_who_is_not_recognized_gets_a_status_of_its_own() -> None:
    error = errors.PermissionDenied("no token", reason="UNAUTHENTICATED")
    assert to_wire_status(error).code is grpc.StatusCode.UNAUTHENTICATED
    assert type(over_the_wire(error)) is errors.PermissionDenied


def test_a_subclass_travels_as_its_kind_and_a_foreign_one_as_internal() -> None:
    class SchemaConflict(errors.CommitConflict):
        pass

    assert type(over_the_wire(SchemaConflict("x"))) is errors.CommitConflict
    assert type(over_the_wire(errors.LakelogError("x"))) is errors.InternalError


def test_a_kind_of_a_newer_server_becomes_the_kind_of_its_code() -> None:
    status = to_proto_status(errors.CommitConflict("x"))
    info = parse(types_pb2.ErrorInfo, status.details[0].value)
    info.metadata["kind"] = "SomethingNew"
    status.details[0].value = info.SerializeToString()
    assert type(from_proto_status(status)) is errors.CommitConflict


def test_google_can_read_it() -> None:
    # Field numbers of google.rpc.Status, google.protobuf.Any and google.rpc.ErrorInfo, read by hand.
    raw = to_wire_status(errors.NotFound("gone")).details
    assert raw.startswith(b"\x08\x05\x12\x04gone\x1a")
    assert b"\x0a\x28type.googleapis.com/google.rpc.ErrorInfo\x12" in raw
    assert b"\x0a\x09NOT_FOUND\x12\x07lakelog\x1a" in raw


any_text = st.text(max_size=5000) | st.builds(lambda unit, n: unit * n, st.text(min_size=1, max_size=3), st.just(4000))


@given(any_text, any_text, st.dictionaries(any_text, any_text, max_size=60), st.sampled_from(REAL_KINDS))
def test_whatever_it_holds_it_fits_into_headers(
    message: str, reason: str, metadata: dict[str, str], kind: type[errors.LakelogError]
) -> None:
    wire = to_wire_status(kind(message, reason=reason, metadata=metadata))
    text = sum(1 if 0x20 <= byte < 0x7F and byte != 0x25 else 3 for byte in wire.message.encode())
    assert text + len(base64.b64encode(wire.details)) < 8192 - 400
    received = from_proto_status(parse(types_pb2.Status, wire.details))
    assert type(received) is kind
    assert sum(len(key.encode()) + len(value.encode()) for key, value in received.metadata.items()) < 4096


def test_a_long_message_says_that_it_was_cut() -> None:
    received = over_the_wire(errors.InvalidArgument("a" * 10_000, metadata={"a": "ż" * 5000, "b": "kept"}))
    assert received.message.startswith("a" * 1900)
    assert received.message.endswith(" ... (shortened)")
    assert received.metadata["a"].endswith(" ... (shortened)")
    assert received.metadata["b"] == "kept"


def test_passwords_and_control_characters_do_not_travel() -> None:
    sent = errors.Unavailable("cannot reach postgresql://ann:s3cret@db/x\x00\x1b[31m", metadata={"url": "s3://k:pw@b/"})
    received = over_the_wire(sent)
    assert received.message == "cannot reach postgresql://ann:***@db/x\ufffd\ufffd[31m"
    assert received.metadata == {"url": "s3://k:***@b/"}


def transport(code: grpc.StatusCode, kind: CallKind, details: bytes | None = None) -> errors.LakelogError:
    return from_rpc_error(
        failed(code, "words of grpc", details), kind=kind, method="Commit", target="db:7450", deadline_s=2.5
    )


CERTAIN = {
    grpc.StatusCode.UNIMPLEMENTED: errors.InvalidArgument,
    grpc.StatusCode.UNAUTHENTICATED: errors.PermissionDenied,
    grpc.StatusCode.PERMISSION_DENIED: errors.PermissionDenied,
    grpc.StatusCode.RESOURCE_EXHAUSTED: errors.ResourceExhausted,
}


@pytest.mark.parametrize("code", [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK])
def test_a_failed_transport(code: grpc.StatusCode) -> None:
    read, mutation = transport(code, CallKind.READ), transport(code, CallKind.MUTATION)
    assert type(read) is CERTAIN.get(code, errors.Unavailable)
    assert type(mutation) is CERTAIN.get(code, errors.OutcomeUnknown)
    for error in (read, mutation):
        assert "db:7450" in error.message
        assert "words of grpc" in error.message or code is grpc.StatusCode.DEADLINE_EXCEEDED
        assert error.metadata["method"] == "Commit"


def test_an_expired_deadline_is_named() -> None:
    assert "within the deadline of 2.5 s" in transport(grpc.StatusCode.DEADLINE_EXCEEDED, CallKind.READ).message


def test_an_old_or_wrong_target_is_reported() -> None:
    assert (
        "a metastore older than this client, which must be upgraded, or no lakelog metastore"
        in transport(grpc.StatusCode.UNIMPLEMENTED, CallKind.MUTATION).message
    )


@pytest.mark.parametrize("details", [b"\xff\xff", b"", types_pb2.Status(code=14, message="theirs").SerializeToString()])
def test_details_that_are_not_ours_prove_nothing(details: bytes) -> None:
    assert type(transport(grpc.StatusCode.UNAVAILABLE, CallKind.MUTATION, details)) is errors.OutcomeUnknown
