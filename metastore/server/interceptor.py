"""The one interceptor: every call passes here, and everything that holds for all calls is done here.

Objectives, which pull against each other: an unauthorized caller is refused before a byte of its request is parsed;
every failure reaches the caller as one of our errors, without internal details; every mutation and every refusal leaves
one log line; and all that is cheap, since there are thousands of commits a second.

Invariants:

1. A call that is refused never reaches a servicer.
2. A mutation that has begun is completed, whether or not its caller still waits: a broken connection, a passed deadline
   or a drain never leaves one half done, and never cancels a transaction while it commits.
3. A call that ends by the server's own limit is `Unavailable` when it was a read and `OutcomeUnknown` when it was not.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeAlias

import grpc
from google.protobuf.message import DecodeError, Message

from lakelog.client.connection.connection import MAX_MESSAGE_BYTES
from lakelog.client.connection.status import DETAILS_KEY, to_wire_status
from lakelog.clock import Ids
from lakelog.errors import (
    InternalError,
    InvalidArgument,
    LakelogError,
    OutcomeUnknown,
    PermissionDenied,
    ResourceExhausted,
    Unavailable,
)
from lakelog.serving.access import Access, Caller, Role

from .access import NEEDED_ROLES, check_allowed
from .audit import caller_name, describe_request, log
from .callers import admit
from .rpc_metrics import RpcMetrics

Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"

# A stream of commits or snapshots has no end; a plan of millions of files takes its time.
_UNLIMITED: Final = frozenset(
    {
        "/lakelog.rpc.v1.SnapshotService/CommitStream",
        "/lakelog.rpc.v1.SnapshotService/Watch",
        "/grpc.health.v1.Health/Watch",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    }
)
# Ended when the server drains; a stream of commits ends itself once all that it has read is answered.
_ENDED_BY_DRAIN: Final = _UNLIMITED - {"/lakelog.rpc.v1.SnapshotService/CommitStream"}
# Each service calls it every few seconds: it would flood the log of mutations.
_ROUTINE: Final = frozenset({"/lakelog.rpc.v1.PresenceService/ReportPresence"})
# Commits continue by themselves when their caller is gone, so they need no task of their own, which would cost 30 us.
_GOES_ON_BY_ITSELF: Final = frozenset({"/lakelog.rpc.v1.SnapshotService/Commit"})


@dataclass(frozen=True)
class CallLimits:
    """Bounds of calls.

    Args:
        call_s: Longest time for a call that is neither a plan nor an endless stream, whatever deadline the client set.
        plan_s: Longest time for a plan.
        max_calls: Calls and streams that may be open at once.
    """

    call_s: float = 60.0
    plan_s: float = 300.0
    max_calls: int = 2000


class CallInterceptor(grpc.aio.ServerInterceptor):
    """Access, errors, logs, metrics, limits.

    Args:
        access: How callers are authenticated.
        limits: Bounds of calls.
        metrics: Counts each call.
        ids: Generates ids of internal errors, by which a caller's report is found in the log.
        draining: Set when the server ends.
    """

    def __init__(
        self, access: Access, limits: CallLimits, metrics: RpcMetrics, ids: Ids, draining: asyncio.Event
    ) -> None:
        self._access = access
        self._limits = limits
        self._metrics = metrics
        self._ids = ids
        self._draining = draining
        self._open_calls = 0
        self._mutations: set[asyncio.Future[Any]] = set()

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        """Wraps the handler of one call. An unknown method passes through, to become UNIMPLEMENTED."""
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        call = _Call(self, handler_call_details.method, handler)
        refusal = self._refuse_early(handler_call_details)
        if refusal is not None:
            # As a stream handler it never reads what the client sends.
            return grpc.stream_stream_rpc_method_handler(call.refuse_with(refusal))
        kwargs = {
            "request_deserializer": _reader(handler),
            "response_serializer": handler.response_serializer,
        }
        if handler.unary_unary is not None:
            return grpc.unary_unary_rpc_method_handler(call.answer, **kwargs)
        if handler.unary_stream is not None:
            return grpc.unary_stream_rpc_method_handler(call.stream, **kwargs)
        return grpc.stream_stream_rpc_method_handler(call.stream, **kwargs)

    async def wait_for_mutations(self) -> None:
        """Waits until all mutations that have begun are completed."""
        while self._mutations:
            await asyncio.wait(self._mutations)

    def _refuse_early(self, details: grpc.HandlerCallDetails) -> LakelogError | None:
        if NEEDED_ROLES.get(details.method, Role.ADMIN) is None:
            return None
        if self._open_calls >= self._limits.max_calls:
            return Unavailable(
                f"The metastore has {self._open_calls} calls open, which is its limit. Try again after a moment.",
                reason="TOO_MANY_CALLS",
                metadata={"limit": str(self._limits.max_calls)},
            )
        authorization = _authorization(details.invocation_metadata)
        if self._access.open or authorization is not None:
            try:
                check_allowed(details.method, self._access.recognize(authorization, None))
            except PermissionDenied as error:
                return error
        return None


def _reader(handler: Handler) -> Callable[[bytes], Any]:
    """Reads requests; a malformed one becomes an error value, because we never see what a reader raises."""
    read: Any = handler.request_deserializer

    def read_or_refuse(data: bytes) -> Any:
        try:
            return read(data)
        except DecodeError as error:
            return InvalidArgument(f"The request's {len(data)} bytes are no message of this call: {error}.")

    return read_or_refuse


def _authorization(metadata: Any) -> str | None:
    for key, value in metadata or ():
        if key == "authorization":
            return value if isinstance(value, str) else ""
    return None


class _Call:
    """One call on its way through the interceptor."""

    def __init__(self, owner: CallInterceptor, method: str, handler: Handler) -> None:
        self._owner = owner
        self._method = method
        self._name = method.rpartition("/")[2]
        self._handler = handler
        self._needed = NEEDED_ROLES.get(method, Role.ADMIN)
        self._is_mutation = self._needed is not None and self._needed > Role.READER
        self._caller: Caller | None = None
        self._began_s = time.perf_counter()

    async def answer(self, request: Message, context: Context) -> Any:
        """Runs a call with one answer."""
        return await self._run(self._answer, request, context)

    async def stream(self, request: Any, context: Context) -> None:
        """Runs a call with many answers."""
        await self._run(self._send_all, request, context)

    async def _run(self, work: Callable[[Any, Context], Awaitable[Any]], request: Any, context: Context) -> Any:
        self._begin()
        failure: LakelogError | None = None
        outcome = "OK"
        try:
            self._admit(context)
            if isinstance(request, InvalidArgument):
                raise request
            return await work(request, context)
        except grpc.aio.AbortError:
            outcome = "ABORTED"
            raise
        except asyncio.CancelledError:
            outcome = "CANCELLED"
            raise
        except Exception as error:
            failure = self._as_our_own(error, request)
            outcome = failure.reason
        finally:
            self._end(outcome, failure, request, context)
        return await _abort(context, failure)

    def refuse_with(self, failure: LakelogError) -> Callable[[Any, Any], Awaitable[None]]:
        """A handler that reads nothing and refuses."""

        async def refuse(_requests: Any, context: Context) -> None:
            self._begin()
            self._end(failure.reason, failure, None, context)
            await _abort(context, failure)

        return refuse

    def _begin(self) -> None:
        self._owner._open_calls += 1
        self._owner._metrics.begin()

    def _admit(self, context: Context) -> None:
        if self._needed is None:
            return
        access = self._owner._access
        authorization = _authorization(context.invocation_metadata())
        common_name = None if access.open or authorization is not None else _common_name(context)
        self._caller = access.recognize(authorization, common_name)
        check_allowed(self._method, self._caller)
        caller_name.set(self._caller.name)
        admit(self._caller, identified=not access.open)

    async def _answer(self, request: Message, context: Context) -> Any:
        # The types know handlers of threaded servers only.
        behaviour: Any = self._handler.unary_unary
        response = await self._bounded(behaviour(request, context))
        _check_size(response)
        return response

    async def _bounded(self, running: Awaitable[Any]) -> Any:
        limit_s = self._owner._limits.call_s
        try:
            if not self._is_mutation or self._method in _GOES_ON_BY_ITSELF:
                async with asyncio.timeout(limit_s):
                    return await running
            task = asyncio.ensure_future(running)
            self._owner._mutations.add(task)
            task.add_done_callback(self._owner._mutations.discard)
            async with asyncio.timeout(limit_s):
                return await asyncio.shield(task)
        except TimeoutError as error:
            raise self._timed_out(limit_s) from error

    async def _send_all(self, request: Any, context: Context) -> None:
        behaviour: Any = self._handler.unary_stream or self._handler.stream_stream
        if self._method in _ENDED_BY_DRAIN:
            await self._until_drained(_send(behaviour, request, context))
        elif self._method in _UNLIMITED:
            await _send(behaviour, request, context)
        else:
            limit_s = self._owner._limits.plan_s
            try:
                async with asyncio.timeout(limit_s):
                    await _send(behaviour, request, context)
            except TimeoutError as error:
                raise self._timed_out(limit_s) from error

    async def _until_drained(self, sending: Awaitable[None]) -> None:
        task = asyncio.ensure_future(sending)
        drained = asyncio.ensure_future(self._owner._draining.wait())
        try:
            await asyncio.wait({task, drained}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise draining()
            await task
        finally:
            drained.cancel()
            task.cancel()
            await asyncio.gather(task, drained, return_exceptions=True)

    def _timed_out(self, limit_s: float) -> LakelogError:
        text = f"{self._name} did not end within the metastore's limit of {limit_s:g} s."
        if self._is_mutation:
            return OutcomeUnknown(f"{text} It goes on and may take effect: repeat the same request.")
        return Unavailable(f"{text} Nothing was changed; ask for less, or try again.")

    def _as_our_own(self, error: Exception, request: Any) -> LakelogError:
        if isinstance(error, LakelogError) and not isinstance(error, InternalError):
            return error
        error_id = self._owner._ids.new_id()
        what = describe_request(request) if isinstance(request, Message) else {}
        log.error("internal error", method=self._name, error_id=error_id, exc_info=error, **what)
        message = f"The metastore failed at {self._name} by a defect of its own; please report it with id {error_id}."
        metadata = {"error_id": error_id, "method": self._name}
        if self._is_mutation and not isinstance(error, InternalError):
            # An error of ours says that nothing happened; after any other error the outcome is unknown.
            return OutcomeUnknown(f"{message} Whether it took effect is unknown.", reason="INTERNAL", metadata=metadata)
        return InternalError(message, metadata=metadata)

    def _end(
        self,
        outcome: str,
        failure: LakelogError | None,
        request: Any,
        context: Context,
    ) -> None:
        seconds = time.perf_counter() - self._began_s
        self._owner._open_calls -= 1
        self._owner._metrics.end(self._name, outcome, seconds)
        fields: dict[str, Any] = {
            "method": self._name,
            "caller": self._caller_name(failure),
            "outcome": outcome,
            "duration_ms": round(seconds * 1000, 3),
        }
        if isinstance(failure, PermissionDenied):
            log.warning("refused", peer=context.peer(), message=failure.message, **fields)
        elif self._is_mutation:
            if isinstance(request, Message):
                fields |= describe_request(request)
            if failure is not None:
                fields["message"] = failure.message
            is_routine = failure is None and self._method in _ROUTINE
            (log.debug if is_routine else log.info)("mutation", **fields)
        else:
            log.debug("read", **fields)

    def _caller_name(self, failure: LakelogError | None) -> str | None:
        if self._caller is not None:
            return self._caller.name
        # Only the refusal knows a caller that was authenticated and refused before anything was read.
        return None if failure is None else failure.metadata.get("caller")


async def _send(behaviour: Any, request: Any, context: Context) -> None:
    responses = behaviour(request, context)
    if isinstance(responses, AsyncIterator):
        async with aclosing(responses) as stream:  # type: ignore[type-var]
            async for response in stream:
                await context.write(response)
    else:
        await responses


async def _abort(context: Context, failure: LakelogError) -> NoReturn:
    status = to_wire_status(failure)
    context.set_trailing_metadata(((DETAILS_KEY, status.details),))
    await context.abort(status.code, status.message)


def _common_name(context: Context) -> str | None:
    names = context.auth_context().get("x509_common_name") or ()
    return next((bytes(name).decode("utf-8", "replace") for name in names), None)


def _check_size(response: Message) -> None:
    size = response.ByteSize()
    if size > MAX_MESSAGE_BYTES:
        raise ResourceExhausted(
            f"The answer would have {size} bytes, and {MAX_MESSAGE_BYTES} is the limit. Ask for less at once.",
            metadata={"limit": str(MAX_MESSAGE_BYTES)},
        )


def draining() -> Unavailable:
    """The error for callers while the server ends."""
    return Unavailable("The metastore is shutting down. Try again: another one, or this one, comes up.")
