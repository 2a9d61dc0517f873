"""Commits in flight on one stream.

A reader takes commits from the client and starts each as a task at once. Tasks take their place at the commit gate when
they first run, and asyncio first runs tasks in the order of their creation, so commits to the same tables take effect
in the order sent. The writer also answers in that order, whichever is done first. At most `max_in_flight` commits are
between the two, and as many of a caller under way in all its streams; then the reader waits, and through HTTP/2's flow
control so does the client. The reader also waits while a large commit is parsed and translated beside the event loop,
so that no later one overtakes it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import grpc
from google.protobuf.message import Message

from lakelog.client.connection.status import to_proto_status
from lakelog.errors import InternalError, LakelogError, OutcomeUnknown, PermissionDenied, forget_frames
from lakelog.format.commit.request import CommitRequest
from lakelog.rpc.commit import from_proto_commit_request, to_proto_commit_result
from lakelog.rpc.messages import refusal
from lakelog.rpc.v1 import snapshots_pb2
from lakelog.serving.edge.known_callers import caller_lost
from lakelog.serving.edge.origin import origin
from lakelog.serving.edge.refusal_lines import RefusalLines
from lakelog.serving.edge.turns import Turns
from lakelog.tracing.request_ids import current

from ...commits.gate import CommitGate
from ...ownership import Principal
from ..audit import caller_name, describe_request, describe_result, log
from ..callers import CheckMessage, ShowError
from ..edge.requests import Received, Requests
from ..edge.running import draining
from ..edge.sliced_requests import SlicedRequest

Context = grpc.aio.ServicerContext[Any, Any]
Answer = asyncio.Task[snapshots_pb2.CommitStreamResponse]


class CommitStream:
    """One stream of commits.

    Args:
        gate: Where to commit.
        requests: Reads and translates large commits.
        by: The caller.
        check: Refuses commits that the caller has no right to.
        max_in_flight: How many are read ahead of the answers.
        turns: Those of a caller's commits, in all its streams: thousands at once would delay every other call.
        draining: Set when the server ends: nothing further is read then, what was read is answered.
        lost: Set when the caller is recognized no more, with the same effect.
        new_id: Generates ids of internal errors.
        refusals: Decides which refused commits have a log line.
    """

    def __init__(
        self,
        gate: CommitGate,
        requests: Requests,
        by: Principal,
        check: CheckMessage,
        max_in_flight: int,
        turns: Turns,
        draining: asyncio.Event,
        lost: asyncio.Event,
        new_id: Callable[[], str],
        refusals: RefusalLines,
    ) -> None:
        self._gate = gate
        self._requests = requests
        self._by = by
        self._check = check
        self._turns = turns
        self._origin = origin.get()
        self._draining = draining
        self._lost = lost
        self._new_id = new_id
        self._refusals = refusals
        self._is_receiving = False
        # None: no more come.
        self._answers: asyncio.Queue[Answer | None] = asyncio.Queue(max_in_flight)

    async def run(self, context: Context) -> None:
        """Serves the stream until the client ends it.

        Raises:
            Unavailable: The server ends, or the caller is recognized no more; all commits that were read are answered.
        """
        reading = asyncio.create_task(self._read(context), name="commit stream reader")
        ends = [
            asyncio.create_task(self._end_when(event, reading), name="commit stream end")
            for event in (self._draining, self._lost)
        ]
        try:
            while (answer := await self._answers.get()) is not None:
                await context.write(await asyncio.shield(answer))
            await asyncio.gather(reading, return_exceptions=True)
        finally:
            # The commits themselves continue: only the receiver of the answers is gone.
            for each in (*ends, reading):
                each.cancel()
            await asyncio.gather(*ends, reading, return_exceptions=True)
        if self._draining.is_set():
            raise draining()
        if self._lost.is_set():
            raise caller_lost()
        reading.result()

    async def _end_when(self, event: asyncio.Event, reading: asyncio.Task[None]) -> None:
        await event.wait()
        # What has arrived is still committed: its answer tells the client that, and spares it a repetition.
        if self._is_receiving:
            reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await self._answers.put(None)

    @property
    def _is_ending(self) -> bool:
        return self._draining.is_set() or self._lost.is_set()

    async def _read(self, context: Context) -> None:
        try:
            while not self._is_ending and (arrived := await self._receive(context)) is not grpc.aio.EOF:
                # If these bytes are no message, or too many, nothing after them can be trusted.
                received = await self._requests.finish(arrived)
                # The bytes of a large commit are not needed any more.
                arrived = None
                commit, show_error = await self._translate(received)
                await self._take_turn(received)
                answer = asyncio.create_task(self._commit(received, commit, show_error), name="commit")
                await self._answers.put(answer)
        except Exception:
            # What was read is still answered.
            await self._answers.put(None)
            raise
        await self._answers.put(None)

    async def _receive(self, context: Context) -> Any:
        self._is_receiving = True
        try:
            return await context.read()
        finally:
            self._is_receiving = False

    async def _take_turn(self, received: Received) -> None:
        try:
            await self._turns.take(self._origin)
        except BaseException:
            received.release()
            raise

    async def _translate(self, received: Received) -> tuple[CommitRequest | Exception, ShowError | None]:
        """The commit of a message, or the reason why it has none: the answer to this message; the stream goes on.

        And what the caller may see of an error of the commit.

        SUBTLE: the reader checks the right to each commit, so that no later one overtakes it meanwhile.
        """
        try:
            show_error = await self._check(received.message)
            return await self._read_commit(received.message), show_error
        except Exception as error:
            return error, None
        except BaseException:
            received.release()
            raise

    async def _read_commit(self, message: Any) -> CommitRequest:
        if isinstance(message, SlicedRequest):
            return await self._requests.translate(message, from_proto_commit_request)
        if not message.HasField("commit"):
            raise refusal("commit", "is not given", "Send a commit in each message of the stream")
        return await self._requests.translate(message, lambda each: from_proto_commit_request(each.commit))

    async def _commit(
        self, received: Received, commit: CommitRequest | Exception, show_error: ShowError | None
    ) -> snapshots_pb2.CommitStreamResponse:
        began_s = time.perf_counter()
        outcome, is_refused = "OK", False
        said: dict[str, Any] = {}
        try:
            if isinstance(commit, Exception):
                raise commit
            result = await self._gate.commit(commit, by=self._by)
            said = describe_result(result)
            return snapshots_pb2.CommitStreamResponse(committed=to_proto_commit_result(result))
        except Exception as error:
            failure = self._as_our_own(error if show_error is None else await show_error(error))
            outcome = failure.reason
            is_refused = isinstance(failure, PermissionDenied)
            if is_refused:
                said = {"message": failure.message}
            # The traceback holds the request.
            forget_frames(error)
            return snapshots_pb2.CommitStreamResponse(failed=to_proto_status(failure))
        finally:
            self._turns.give_back(self._origin)
            received.release()
            caller = caller_name.get()
            if not is_refused or self._refusals.admit(outcome, caller or self._origin):
                (log.warning if is_refused else log.info)(
                    "refused" if is_refused else "mutation",
                    method="CommitStream",
                    caller=caller,
                    outcome=outcome,
                    duration_ms=round((time.perf_counter() - began_s) * 1000, 3),
                    request_id=current.get() or self._new_id(),
                    **said,
                    **describe_request(_commit_of(received.message)),
                )

    def _as_our_own(self, error: Exception) -> LakelogError:
        if isinstance(error, LakelogError) and not isinstance(error, InternalError):
            return error
        error_id = self._new_id()
        log.error("internal error", method="CommitStream", error_id=error_id, exc_info=error)
        message = f"The metastore failed at a commit by a defect of its own; please report it with id {error_id}."
        if isinstance(error, InternalError):
            return InternalError(message, metadata={"error_id": error_id})
        return OutcomeUnknown(message, reason="INTERNAL", metadata={"error_id": error_id})


def _commit_of(message: Any) -> Message | SlicedRequest[CommitRequest]:
    """The commit of a message of the stream, of the type that only `Requests` knows."""
    commit: Message | SlicedRequest[CommitRequest] = message if isinstance(message, SlicedRequest) else message.commit
    return commit
