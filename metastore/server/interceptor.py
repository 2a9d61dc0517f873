"""The one interceptor: every call passes here, and everything that holds for all calls is done here.

Objectives, which conflict: a caller without the role, or with too many open calls, is refused before a byte of its
request is received; every failure reaches the caller as one of our errors, without internal details; every mutation
and every refusal leaves one log line; and all of this is cheap, because there are thousands of commits a second.

Invariants:

1. A call that is refused never reaches a servicer.
2. A mutation that has begun is completed, whether or not its caller still waits: a broken connection, a passed deadline
   or a drain never leaves one half done, and never cancels a transaction while it commits.
3. A call that ends by the server's own limit is `Unavailable` when it was a read and `OutcomeUnknown` when it was not.
4. A call counts among the open ones from its headers to its end; only the few whose request gRPC receives count from
   the request on. A mutation counts until it is completed.

SUBTLE: gRPC receives the one request of a call before it calls the handler: up to 64 MiB for each of any number of
    calls, from unknown peers, and for as long as the peer takes. A handler for streams begins with the headers and
    receives on demand, but it answers in two steps, which costs 80 us. So gRPC receives the first few requests of a
    caller that have not arrived yet. These are nearly all, because a request arrives right after its headers. Any
    further one has a handler for streams.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, Final, TypeAlias

import grpc
from google.protobuf.message import Message

from lakelog.client.connection.connection import MAX_MESSAGE_BYTES
from lakelog.client.connection.status import DETAILS_KEY, TOO_MANY_CALLS, to_wire_status
from lakelog.clock import Ids
from lakelog.errors import (
    InternalError,
    InvalidArgument,
    LakelogError,
    OutcomeUnknown,
    PermissionDenied,
    ResourceExhausted,
    Unavailable,
    forget_frames,
)
from lakelog.serving.access import Access, Caller, Role
from lakelog.serving.edge.origin import origin
from lakelog.serving.edge.shares import Shares
from lakelog.serving.edge.turns import Turns

from .access import NEEDED_ROLES, check_allowed
from .audit import caller_name, describe_request, log
from .callers import admit
from .edge.call_limits import COMMITTING, LONG, CallLimits
from .edge.requests import Received, Requests
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
# They have an order of their own: at the gate, commits to a table wait for each other and share transactions.
_WITHOUT_TURNS: Final = LONG | {
    "/lakelog.rpc.v1.SnapshotService/Commit",
    "/lakelog.rpc.v1.SnapshotService/StageAttempt",
    "/grpc.health.v1.Health/Watch",
}
# A caller that does not renew in time loses what it holds, so these do not wait behind other calls of the caller.
_RENEWING: Final = frozenset(
    {
        "/lakelog.rpc.v1.JobService/RenewLease",
        "/lakelog.rpc.v1.JobService/HeartbeatJob",
        "/lakelog.rpc.v1.ConsumerService/RenewConsumer",
        "/lakelog.rpc.v1.PublishService/RenewAttempts",
        "/lakelog.rpc.v1.RetentionService/LeaseSnapshot",
    }
)
# Ended when the server drains; a stream of commits ends itself once all that it has read is answered.
_ENDED_BY_DRAIN: Final = _UNLIMITED - {"/lakelog.rpc.v1.SnapshotService/CommitStream"}
# Each service calls it every few seconds: it would flood the log of mutations.
_ROUTINE: Final = frozenset(
    {"/lakelog.rpc.v1.PresenceService/ReportPresence", "/lakelog.rpc.v1.PublishService/RenewAttempts"}
)
# Commits continue by themselves when their caller is gone, so they need no task of their own, which would cost 30 us.
_GOES_ON_BY_ITSELF: Final = frozenset({"/lakelog.rpc.v1.SnapshotService/Commit"})


class CallInterceptor(grpc.aio.ServerInterceptor):
    """Access, errors, logs, metrics, limits.

    Args:
        access: How callers are authenticated.
        limits: Bounds of calls.
        requests: Reads the requests.
        metrics: Counts each call.
        ids: Generates ids of internal errors, by which a caller's report is found in the log.
        draining: Set when the server ends.
    """

    def __init__(
        self,
        access: Access,
        limits: CallLimits,
        requests: Requests,
        metrics: RpcMetrics,
        ids: Ids,
        draining: asyncio.Event,
    ) -> None:
        self._access = access
        self._limits = limits
        self._requests = requests
        self._metrics = metrics
        self._ids = ids
        self._draining = draining
        self._calls = Shares(limits.of_calls())
        self._streams = Shares(limits.of_streams())
        self._probes = Shares(limits.of_probes())
        self._rates = limits.new_rates()
        self._receiving = Turns(limits.receiving)
        self._working = Turns(limits.working)
        # Requests that gRPC receives by itself, by caller; None: callers that their headers do not identify.
        self._arriving: Counter[str | None] = Counter()
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
        method = handler_call_details.method
        call = _Call(self, method, handler)
        if handler.unary_unary is not None and call.leave_to_grpc(handler_call_details):
            return grpc.unary_unary_rpc_method_handler(
                call.answer, request_deserializer=None, response_serializer=handler.response_serializer
            )
        read: Any = None
        if handler.stream_stream is not None:
            parse: Any = handler.request_deserializer
            read = self._requests.reader_of_stream(method, parse)
        return grpc.stream_stream_rpc_method_handler(
            call.serve, request_deserializer=read, response_serializer=handler.response_serializer
        )

    async def wait_for_mutations(self) -> None:
        """Waits until all mutations that have begun are completed."""
        while self._mutations:
            await asyncio.wait(self._mutations)


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
        self._received: Received | None = None
        self._running: asyncio.Future[Any] | None = None
        self._give_back: Callable[[], None] | None = None
        self._is_arriving = False
        self._arriving_of: str | None = None
        self._origin = ""
        self._has_turn = False

    def leave_to_grpc(self, details: grpc.HandlerCallDetails) -> bool:
        """Whether gRPC may receive the request by itself: few requests of this caller are on their way.

        SUBTLE: gRPC does not report the end of a call whose request never comes. It only forgets the handler that it
            got, and with it this object: see `__del__`.
        """
        access = self._owner._access
        authorization = None if self._needed is None or access.open else _authorization(details.invocation_metadata)
        if authorization is not None:
            try:
                caller = access.recognize(authorization, None)
                check_allowed(self._method, caller)
            except PermissionDenied:
                # The handler for streams refuses before anything is received.
                return False
            # This is set only after the check: a caller that is known here is not checked again.
            self._caller = caller
            self._arriving_of = caller.name
        arriving = self._owner._arriving
        if arriving[self._arriving_of] >= self._owner._limits.receiving:
            return False
        arriving[self._arriving_of] += 1
        self._is_arriving = True
        return True

    def _arrived(self) -> None:
        if self._is_arriving:
            self._is_arriving = False
            arriving = self._owner._arriving
            arriving[self._arriving_of] -= 1
            if not arriving[self._arriving_of]:
                del arriving[self._arriving_of]

    def __del__(self) -> None:
        """Its request will never arrive."""
        self._arrived()

    async def answer(self, data: bytes, context: Context) -> Any:
        """Runs a call whose request gRPC has received."""
        return await self._run(self._answer_received, data, context)

    async def serve(self, arriving: Any, context: Context) -> None:
        """Runs a call from its headers on.

        Args:
            arriving: The client's messages, for methods that take a stream.
            context: gRPC's handle of the call.
        """
        work = self._receive_and_answer if self._handler.stream_stream is None else self._send_all
        await self._run(work, arriving, context)

    async def _run(self, work: Callable[[Any, Context], Awaitable[Any]], arriving: Any, context: Context) -> Any:
        self._owner._metrics.begin()
        failure: LakelogError | None = None
        outcome = "OK"
        try:
            self._admit(context)
            return await work(arriving, context)
        except grpc.aio.AbortError:
            outcome = "ABORTED"
            raise
        except asyncio.CancelledError:
            outcome = "CANCELLED"
            raise
        except Exception as error:
            failure = self._as_our_own(error)
            outcome = failure.reason
            # The traceback holds the request.
            forget_frames(error)
        finally:
            self._end(outcome, failure, context)
        _fail(context, failure)
        return None

    async def _answer_received(self, data: bytes, context: Context) -> Any:
        self._received = await self._read(data)
        # From now on the call only has its place.
        self._arrived()
        return await self._answer(self._received.message, context)

    async def _read(self, data: bytes) -> Received:
        """Reads a request, when it is the caller's turn.

        Only some of a caller's calls are processed at once. Else a connection that sends too many would fill the event
        loop, and each call of other callers would wait for all of them. Calls that are given up meanwhile cost nothing.
        """
        owner = self._owner
        owner._requests.bounds[self._method].check_size(data)
        if self._method not in _WITHOUT_TURNS:
            try:
                async with asyncio.timeout(owner._limits.call_s):
                    await owner._working.take(self._turns)
            except TimeoutError as error:
                raise Unavailable(
                    f"{self._name} waited {owner._limits.call_s:g} s for earlier calls of {self._origin}, of which "
                    f"{owner._limits.working} are processed at once. Nothing was done; try again.",
                    reason=TOO_MANY_CALLS,
                ) from error
            self._has_turn = True
        return await owner._requests.read(self._method, data, self._parse)

    async def _receive_and_answer(self, _: Any, context: Context) -> None:
        self._received = await self._receive(context)
        if self._handler.unary_unary is None:
            await self._send_all(self._received.message, context)
        else:
            response = await self._answer(self._received.message, context)
            # Whoever does not read the answer keeps no room that others wait for.
            self._received.release()
            await context.write(response)

    @property
    def _turns(self) -> str:
        """The key of its turns: plans have turns of their own, because they are sent for as long as a caller reads."""
        if self._method in _RENEWING:
            return f"{self._origin} renewals"
        return self._origin if self._handler.unary_stream is None else f"{self._origin} plans"

    @property
    def _parse(self) -> Any:
        return self._handler.request_deserializer

    def _admit(self, context: Context) -> None:
        owner, connection = self._owner, context.peer()
        if self._needed is None:
            self._origin = connection
            self._give_back = owner._probes.take(None, connection)
            return
        access = owner._access
        if self._caller is None:
            authorization = _authorization(context.invocation_metadata())
            common_name = None if access.open or authorization is not None else _common_name(context)
            self._caller = access.recognize(authorization, common_name)
            check_allowed(self._method, self._caller)
        caller_name.set(self._caller.name)
        admit(self._caller, identified=not access.open)
        # If the server does not identify callers, only the connection is known.
        name = None if access.open else self._caller.name
        self._origin = name or connection
        origin.set(self._origin)
        shares = owner._streams if self._method in LONG else owner._calls
        is_commit = self._method in COMMITTING and self._caller.role >= Role.WRITER
        owner._rates.take(self._origin, is_commit=is_commit)
        self._give_back = shares.take(name, connection, is_commit=is_commit)

    async def _receive(self, context: Context) -> Received:
        """The one request of a call. Only some of a caller are received at once, because each can have 64 MiB."""
        owner = self._owner
        is_large = owner._requests.bounds[self._method].is_large
        limit_s = owner._limits.call_s if is_large else owner._limits.receive_s
        try:
            async with asyncio.timeout(owner._limits.call_s):
                # A caller's small calls do not wait for its large ones. Calls that need no turn to be processed do not
                # wait for calls that do.
                needs_turn = self._method not in _WITHOUT_TURNS
                async with owner._receiving.turn(f"{self._turns} {is_large} {needs_turn}"):
                    async with asyncio.timeout(limit_s):
                        data = await context.read()
                    if data is grpc.aio.EOF:
                        raise InvalidArgument(f"The call of {self._name} ended without a request. Send one.")
                    return await self._read(data)
        except TimeoutError as error:
            raise Unavailable(
                f"The request of {self._name} did not arrive in time: within {limit_s:g} s, and it waited for earlier "
                f"ones of {self._origin}. Nothing was done; try again."
            ) from error

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
            task = self._running = asyncio.ensure_future(running)
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

    @property
    def _request(self) -> Message | None:
        return None if self._received is None else self._received.message

    def _as_our_own(self, error: Exception) -> LakelogError:
        if isinstance(error, LakelogError) and not isinstance(error, InternalError):
            return error
        error_id = self._owner._ids.new_id()
        what = {} if self._request is None else describe_request(self._request)
        log.error("internal error", method=self._name, error_id=error_id, exc_info=error, **what)
        message = f"The metastore failed at {self._name} by a defect of its own; please report it with id {error_id}."
        metadata = {"error_id": error_id, "method": self._name}
        if self._is_mutation and not isinstance(error, InternalError):
            # An error of ours says that nothing happened; after any other error the outcome is unknown.
            return OutcomeUnknown(f"{message} Whether it took effect is unknown.", reason="INTERNAL", metadata=metadata)
        return InternalError(message, metadata=metadata)

    def _end(self, outcome: str, failure: LakelogError | None, context: Context) -> None:
        seconds = time.perf_counter() - self._began_s
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
            if self._request is not None:
                fields |= describe_request(self._request)
            if failure is not None:
                fields["message"] = failure.message
            is_routine = failure is None and self._method in _ROUTINE
            (log.debug if is_routine else log.info)("mutation", **fields)
        else:
            log.debug("read", **fields)
        if self._running is None or self._running.done():
            self._leave()
        else:
            # Its caller is gone, but the mutation goes on.
            self._running.add_done_callback(lambda _: self._leave())

    def _leave(self) -> None:
        self._arrived()
        if self._has_turn:
            self._has_turn = False
            self._owner._working.give_back(self._turns)
        if self._received is not None:
            self._received.release()
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            give_back()

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


def _fail(context: Context, failure: LakelogError) -> None:
    """Makes a failure the outcome of a call.

    SUBTLE: it does not use `context.abort`, which raises an error that gRPC keeps with the call. The error's traceback
        holds the call, so each refused request would stay in memory until the garbage collector runs.
    """
    status = to_wire_status(failure)
    context.set_trailing_metadata(((DETAILS_KEY, status.details),))
    context.set_code(status.code)
    context.set_details(status.message)


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
