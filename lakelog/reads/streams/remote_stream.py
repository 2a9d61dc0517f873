"""A stream that a reader service reads for the client, and that goes on at another replica when one goes away.

The client counts what it has: after a break it reports its place, down to the row, and the next server goes on there. A
thread of its own receives messages, so the answer to a stored position arrives also while the user takes no rows. What
this thread may hold is bounded by what the server may send before the client acknowledges it.

Invariants:

1. What was handed out is counted before anything else happens to the connection, and only data of the connection in use
   is handed out: so a break loses and doubles nothing.
2. A stream with a consumer goes on under the epoch under which it was opened. A reader that was fenced gets an error
   and never takes over again by itself.
"""

from __future__ import annotations

import logging
import queue
import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import grpc

from lakelog.client.connection.calls import to_headers
from lakelog.client.connection.channels import note_opened
from lakelog.client.connection.reader_target import ReaderTarget
from lakelog.client.connection.retry import CLOSED, RetryPolicy
from lakelog.client.connection.status import UNAUTHENTICATED, CallKind, from_rpc_error
from lakelog.client.connection.target import Target
from lakelog.client.connection.tokens import is_outdated, to_metadata
from lakelog.clock import Clock, SystemClock
from lakelog.errors import InternalError, LakelogError, ResourceExhausted, Unavailable
from lakelog.format.tables.table import TableInfo
from lakelog.reads.change_plan import describe_skipped
from lakelog.reads.streams.batch import Position, Progress
from lakelog.reads.streams.open_stream import OpenStream
from lakelog.reads.streams.request import ResumePoint, StreamRequest
from lakelog.reads.streams.wire import (
    RowsDecoder,
    from_proto_positions,
    from_proto_resume_point,
    from_proto_skipped,
    to_proto_positions,
    to_proto_resume_point,
)
from lakelog.rpc.messages import build
from lakelog.rpc.services import Stubs
from lakelog.rpc.v1 import reader_pb2
from lakelog.storage.parquet.read_counts import ReadCounts, ReadMetrics
from lakelog.tracing.request_ids import current_or_new

_log = logging.getLogger(__name__)

_FIRST_ANSWER_S: Final = 30.0
"""Until a server has opened a stream, which takes several calls to the metastore."""

_FIRST_CONNECT_S: Final = 5.0
"""How long the first connection to any server is tried."""

_SAVED_WITHIN_S: Final = 10.0
"""How long a server may take to confirm a stored position; after that another one is tried. It takes milliseconds,
but a server that hangs, or whose metastore is away, does not answer at all."""

_MAX_MESSAGE_BYTES: Final = 64 << 20

_CHANNEL_OPTIONS: Final = (
    ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
    # A server that vanished without closing, or hangs, is noticed after 20 + 10 seconds: gRPC uses the longer of its
    # two timeouts.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.ping_timeout_ms", 10_000),
    # Also while nothing comes for long: by default gRPC would ping more seldom then.
    ("grpc.http2.max_pings_without_data", 0),
    # A connected server that sends nothing is given up after this long, and another one is tried.
    ("grpc.min_reconnect_backoff_ms", 5_000),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.primary_user_agent", "lakelog-python"),
)


def open_remote_stream(
    reader: ReaderTarget,
    tables: Sequence[TableInfo],
    request: StreamRequest,
    *,
    policy: RetryPolicy | None = None,
    clock: Clock | None = None,
    rng: Callable[[], float] = random.random,
) -> OpenStream:
    """Opens a stream at a reader service; blocks until it is open.

    Raises:
        InvalidArgument: Something is not possible; as `lakelog.reads.streams.open_stream.open_stream`.
        Unavailable: No replica answers.
        ResourceExhausted: All replicas have as many subscriptions as they accept.
    """
    start = build(
        reader_pb2.SubscribeStart,
        tables=[
            build(
                reader_pb2.StreamTable,
                name=str(table.name),
                table_uuid=table.table_uuid,
                columns=_to_columns(request.columns.get(str(table.name))),
                filter=request.filters.get(str(table.name)),
            )
            for table in tables
        ],
        options=dict(request.options),
    )
    follower = RemoteFollower(reader, start, policy=policy or RetryPolicy(), clock=clock or SystemClock(), rng=rng)
    opened = follower.open()
    return OpenStream(
        follower,
        tuple(map(from_proto_resume_point, opened.tables)),
        from_proto_positions(opened.positions),
        follower.keep,
        # The server reports that the consumer is used.
        None,
    )


def _to_columns(names: Sequence[str] | None) -> reader_pb2.StreamColumns | None:
    return None if names is None else build(reader_pb2.StreamColumns, names=names)


class RemoteFollower:
    """Implements `lakelog.reads.streams.feeds.Follower` by a reader service.

    Args:
        reader: Its replicas.
        start: The request, without the place to go on.
        policy: For how long, and in which steps, reconnecting is tried.
        clock: For the time.
        rng: A random number in [0, 1).
    """

    def __init__(
        self,
        reader: ReaderTarget,
        start: reader_pb2.SubscribeStart,
        *,
        policy: RetryPolicy,
        clock: Clock,
        rng: Callable[[], float],
    ) -> None:
        self._reader = reader
        self._start = start
        self._policy = policy
        self._clock = clock
        self._rng = rng
        # Also of calls that go on elsewhere later, by a thread that is in no operation.
        self._request_id: Final = current_or_new()
        self._uuids = {table.name: table.table_uuid for table in start.tables}
        self._points: dict[str, ResumePoint] = {}
        self._counts = ReadCounts()
        self._next = int(rng() * len(reader.targets))
        self._call: _Call | None = None
        # A call that is being opened, which may take as long as the metastore does.
        self._opening: _Call | None = None
        self._closed = threading.Event()
        # Only the thread that holds this lock may change the call in use, and what is counted.
        self._lock = threading.RLock()

    def open(self) -> reader_pb2.SubscribeOpened:
        """Opens the stream for the first time."""
        give_up_s = self._clock.monotonic_s() + _FIRST_CONNECT_S
        with self._lock:
            opened = self._connect(give_up_s)
        if opened is None:
            raise Unavailable("The subscription was closed before it was open.", reason=CLOSED)
        return opened

    @property
    def metrics(self) -> ReadMetrics:
        """The skipped snapshots; the reader service reads, and has its own metrics."""
        return self._counts.metrics

    def follow(self) -> Iterator[Progress]:
        """Yields what the service sends; blocks; ends when closed."""
        while not self._closed.is_set():
            call = self._call
            assert call is not None, "it was opened"
            message = call.read()
            if message is None or self._closed.is_set():
                return
            if isinstance(message, LakelogError):
                self._come_back(call, message)
                continue
            with self._lock:
                if call is not self._call:
                    # Another thread has reconnected since this message.
                    continue
                progress = self._count(call, message)
            if progress is None:
                continue
            yield progress
            call.send(reader_pb2.SubscribeRequest(taken=reader_pb2.TakenProgress(sequence=message.progress.sequence)))

    def keep(self, positions: Mapping[str, Position]) -> None:
        """Stores positions of the consumer, if there is one. Repeated over breaks: idempotent.

        Raises:
            Fenced: Another reader has taken over.
            Unavailable: No replica was reached in time, or the stream was closed.
        """
        if not any(point.epoch for point in self._points.values()):
            return
        message = reader_pb2.SubscribeRequest(keep=reader_pb2.KeepPositions(positions=to_proto_positions(positions)))
        give_up_s = self._clock.monotonic_s() + self._policy.watch_total_s
        while not self._closed.is_set():
            call = self._call
            assert call is not None, "it was opened"
            failure = call.save(
                message, min(give_up_s - self._clock.monotonic_s(), _SAVED_WITHIN_S, self._policy.total_s)
            )
            if failure is None:
                return
            if not isinstance(failure, Unavailable) or self._clock.monotonic_s() >= give_up_s:
                raise failure
            self._come_back(call, failure)
        raise Unavailable(
            "The subscription was closed before the service said that its position is kept. What lies behind the last "
            "one kept comes again.",
            reason=CLOSED,
        )

    def close(self) -> None:
        """Ends `follow`, from any thread; idempotent."""
        self._closed.set()
        for call in (self._call, self._opening):
            if call is not None:
                call.close()

    def _count(self, call: _Call, message: reader_pb2.SubscribeResponse) -> Progress | None:
        if message.WhichOneof("response") == "opened":
            # A position had expired, and the server begins again.
            self._points = {point.table_uuid: from_proto_resume_point(point) for point in message.opened.tables}
            return None
        sent = message.progress
        batch = None
        if sent.HasField("rows"):
            batch = call.decoder.decode(sent.rows)
            point = self._points[self._uuids[batch.table]]
            self._points[point.table_uuid] = replace(point, received_rows=point.received_rows + batch.data.num_rows)
        done = from_proto_positions(sent.done)
        for table, at in done.items():
            point = self._points[self._uuids[table]]
            self._points[point.table_uuid] = replace(
                point, snapshot_id=at.snapshot_id, snapshot_uuid=at.snapshot_uuid, from_state=False, received_rows=0
            )
        skipped = from_proto_skipped(sent.skipped)
        for table, snapshot_ids in skipped.items():
            _log.warning("%s", describe_skipped(table, snapshot_ids))
            self._counts.add(ReadMetrics(snapshots_skipped=len(snapshot_ids)))
        return Progress(batch, done or None, skipped)

    def _come_back(self, broken: _Call, failure: LakelogError) -> None:
        """Goes on at another replica, unless another thread has done so; raises lasting errors."""
        if not isinstance(failure, Unavailable):
            broken.close()
            raise failure
        with self._lock:
            if self._call is broken:
                broken.close()
                # Not the same server again: one that hangs would cost its time once more. And not all to the same one.
                self._next += 1 + int(self._rng() * (len(self._reader.targets) - 1))
                self._closed.wait(self._policy.come_back_s(1, self._rng()))
                self._connect(self._clock.monotonic_s() + self._policy.watch_total_s)

    def _connect(self, give_up_s: float) -> reader_pb2.SubscribeOpened | None:
        """Opens the stream at the first replica that accepts it; None if it was closed meanwhile."""
        start = reader_pb2.SubscribeStart()
        start.CopyFrom(self._start)
        start.resume.extend(
            to_proto_resume_point(self._points[table.table_uuid]) for table in start.tables if self._points
        )
        tries = 0
        while not self._closed.is_set():
            target = self._reader.targets[self._next % len(self._reader.targets)]
            call = self._opening = _Call(self._reader, target, start, self._request_id)
            if self._closed.is_set():
                call.close()
                return None
            opened = call.open()
            if self._closed.is_set():
                call.close()
                return None
            if isinstance(opened, reader_pb2.SubscribeOpened):
                self._call = call
                self._points = {each.table_uuid: from_proto_resume_point(each) for each in opened.tables}
                return opened
            call.close()
            tries += 1
            self._next += 1
            is_refused = opened.reason == UNAUTHENTICATED
            if is_refused and is_outdated(call.metadata, self._reader.token):
                continue
            if not isinstance(opened, Unavailable | ResourceExhausted):
                raise opened
            seen_all = tries >= len(self._reader.targets)
            if seen_all and (self._clock.monotonic_s() >= give_up_s or _is_full(opened, self._points)):
                raise opened
            if seen_all:
                self._closed.wait(self._policy.backoff_s(tries, self._rng()))
        return None


def _is_full(error: LakelogError, points: Mapping[str, ResumePoint]) -> bool:
    """Whether to report at once that there is no room: not to a reader served before, since others will return."""
    return isinstance(error, ResourceExhausted) and not points


class _Call:
    """One stream at one server."""

    def __init__(self, reader: ReaderTarget, target: Target, start: reader_pb2.SubscribeStart, request_id: str) -> None:
        self._target = target
        self.metadata: Final = to_metadata(reader.token)
        note_opened()
        if reader.tls is None:
            self._channel = grpc.insecure_channel(str(target), options=_CHANNEL_OPTIONS)
        else:
            self._channel = grpc.secure_channel(str(target), reader.tls.load_credentials(), options=_CHANNEL_OPTIONS)
        self.decoder: Final = RowsDecoder()
        self._requests: queue.SimpleQueue[reader_pb2.SubscribeRequest | None] = queue.SimpleQueue()
        self._received: queue.SimpleQueue[reader_pb2.SubscribeResponse | LakelogError | None] = queue.SimpleQueue()
        self._kept = threading.Semaphore(0)
        self._asking = threading.Lock()
        self._failure: LakelogError | None = None
        self.send(reader_pb2.SubscribeRequest(start=start))
        methods = Stubs(self._channel, reader_pb2.DESCRIPTOR.services_by_name.values())
        self._responses = methods.Subscribe(
            iter(self._requests.get, None), metadata=self.metadata + to_headers(request_id)
        )
        self._thread = threading.Thread(target=self._receive, name="lakelog-reader", daemon=True)
        self._thread.start()

    def open(self) -> reader_pb2.SubscribeOpened | LakelogError:
        """Waits until the stream is open, or for the reason why it is not."""
        try:
            first = self._received.get(timeout=_FIRST_ANSWER_S)
        except queue.Empty:
            return Unavailable(f"The reader service at {self._target} did not open the stream in time.")
        if first is None:
            return Unavailable("The subscription was closed.", reason=CLOSED)
        if isinstance(first, LakelogError):
            return first
        if first.WhichOneof("response") != "opened":
            return InternalError(f"The reader service at {self._target} began a stream without opening it.")
        return first.opened

    def read(self) -> reader_pb2.SubscribeResponse | LakelogError | None:
        """The next message, or what broke the stream; None at its end."""
        return self._received.get()

    def send(self, request: reader_pb2.SubscribeRequest) -> None:
        """Sends; does nothing if the stream has ended."""
        self._requests.put(request)

    def save(self, request: reader_pb2.SubscribeRequest, timeout_s: float) -> LakelogError | None:
        """Has the server store a position; returns the error, if any."""
        with self._asking:
            if self._failure is not None:
                return self._failure
            self.send(request)
            if not self._kept.acquire(timeout=max(timeout_s, 0.05)):
                # A late answer would be taken for that of the next request.
                self._failure = Unavailable(f"The reader service at {self._target} did not answer in time.")
                self.close()
            return self._failure

    def close(self) -> None:
        """Ends the stream; idempotent."""
        self._requests.put(None)
        self._responses.cancel()
        self._channel.close()

    def _receive(self) -> None:
        try:
            for response in self._responses:
                match response.WhichOneof("response"):
                    case "kept":
                        self._kept.release()
                    case "ended":
                        self._received.put(None)
                    case _:
                        self._received.put(response)
            self._fail(Unavailable(f"The reader service at {self._target} ended the stream."))
        except grpc.RpcError as error:
            self._fail(
                from_rpc_error(error, kind=CallKind.READ, method="Subscribe", target=str(self._target), deadline_s=None)
            )
        except ValueError as error:
            # The channel was closed under the iteration.
            self._fail(Unavailable(f"The stream from {self._target} is closed: {error}.", reason=CLOSED))

    def _fail(self, failure: LakelogError) -> None:
        # Keep the first reason: a later close says nothing about the cause.
        self._failure = self._failure or failure
        self._received.put(self._failure)
        self._requests.put(None)
        self._kept.release()
