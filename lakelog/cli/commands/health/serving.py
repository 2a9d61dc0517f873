"""Checks a metastore by the standard health service of gRPC."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

import grpc

from lakelog.client.connection.target import TlsFiles, check_token, parse_target
from lakelog.client.connection.tokens import Token, to_metadata

_METHOD: Final = "/grpc.health.v1.Health/Check"
_STATES: Final = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")
_WITHIN_S: Final = 5.0
_PROBES: Final = 5


@dataclass(frozen=True)
class ServingState:
    """The result of the check.

    Args:
        state: `SERVING`, `NOT_SERVING`, `UNKNOWN`, or `UNREACHABLE` if nothing answered.
        latency_ms: The round trip of the fastest of some calls; None if nothing answered.
        problem: Why it does not serve, in one line; empty if it does.
        is_silent: Whether it has not answered in time, as a process that hangs.
    """

    state: str
    latency_ms: float | None
    problem: str
    is_silent: bool = False

    @property
    def is_serving(self) -> bool:
        """Whether the metastore accepts requests."""
        return self.state == "SERVING"


def check_serving(target: str, tls: TlsFiles | None, token: Token | None) -> ServingState:
    """Sends one request with time for connecting, then some more for the latency. Blocks for at most 5 s.

    Raises:
        InvalidArgument: The target, a TLS file or the token cannot be used.
    """
    parsed = parse_target(target)
    check_token(token, parsed, tls=tls is not None)
    metadata = to_metadata(token or None)
    if tls is None:
        channel = grpc.insecure_channel(str(parsed))
    else:
        channel = grpc.secure_channel(str(parsed), tls.load_credentials())
    with channel:
        # The messages are so small that this module reads them itself, without the package of their classes.
        ask = channel.unary_unary(_METHOD, request_serializer=bytes, response_deserializer=_read_state)
        try:
            state = ask(b"", timeout=_WITHIN_S, metadata=metadata)
            latencies_ms = []
            for _ in range(_PROBES):
                began_s = time.perf_counter()
                ask(b"", timeout=_WITHIN_S, metadata=metadata)
                latencies_ms.append((time.perf_counter() - began_s) * 1000)
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                return ServingState("UNREACHABLE", None, f"There is no answer within {_WITHIN_S:g} s.", is_silent=True)
            details = (error.details() or error.code().name).splitlines()[0]
            # gRPC's message has the path to the cause first, and the cause after these words.
            return ServingState("UNREACHABLE", None, details.rpartition("last error: ")[2].removeprefix("UNKNOWN: "))
    problem = (
        ""
        if state == "SERVING"
        else "It answers, but accepts no requests: it is starting or draining, or has lost its database."
    )
    return ServingState(state, round(min(latencies_ms), 3), problem)


def _read_state(response: bytes) -> str:
    """Reads a `grpc.health.v1.HealthCheckResponse`: field 1, an enumeration, absent when 0."""
    number = response[1] if len(response) >= 2 and response[0] == 0x08 else 0
    return _STATES[number] if number < len(_STATES) else "UNKNOWN"
