"""Calls with one answer, or with a whole stream as the answer: deadlines, translated failures, safe repeats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

import grpc

from lakelog.client.connection.connection import Connection, Session
from lakelog.client.connection.retry import Deadlines, RetryPolicy, call_repeatedly
from lakelog.client.connection.status import REQUEST_ID, CallKind, from_rpc_error
from lakelog.clock import Clock
from lakelog.errors import LakelogError
from lakelog.tracing import spans
from lakelog.tracing.request_ids import current_or_new

Req = TypeVar("Req", contravariant=True)
Res = TypeVar("Res", covariant=True)
Request = TypeVar("Request")
Response = TypeVar("Response")

_SHORTEST_TRY_S: Final = 0.001
"""gRPC accepts only deadlines in the future."""


class Rpc(Protocol[Req, Res]):
    """What a stub offers for one method."""

    def __call__(self, request: Req, /, timeout: float | None = None, metadata: Any = None) -> Res:
        """Calls and waits for the answer."""
        ...


class Calls:
    """Makes calls on a connection.

    Args:
        connection: Where the calls go.
        deadlines: The limits of single tries.
        retries: The limits of all tries together, and the pauses between them.
        clock: Gives the time and makes the pauses.
        rng: Random numbers in [0, 1).
    """

    def __init__(
        self,
        connection: Connection,
        *,
        deadlines: Deadlines,
        retries: RetryPolicy,
        clock: Clock,
        rng: Callable[[], float],
    ) -> None:
        self._connection = connection
        self._deadlines = deadlines
        self._retries = retries
        self._clock = clock
        self._rng = rng

    def read(
        self,
        method: str,
        rpc: Callable[[Session], Rpc[Request, Response]],
        request: Request,
        *,
        deadline_s: float | None = None,
        total_s: float | None = None,
    ) -> Response:
        """Makes a call without an effect. Every failure of the transport is repeated.

        Args:
            method: Its short name, for errors.
            rpc: Picks the method from a session.
            request: What to send.
            deadline_s: The limit of one try; None: `Deadlines.call_s`.
            total_s: The limit of all tries; None: `RetryPolicy.total_s`.
        """
        return call_repeatedly(
            self._attempt(method, rpc, request, CallKind.READ, deadline_s or self._deadlines.call_s),
            policy=self._retries,
            total_s=total_s or self._retries.total_s,
            clock=self._clock,
            rng=self._rng,
        )

    def mutate(
        self,
        method: str,
        rpc: Callable[[Session], Rpc[Request, Response]],
        request: Request,
        *,
        deadline_s: float | None = None,
        total_s: float | None = None,
        repeat_unknown: bool = True,
        no_proof: tuple[type[LakelogError], ...] = (),
    ) -> Response:
        """Makes a call that has an effect.

        Args:
            method: Its short name, for errors.
            rpc: Picks the method from a session.
            request: What to send.
            deadline_s: The limit of one try; None: `Deadlines.call_s`.
            total_s: The limit of all tries; None: `RetryPolicy.total_s`.
            repeat_unknown: Whether it may be repeated after an unknown outcome.
            no_proof: Kinds of errors that prove nothing after an unknown outcome, see `call_repeatedly`.
        """
        return call_repeatedly(
            self._attempt(method, rpc, request, CallKind.MUTATION, deadline_s or self._deadlines.call_s),
            policy=self._retries,
            total_s=total_s or self._retries.total_s,
            clock=self._clock,
            rng=self._rng,
            repeat_unknown=repeat_unknown,
            no_proof=no_proof,
        )

    def _attempt(
        self,
        method: str,
        rpc: Callable[[Session], Rpc[Request, Response]],
        request: Request,
        kind: CallKind,
        deadline_s: float,
    ) -> Callable[[float], Response]:
        connection = self._connection
        # Its repetitions have the same one.
        request_id = current_or_new()

        def attempt(left_s: float) -> Response:
            with spans.span(method, kind="client"):
                return send_signed_in(left_s)

        def send_signed_in(left_s: float) -> Response:
            metadata = connection.call_metadata
            give_up_s = self._clock.monotonic_s() + left_s
            try:
                return send(left_s, metadata)
            except LakelogError as error:
                if not connection.may_sign_in_again(error, metadata):
                    raise
            # It was refused before its request was received, so this is no repetition.
            return send(give_up_s - self._clock.monotonic_s(), connection.call_metadata)

        def send(left_s: float, metadata: tuple[tuple[str, str], ...]) -> Response:
            give_up_s = self._clock.monotonic_s() + left_s
            session = connection.session(fresh=kind is CallKind.MUTATION, max_unavailable_s=left_s)
            # Reaching the server may have taken most of the time.
            timeout_s = max(min(deadline_s, give_up_s - self._clock.monotonic_s()), _SHORTEST_TRY_S)
            try:
                response = rpc(session)(request, timeout=timeout_s, metadata=metadata + to_headers(request_id))
            except grpc.RpcError as error:
                connection.failed(session)
                failure = from_rpc_error(
                    error, kind=kind, method=method, target=str(connection.target), deadline_s=timeout_s
                )
                failure.metadata["request_id"] = request_id
                raise failure from error
            except ValueError as error:
                # gRPC raises this, before it sends anything, when another thread has closed the channel meanwhile.
                if connection.is_closed:
                    raise connection.closed_error() from error
                raise
            connection.answered(session)
            return response

        return attempt


def to_headers(request_id: str) -> tuple[tuple[str, str], ...]:
    """The headers by which a call is found in logs and traces."""
    parent = spans.traceparent()
    return ((REQUEST_ID, request_id), (spans.TRACEPARENT, parent)) if parent else ((REQUEST_ID, request_id),)
