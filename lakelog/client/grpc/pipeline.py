"""Commits in flight on one gRPC stream."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass

import grpc

from lakelog.client.connection.calls import to_headers
from lakelog.client.connection.connection import Connection
from lakelog.client.connection.status import CallKind, from_proto_status, from_rpc_error
from lakelog.clock import Clock
from lakelog.errors import InternalError, InvalidArgument, LakelogError, OutcomeUnknown, PermissionDenied, Unavailable
from lakelog.format.commit.request import CommitRequest, CommitResult
from lakelog.rpc.commit import from_proto_commit_result, to_proto_commit_request
from lakelog.rpc.v1 import snapshots_pb2
from lakelog.tracing.request_ids import current_or_new

# How often the pipeline checks for a stream without answers.
_TICK_S = 1.0


@dataclass
class _InFlight:
    future: Future[CommitResult]
    sent_at_s: float


class GrpcCommitPipeline:
    """Implements `lakelog.client.metastore.metastore.CommitPipeline`.

    A stream that breaks, or gives no answer for `stall_s`, fails all open futures with `OutcomeUnknown`. Later commits
    are refused with `Unavailable`, since they are certainly not sent.

    Args:
        connection: Where the commits go.
        max_in_flight: How many commits may wait for their answers; with more, `submit` blocks.
        stall_s: After so many seconds without an answer that is due, the stream counts as broken.
        clock: Gives the time.

    Raises:
        Unavailable: The metastore cannot be reached.
    """

    def __init__(self, connection: Connection, *, max_in_flight: int, stall_s: float, clock: Clock) -> None:
        if max_in_flight < 1:
            raise InvalidArgument(
                f"max_in_flight is {max_in_flight}: at least 1 commit must be allowed in flight.",
                metadata={"field": "max_in_flight"},
            )
        self._connection = connection
        self._clock = clock
        self._stall_s = stall_s
        self._slots = threading.BoundedSemaphore(max_in_flight)
        self._lock = threading.Lock()
        self._in_flight: deque[_InFlight] = deque()
        self._outgoing: queue.SimpleQueue[snapshots_pb2.CommitStreamRequest | None] = queue.SimpleQueue()
        self._answers = 0
        self._answered_at_s = clock.monotonic_s()
        self._ended: LakelogError | None = None
        self._closing = False
        self._session = connection.session(fresh=True, max_unavailable_s=stall_s)
        self._call = self._session.methods.CommitStream(
            self._requests(), metadata=connection.call_metadata + to_headers(current_or_new())
        )
        self._reader = threading.Thread(target=self._read, name="lakelog-commit-pipeline", daemon=True)
        self._reader.start()

    def submit(self, request: CommitRequest) -> Future[CommitResult]:
        """Sends a commit; blocks only while too many are in flight.

        Raises:
            InvalidArgument: The request cannot be sent in this form, or the pipeline is closed.
            Unavailable: The stream is broken; this commit was not sent.
        """
        message = snapshots_pb2.CommitStreamRequest(commit=to_proto_commit_request(request))
        while not self._slots.acquire(timeout=_TICK_S):
            self._check_ended()
            self._cut_if_stalled()
        future: Future[CommitResult] = Future()
        # The future can no longer be cancelled: a request that was sent cannot be recalled.
        future.set_running_or_notify_cancel()
        with self._lock:
            if self._ended is not None or self._closing:
                self._slots.release()
                self._check_ended()
                raise InvalidArgument("The commit pipeline is closed. Open a new one.", reason="CLOSED")
            # Under the lock, so that futures and messages have the same order.
            self._in_flight.append(_InFlight(future, self._clock.monotonic_s()))
            self._outgoing.put(message)
        return future

    def close(self) -> None:
        """Waits for all answers, then ends the stream; idempotent. The futures of missing answers fail."""
        with self._lock:
            if not self._closing:
                self._closing = True
                self._outgoing.put(None)
        while self._reader.is_alive():
            self._reader.join(_TICK_S)
            self._cut_if_stalled()

    def _requests(self) -> Iterator[snapshots_pb2.CommitStreamRequest]:
        # Runs on a thread of gRPC, which ends with the None that `close` or the end of the stream puts into the queue.
        while True:
            try:
                message = self._outgoing.get(timeout=_TICK_S)
            except queue.Empty:
                self._cut_if_stalled()
                continue
            if message is None:
                return
            yield message

    def _read(self) -> None:
        failure: LakelogError | None = None
        try:
            for response in self._call:
                self._connection.answered(self._session)
                self._answered_at_s = self._clock.monotonic_s()
                self._answers += 1
                self._resolve(response)
        except grpc.RpcError as error:
            self._connection.failed(self._session)
            failure = from_rpc_error(
                error,
                kind=CallKind.MUTATION,
                method="CommitStream",
                target=str(self._connection.target),
                deadline_s=None,
            )
        finally:
            # Whatever ended the stream: no caller may wait for ever.
            self._end(failure)

    def _resolve(self, response: snapshots_pb2.CommitStreamResponse) -> None:
        with self._lock:
            entry = self._in_flight.popleft() if self._in_flight else None
        if entry is None:  # An answer without a request: the peer is no proper metastore; the futures are all resolved.
            self._call.cancel()
            return
        try:
            match response.WhichOneof("outcome"):
                case "committed":
                    entry.future.set_result(from_proto_commit_result(response.committed))
                case "failed":
                    error = from_proto_status(response.failed)
                    entry.future.set_exception(error or InternalError(f"A commit failed: {response.failed.message}"))
                case _:
                    entry.future.set_exception(
                        OutcomeUnknown("The metastore's answer to a commit says nothing. Repeat the same request.")
                    )
        except InvalidArgument as error:
            # Damaged details of a failure say nothing about what happened.
            entry.future.set_exception(
                OutcomeUnknown(
                    f"The metastore's answer to a commit cannot be read ({error.message}). Repeat the same request, "
                    "and delete no file."
                )
            )
        finally:
            self._slots.release()

    def _end(self, failure: LakelogError | None) -> None:
        with self._lock:
            self._ended = failure or Unavailable("The commit stream is closed.")
            open_entries, self._in_flight = list(self._in_flight), deque()
            self._outgoing.put(None)
        for entry in open_entries:
            entry.future.set_exception(self._verdict(failure))
            self._slots.release()

    def _verdict(self, failure: LakelogError | None) -> LakelogError:
        # A refusal of the caller comes before the server reads the stream, hence before any answer.
        refused = isinstance(failure, PermissionDenied) or (failure is not None and failure.reason == "WRONG_TARGET")
        if refused and failure is not None and self._answers == 0:
            return failure
        why = failure.message if failure is not None else f"{self._connection.target} ended the commit stream."
        return OutcomeUnknown(
            f"The commit was not answered, and may have taken effect: {why} Repeat the same requests in order on a new "
            "pipeline, and delete no file.",
            metadata={} if failure is None else failure.metadata,
        )

    def _check_ended(self) -> None:
        if self._ended is not None:
            raise Unavailable(
                f"The commit stream to {self._connection.target} has ended: {self._ended.message} This commit was not "
                "sent; open a new pipeline.",
                metadata={"target": str(self._connection.target)},
            ) from self._ended

    def _cut_if_stalled(self) -> None:
        with self._lock:
            if not self._in_flight:
                return
            waits_since_s = max(self._in_flight[0].sent_at_s, self._answered_at_s)
        if self._clock.monotonic_s() - waits_since_s > self._stall_s:
            self._call.cancel()
