"""Errors and gRPC statuses: the only place that translates one into the other.

A server's error travels as a status code, the message, and `grpc-status-details-bin` with a `google.rpc.Status` that
holds one `ErrorInfo` (reason, domain `lakelog`, metadata with the key `kind`); the client rebuilds the error from it.

A failure *without* those details does not come from a metastore's own code but from the transport: the gRPC library, a
proxy, or another server. What it means depends on the call (reliability C8):

- A read has no effect, so the failure is `Unavailable`: a repeat is always safe.
- A mutation may have taken effect, so the failure is `OutcomeUnknown`. gRPC reports a connection lost before, during
  and after the server's work by the same code, UNAVAILABLE, and its texts are no contract, so neither allows a
  conclusion. "Certainly not sent" therefore never comes from a status: `lakelog.client.connection.connection` checks
  *before* a request whether the server answers, and raises `Unavailable` when it does not.
- A few codes are certain all the same, because they are decided before a handler of the server runs: UNIMPLEMENTED (no
  such method), UNAUTHENTICATED and PERMISSION_DENIED (a proxy), RESOURCE_EXHAUSTED (a message above the size limit; it
  cannot be the *answer* of a mutation, since those are small by construction).
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import grpc

from lakelog.errors import (
    AlreadyExists,
    CommitConflict,
    DataCorrupted,
    Fenced,
    HistoryDiverged,
    InternalError,
    InvalidArgument,
    JobFailed,
    LakelogError,
    NotFound,
    OutcomeUnknown,
    PermissionDenied,
    ResourceExhausted,
    SnapshotExpired,
    Unavailable,
)
from lakelog.rpc.messages import parse
from lakelog.rpc.v1 import types_pb2

DETAILS_KEY: Final = "grpc-status-details-bin"
REQUEST_ID: Final = "x-request-id"
"""The header with the id of a call: its caller may set it, and a caller that was refused gets it."""
DOMAIN: Final = "lakelog"
UNAUTHENTICATED: Final = "UNAUTHENTICATED"
"""The reason of a PermissionDenied for callers that could not be recognized; it has its own status code."""
TOO_MANY_CALLS: Final = "TOO_MANY_CALLS"
"""The reason of an Unavailable when a server has too many calls open, of this caller or of all. It has the status code
RESOURCE_EXHAUSTED, because proxies and other clients repeat UNAVAILABLE at once. Ours use the error's kind and wait."""

_TYPE_URL: Final = "type.googleapis.com/google.rpc.ErrorInfo"
_CODES: Final[dict[type[LakelogError], grpc.StatusCode]] = {
    InvalidArgument: grpc.StatusCode.INVALID_ARGUMENT,
    NotFound: grpc.StatusCode.NOT_FOUND,
    AlreadyExists: grpc.StatusCode.ALREADY_EXISTS,
    PermissionDenied: grpc.StatusCode.PERMISSION_DENIED,
    CommitConflict: grpc.StatusCode.ABORTED,
    Fenced: grpc.StatusCode.FAILED_PRECONDITION,
    Unavailable: grpc.StatusCode.UNAVAILABLE,
    # Not UNAVAILABLE or DEADLINE_EXCEEDED: on those, clients and proxies repeat even requests that are not idempotent.
    OutcomeUnknown: grpc.StatusCode.UNKNOWN,
    ResourceExhausted: grpc.StatusCode.RESOURCE_EXHAUSTED,
    SnapshotExpired: grpc.StatusCode.OUT_OF_RANGE,
    HistoryDiverged: grpc.StatusCode.FAILED_PRECONDITION,
    DataCorrupted: grpc.StatusCode.DATA_LOSS,
    JobFailed: grpc.StatusCode.FAILED_PRECONDITION,
    InternalError: grpc.StatusCode.INTERNAL,
}
_KINDS: Final = {kind.__name__: kind for kind in _CODES}

# Peers refuse trailers above 8 KiB in all. The message travels twice (percent-encoded, and in the details). The details
# travel in base64, which is a third longer: 2 KiB + 4/3 * 4 KiB leaves 600 bytes for gRPC's own headers.
_MAX_TEXT_ENCODED_BYTES: Final = 2048
_MAX_MESSAGE_BYTES: Final = 2000
_MAX_METADATA_BYTES: Final = 1800
_MAX_VALUE_BYTES: Final = 1000
_MAX_WORD_BYTES: Final = 64
_SHORTENED: Final = " ... (shortened)"

_URL_PASSWORD: Final = re.compile(r"(\w://[^/\s:@]*):[^@/\s]+@")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]|[\ud800-\udfff]")


@dataclass(frozen=True)
class WireStatus:
    """An error ready to send: the status code, the bounded message, and the bytes of `grpc-status-details-bin`."""

    code: grpc.StatusCode
    message: str
    details: bytes


def to_wire_status(error: LakelogError) -> WireStatus:
    """Translates an error into a status. Pure.

    Hides passwords in URLs and replaces control characters. Shortens a long message, with a note, and long metadata
    values. Leaves out metadata entries that do not fit. An entry named `kind` is replaced by the kind.

    Returns:
        A status with less than 8 KiB of headers, whatever the error holds.
    """
    status = to_proto_status(error)
    return WireStatus(
        grpc_code(error),
        _cut(status.message, _MAX_TEXT_ENCODED_BYTES, _percent_encoded_bytes),
        status.SerializeToString(),
    )


def to_proto_status(error: LakelogError) -> types_pb2.Status:
    """Translates an error into a message, sanitised and bounded as in `to_wire_status`."""
    info = types_pb2.ErrorInfo(
        reason=_cut(_sanitised(error.reason), _MAX_WORD_BYTES), domain=DOMAIN, metadata=_bounded(error.metadata)
    )
    info.metadata["kind"] = _wire_kind(error).__name__
    return types_pb2.Status(
        code=_code_number(grpc_code(error)),
        message=_cut(_sanitised(error.message), _MAX_MESSAGE_BYTES),
        details=[types_pb2.StatusDetail(type_url=_TYPE_URL, value=info.SerializeToString())],
    )


def from_proto_status(status: types_pb2.Status) -> LakelogError | None:
    """Rebuilds an error from a status message.

    Returns:
        The error, or None if the status has no details of ours. An unknown kind, from a newer server, becomes the kind
        that belongs to the status code.

    Raises:
        InvalidArgument: The details are damaged.
    """
    for detail in status.details:
        if detail.type_url != _TYPE_URL:
            continue
        info = parse(types_pb2.ErrorInfo, detail.value)
        if info.domain != DOMAIN:
            continue
        metadata = dict(info.metadata)
        kind = _KINDS.get(metadata.pop("kind", "")) or _kind_of_code(status.code)
        return kind(status.message, reason=info.reason, metadata=metadata)
    return None


def grpc_code(error: LakelogError) -> grpc.StatusCode:
    """The status code of an error."""
    if error.reason == UNAUTHENTICATED and isinstance(error, PermissionDenied):
        return grpc.StatusCode.UNAUTHENTICATED
    if error.reason == TOO_MANY_CALLS and isinstance(error, Unavailable):
        return grpc.StatusCode.RESOURCE_EXHAUSTED
    return _CODES[_wire_kind(error)]


class CallKind(enum.Enum):
    """Whether a call has an effect; what a failure without details means depends on this."""

    READ = "read"
    """A call without an effect."""
    MUTATION = "mutation"
    """A call with an effect, which may have happened when the answer is lost."""


def from_rpc_error(
    error: grpc.RpcError, *, kind: CallKind, method: str, target: str, deadline_s: float | None
) -> LakelogError:
    """Translates what a gRPC call raised.

    Args:
        error: The error as raised; all errors that grpc raises from calls are also `grpc.Call`.
        kind: Whether the call has an effect.
        method: The RPC's short name, for the message.
        target: The server that was called, for the message.
        deadline_s: The deadline of the call in seconds; None: it had none.

    Returns:
        The error that the server sent; for a failure of the transport, the error that the module's docstring names.
    """
    code, text, details = _read_call(error)
    if details is not None:
        try:
            sent = from_proto_status(parse(types_pb2.Status, details))
        except InvalidArgument:
            sent = None
        if sent is not None:
            if request_id := _read_request_id(error):
                # By this an administrator finds the line of the failure.
                sent.metadata["request_id"] = request_id
            return sent
    return _from_transport(code, _sanitised(text), kind, method, target, deadline_s)


def _read_request_id(error: grpc.RpcError) -> str:
    if not isinstance(error, grpc.Call):
        return ""
    found = (value for key, value in error.trailing_metadata() or () if key == REQUEST_ID)
    return next((value for value in found if isinstance(value, str)), "")


def _read_call(error: grpc.RpcError) -> tuple[grpc.StatusCode, str, bytes | None]:
    if not isinstance(error, grpc.Call):
        return grpc.StatusCode.UNKNOWN, str(error), None
    details = next(
        (value for key, value in error.trailing_metadata() or () if key == DETAILS_KEY and isinstance(value, bytes)),
        None,
    )
    return error.code(), error.details() or "", details


def _from_transport(
    code: grpc.StatusCode, text: str, kind: CallKind, method: str, target: str, deadline_s: float | None
) -> LakelogError:
    metadata = {"target": target, "method": method, "status": code.name}
    shown = f"{code.name}: {text}" if text else code.name
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return InvalidArgument(
            f"{target} answered but knows no {method}: it is a metastore older than this client, which must be "
            f"upgraded, or no lakelog metastore. ({shown})",
            reason="WRONG_TARGET",
            metadata=metadata,
        )
    if code in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED):
        reason = UNAUTHENTICATED if code is grpc.StatusCode.UNAUTHENTICATED else None
        message = f"{target} or something before it refused {method}: {shown}. Check the token and the certificates."
        return PermissionDenied(message, reason=reason, metadata=metadata)
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return ResourceExhausted(
            f"{method} to {target} passed a limit of the transport: {shown}. A message may have 64 MiB.",
            metadata=metadata,
        )
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        limit = "its deadline" if deadline_s is None else f"the deadline of {deadline_s:.3g} s"
        problem = f"{method} to {target} was not answered within {limit}"
        if deadline_s is not None:
            metadata["deadline_s"] = f"{deadline_s:.3g}"
    else:
        problem = f"The connection to {target} failed during {method} ({shown})"
    if kind is CallKind.READ:
        remedy = "try again"
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            remedy = "look whether the metastore hangs or has too much to do, then try again, or ask for less"
        return Unavailable(f"{problem}. Nothing was changed; {remedy}.", metadata=metadata)
    return OutcomeUnknown(
        f"{problem}. It may have taken effect: repeat the same request or look before doing anything else, and delete "
        "no file.",
        metadata=metadata,
    )


def _wire_kind(error: LakelogError) -> type[LakelogError]:
    return next((kind for kind in type(error).__mro__ if kind in _CODES), InternalError)


def _kind_of_code(number: int) -> type[LakelogError]:
    # FAILED_PRECONDITION first means Fenced: a client that does not know the kind should stop and look, too.
    return next((kind for kind, code in _CODES.items() if _code_number(code) == number), InternalError)


def _code_number(code: grpc.StatusCode) -> int:
    number: int = code.value[0]
    return number


def _sanitised(text: str) -> str:
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", _URL_PASSWORD.sub(r"\1:***@", text))


def _bounded(metadata: dict[str, str]) -> dict[str, str]:
    bounded: dict[str, str] = {}
    room = _MAX_METADATA_BYTES
    for name, text in metadata.items():
        key, value = _cut(_sanitised(name), _MAX_WORD_BYTES), _cut(_sanitised(text), _MAX_VALUE_BYTES)
        size = len(key.encode()) + len(value.encode()) + 8  # 8: tags and lengths
        if key != "kind" and size <= room:
            bounded[key] = value
            room -= size
    return bounded


def _utf8_bytes(text: str) -> int:
    return len(text.encode())


def _percent_encoded_bytes(text: str) -> int:
    # gRPC sends '%' and every byte outside of printable ASCII as three bytes.
    return sum(1 if 0x20 <= byte < 0x7F and byte != 0x25 else 3 for byte in text.encode())


def _cut(text: str, max_bytes: int, size: Callable[[str], int] = _utf8_bytes) -> str:
    # A character takes at least one byte, so only the first max_bytes characters can fit.
    text, whole = text[: max_bytes + 1], text
    if len(text) == len(whole) and size(text) <= max_bytes:
        return text
    # The longest prefix that fits, by bisection: sizes rise with length.
    room = max_bytes - len(_SHORTENED)
    fits, too_long = 0, len(text)
    while too_long - fits > 1:
        middle = (fits + too_long) // 2
        if size(text[:middle]) <= room:
            fits = middle
        else:
            too_long = middle
    return text[:fits] + _SHORTENED
