"""The one interceptor: every call passes here, and everything that holds for all calls is done here.

Objectives, which conflict: a caller without the role, or with too many open calls, is refused before a byte of its
request is received; every failure reaches the caller as one of our errors, without internal details; every mutation
leaves one log line, and a refusal too unless there are too many; and all of this is cheap, because there are thousands
of commits a second.

Invariants:

1. A call that is refused never reaches a servicer. A call of a caller whose role does not suffice reaches it only after
   the check of its grants; a servicer that takes a stream gets the check of each message with it.
2. What `edge/admission.py` and `edge/running.py` promise holds for every call.

SUBTLE: gRPC receives the one request of a call before it calls the handler: up to 64 MiB for each of any number of
    calls, from unknown peers, and for as long as the peer takes. A handler for streams begins with the headers and
    receives on demand, but it answers in two steps, which costs 80 us. So gRPC receives the first few requests of a
    caller that have not arrived yet. These are nearly all, because a request arrives right after its headers. Any
    further one has a handler for streams.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

import grpc
from google.protobuf.message import Message

from lakelog.client.connection.connection import MAX_MESSAGE_BYTES
from lakelog.client.connection.status import TOO_MANY_CALLS
from lakelog.clock import Ids
from lakelog.errors import (
    AlreadyExists,
    InternalError,
    InvalidArgument,
    LakelogError,
    NotFound,
    OutcomeUnknown,
    PermissionDenied,
    ResourceExhausted,
    Unavailable,
    forget_frames,
)
from lakelog.serving.access import Access, Caller
from lakelog.serving.edge.failures import fail
from lakelog.serving.edge.known_callers import CALLER_LOST
from lakelog.serving.edge.refusal_lines import RefusalLines, to_address
from lakelog.serving.edge.request_ids import find_request_id, find_traceparent
from lakelog.tracing import spans
from lakelog.tracing.request_ids import current

from .audit import begin_line, describe_request, is_counting, log
from .callers import ShowError, caller_lost, note_check, note_readable, note_recheck
from .edge.admission import (
    HUGE_PLAN_BYTES,
    PLAN,
    Admission,
    Admitted,
    Known,
    is_open_to_everyone,
    key_of_turns,
    needs_turn,
)
from .edge.arrivals import Arrival
from .edge.call_limits import CallLimits
from .edge.requests import Received, Requests, note_received
from .edge.running import Running, is_mutation
from .privileges.authorization import Authorization, Authorizer
from .rpc_metrics import RpcMetrics

Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"

# Services and readers call them every few seconds to keep what they have: they would flood the log of mutations.
_ROUTINE: Final = frozenset(
    f"/lakelog.rpc.v1.{name}"
    for name in (
        "ConsumerService/RenewConsumer",
        "JobService/HeartbeatJob",
        "JobService/RenewLease",
        "PresenceService/ReportPresence",
        "PublishService/RenewAttempts",
    )
)


class CallInterceptor(grpc.aio.ServerInterceptor):
    """Access, errors, logs, metrics, limits.

    Args:
        access: How callers are authenticated.
        limits: Bounds of calls.
        authorizer: Judges calls of callers whose role does not suffice, by their grants.
        requests: Reads the requests.
        metrics: Counts each call.
        ids: Generates ids of internal errors, by which a caller's report is found in the log.
        refusals: Decides which refused calls have a log line.
        draining: Set when the server ends.
    """

    def __init__(
        self,
        access: Access,
        limits: CallLimits,
        authorizer: Authorizer,
        requests: Requests,
        metrics: RpcMetrics,
        ids: Ids,
        refusals: RefusalLines,
        draining: asyncio.Event,
    ) -> None:
        self.admission: Final = Admission(access, limits, authorizer.is_writer)
        self.running: Final = Running(limits, draining)
        self._authorizer = authorizer
        self._requests = requests
        self._metrics = metrics
        self._ids = ids
        self.refusals: Final = refusals

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


class _Call:
    """One call on its way through the interceptor."""

    def __init__(self, owner: CallInterceptor, method: str, handler: Handler) -> None:
        self._owner = owner
        self._method = method
        self._name = method.rpartition("/")[2]
        self._handler = handler
        self._is_mutation = is_mutation(method)
        self._known: Known | None = None
        self._admitted: Admitted | None = None
        self._request_id = ""
        self._made: dict[str, Any] = {}
        self._authorization: Authorization | None = None
        self._began_s = time.perf_counter()
        self._received: Received | None = None
        self._running: asyncio.Future[Any] | None = None
        self._arrival: Arrival | None = None
        self._has_turn = False
        self._has_huge_turn = False

    def leave_to_grpc(self, details: grpc.HandlerCallDetails) -> bool:
        """Whether gRPC may receive the request by itself: few requests of this caller are on their way."""
        self._arrival, self._known = self._owner.admission.expect(self._method, details)
        return self._arrival is not None

    def _arrived(self) -> None:
        if self._arrival is not None:
            self._arrival.end()

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
        headers = context.invocation_metadata()
        self._request_id = find_request_id(headers)
        current.set(self._request_id)
        if self._is_mutation:
            self._made = begin_line()
        try:
            self._admitted = self._owner.admission.admit(self._method, self._known, context)
            self._known = self._admitted.known
            self._authorization = self._owner._authorizer.authorization_of(self._method, self._caller)
            if not spans.is_on():
                return await work(arriving, context)
            with spans.span(self._name, kind="server", parent=find_traceparent(headers)):
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
            # A caller that was refused can name the line of the log.
            self._request_id = self._request_id or self._owner._ids.new_id()
            # The traceback holds the request.
            forget_frames(error)
        finally:
            self._end(outcome, failure, context)
        fail(context, failure, self._request_id)
        return None

    async def _answer_received(self, data: bytes, context: Context) -> Any:
        self._received = await self._read(data)
        self._know_again(context)
        # From now on the call only has its place.
        self._arrived()
        return await self._answer(self._received.message, context)

    def _know_again(self, context: Context) -> None:
        """Recognizes the caller as it is now: it may have waited for its turn, or sent its request for a minute."""
        if self._known is None:
            return
        before, self._known = self._known, self._owner.admission.know_again(self._method, self._known, context)
        if self._known is not before:
            self._authorization = self._owner._authorizer.authorization_of(self._method, self._caller)

    async def _read(self, data: bytes) -> Received:
        """Reads a request, when it is the caller's turn.

        Only some of a caller's calls are processed at once. Else a connection that sends too many would fill the event
        loop, and each call of other callers would wait for all of them. Calls that are given up meanwhile cost nothing.
        """
        requests, admission = self._owner._requests, self._owner.admission
        requests.bounds[self._method].check_size(data)
        if needs_turn(self._method):
            limits = admission.limits
            try:
                async with asyncio.timeout(limits.call_s):
                    await admission.working.take(self._turns)
            except TimeoutError as error:
                raise Unavailable(
                    f"{self._name} waited {limits.call_s:g} s for earlier calls of {self._origin}, of which "
                    f"{limits.working} are processed at once. Nothing was done; try again.",
                    reason=TOO_MANY_CALLS,
                ) from error
            self._has_turn = True
        if self._method == PLAN and len(data) > HUGE_PLAN_BYTES:
            await admission.huge_plans.take(self._origin)
            self._has_huge_turn = True
        # The types know handlers of threaded servers only.
        parse: Any = self._handler.request_deserializer
        return await requests.read(self._method, data, parse)

    async def _receive_and_answer(self, _: Any, context: Context) -> None:
        if self._authorization is not None:
            await self._authorization.check_any()
        self._received = await self._receive(context)
        self._know_again(context)
        note_received(self._received)
        if self._handler.unary_unary is None:
            await self._send_all(self._received.message, context)
        else:
            response = await self._answer(self._received.message, context)
            # A client that does not read the answer keeps no room that others wait for.
            self._received.release()
            await context.write(response)

    @property
    def _caller(self) -> Caller | None:
        return None if self._known is None else self._known.caller

    @property
    def _origin(self) -> str:
        return "" if self._admitted is None else self._admitted.origin

    @property
    def _turns(self) -> str:
        return key_of_turns(self._method, self._origin, sends_many=self._handler.unary_stream is not None)

    async def _receive(self, context: Context) -> Received:
        """The one request of a call. Only some of a caller are received at once, because each can have 64 MiB."""
        admission = self._owner.admission
        limits = admission.limits
        is_large = self._owner._requests.bounds[self._method].is_large
        limit_s = limits.call_s if is_large else limits.receive_s
        receiving = admission.receiving_probes if is_open_to_everyone(self._method) else admission.receiving
        try:
            async with asyncio.timeout(limits.call_s):
                # A caller's small calls do not wait for its large ones. Calls that need no turn to be processed do not
                # wait for calls that do.
                async with receiving.turn(f"{self._turns} {is_large} {needs_turn(self._method)}"):
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
        authorization = self._authorization
        note_recheck(_allow_still if authorization is None else authorization.check_still)
        if authorization is None:
            note_readable(None)
            response = await self._answer_allowed(request, context)
        else:
            await authorization.check(request)
            note_readable(authorization.readable)
            if authorization.sees_nothing:
                # Anyone who is known may ask for lists: without a grant that costs no query of all that there is.
                return authorization.answer_nothing()
            try:
                response = await self._answer_allowed(request, context)
            except (NotFound, AlreadyExists) as error:
                raise await authorization.show_error(error) from None
            response = await authorization.show(response)
        _check_size(response)
        return response

    async def _answer_allowed(self, request: Message, context: Context) -> Any:
        # The types know handlers of threaded servers only.
        behaviour: Any = self._handler.unary_unary
        is_large = self._received is not None and self._received.is_large
        answering, self._running = self._owner.running.start(
            self._method, behaviour(request, context), is_large=is_large
        )
        return await answering

    async def _send_all(self, request: Any, context: Context) -> None:
        behaviour: Any = self._handler.unary_stream or self._handler.stream_stream
        authorization = self._authorization
        if self._handler.stream_stream is not None:
            # Its servicer checks each message: only it reads them.
            if authorization is not None:
                await authorization.check_any()
            note_check(_allow if authorization is None else authorization.check_message)
        elif authorization is not None:
            await authorization.check(request)
        responses = behaviour(request, context)
        if authorization is not None and self._handler.unary_stream is not None:
            responses = authorization.send(responses)
        # The servicer lets go of the request when it needs it no more, and so must each frame here.
        del request
        with self._owner.admission.keep(self._caller, context) as lost:
            caller_lost.set(lost)
            await self._owner.running.send_all(self._method, responses, context, lost)

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
        self._log(outcome, seconds, failure, context)
        if self._running is None or self._running.done():
            self._leave()
        else:
            # Its caller is gone, but the mutation goes on.
            self._running.add_done_callback(lambda _: self._leave())

    def _log(self, outcome: str, seconds: float, failure: LakelogError | None, context: Context) -> None:
        fields: dict[str, Any] = {
            "method": self._name,
            "caller": self._caller_name(failure),
            "outcome": outcome,
            "duration_ms": round(seconds * 1000, 3),
        }
        if self._is_refusal(failure) and not self._owner.refusals.admit(
            outcome, fields["caller"] or to_address(context.peer())
        ):
            return
        if self._is_mutation or failure is not None:
            fields["request_id"] = self._request_id or self._owner._ids.new_id()
        if failure is not None and failure.reason == CALLER_LOST:
            log.warning("stream ended", peer=context.peer(), message=failure.message, **fields)
        elif isinstance(failure, PermissionDenied):
            log.warning("refused", peer=context.peer(), message=failure.message, **fields)
        elif self._is_mutation:
            if self._request is not None:
                fields |= describe_request(self._request)
            fields |= self._made
            if failure is not None:
                fields["message"] = failure.message
            is_routine = failure is None and (self._method in _ROUTINE or is_counting(self._request))
            (log.debug if is_routine else log.info)("mutation", **fields)
        else:
            log.debug("read", **fields)

    def _is_refusal(self, failure: LakelogError | None) -> bool:
        """Whether a call had no effect because of its caller. A read without a place has no line in any case."""
        if failure is not None and failure.reason == CALLER_LOST:
            return True
        if failure is not None and failure.reason == TOO_MANY_CALLS:
            return self._is_mutation
        return isinstance(failure, PermissionDenied)

    def _leave(self) -> None:
        self._arrived()
        if self._has_turn:
            self._has_turn = False
            self._owner.admission.working.give_back(self._turns)
        if self._has_huge_turn:
            self._has_huge_turn = False
            self._owner.admission.huge_plans.give_back(self._origin)
        if self._received is not None:
            self._received.release()
        admitted, self._admitted = self._admitted, None
        if admitted is not None:
            admitted.give_back()

    def _caller_name(self, failure: LakelogError | None) -> str | None:
        if self._caller is not None:
            return self._caller.name
        # Only the refusal knows a caller that was authenticated and refused before anything was read.
        return None if failure is None else failure.metadata.get("caller")


async def _allow(_message: Any) -> ShowError:
    """The check of messages of callers whose role suffices."""
    return _show_whole


async def _show_whole(error: Exception) -> Exception:
    return error


async def _allow_still() -> None:
    """The check of waiting calls of callers whose role suffices."""


def _check_size(response: Message) -> None:
    size = response.ByteSize()
    if size > MAX_MESSAGE_BYTES:
        raise ResourceExhausted(
            f"The answer would have {size} bytes, and {MAX_MESSAGE_BYTES} is the limit. Ask for less at once.",
            metadata={"limit": str(MAX_MESSAGE_BYTES)},
        )
