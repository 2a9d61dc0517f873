"""One subscription: a thread reads the tables and passes messages to the event loop, as far as the send window allows.

The event loop handles what the client sends in between. Three things end a pump: the client, which leaves or is
disconnected; the stream itself, by an error or at its end; and the service, which ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Final

from lakelog.errors import Fenced, InvalidArgument, LakelogError, PermissionDenied
from lakelog.reads.streams.batch import Position, Progress
from lakelog.reads.streams.open_stream import OpenStream
from lakelog.reads.streams.request import ResumePoint
from lakelog.reads.streams.wire import RowsEncoder, to_proto_positions, to_proto_resume_point, to_proto_skipped
from lakelog.rpc.v1 import reader_pb2

from .metrics import SubscriptionMetrics
from .send_window import SendWindow

MAX_ARROW_BYTES = 8 << 20
"""The largest Arrow message: far below what gRPC accepts, and large enough that its overhead does not count."""

_MAX_UNSENT_BYTES: Final = MAX_ARROW_BYTES
_MAX_UNSENT_MESSAGES: Final = 64
"""How much is ready to be sent to a client that does not read. The client chooses the send window, which also counts
what it has received and not acknowledged yet; here it takes memory."""

_CHECK_EVERY_S: Final = 10.0
"""How often the right of a client without a consumer is checked, also if nothing is sent."""

Outgoing = reader_pb2.SubscribeResponse | BaseException | None
"""A message, or the error that ended the stream; None: its end."""


class ClientLeft(Exception):
    """Ends a stream that the client does not want any more."""


class Pump:
    """Reads one stream for a client.

    Args:
        window: How much the client accepts.
        metrics: Counts what is sent.
        loop: The event loop of `outgoing`.
        max_arrow_bytes: The largest Arrow message.
        check: Raises PermissionDenied if the client may read no more; may block. None: it may read everything.
    """

    def __init__(
        self,
        window: SendWindow,
        metrics: SubscriptionMetrics,
        loop: asyncio.AbstractEventLoop,
        *,
        max_arrow_bytes: int = MAX_ARROW_BYTES,
        check: Callable[[], None] | None = None,
    ) -> None:
        self.outgoing: asyncio.Queue[Outgoing] = asyncio.Queue()
        """Messages to be sent, of `_MAX_UNSENT_BYTES` at most, not counting the last one."""
        self.reached: dict[str, int] = {}
        """The last snapshot that was sent completely, by table uuid; also read by other threads."""
        self.ended = asyncio.Event()
        """Set when nothing is read any more; never set if the pump was not started."""
        self._window = window
        self._unsent = SendWindow(_MAX_UNSENT_BYTES, _MAX_UNSENT_MESSAGES)
        self._metrics = metrics
        self._loop = loop
        self._check = check
        self._encoder = RowsEncoder(max_arrow_bytes)
        self._stream: OpenStream | None = None
        self._uuids: dict[str, str] = {}
        self._keeping = threading.Lock()
        self._closed = threading.Event()

    @property
    def untaken_bytes(self) -> int:
        """Bytes that the client has not acknowledged yet."""
        return self._window.sent_bytes

    def start(self, stream: OpenStream, names: Sequence[str]) -> None:
        """Begins to read a stream of these tables."""
        self._stream = stream
        if self._closed.is_set():
            # The client left while the stream was opened.
            stream.follower.close()
            self._call(self.ended.set)
            return
        self._uuids = {name: point.table_uuid for name, point in zip(names, stream.points, strict=True)}
        self.reached = {point.table_uuid: 0 if point.from_state else point.snapshot_id for point in stream.points}
        self._put(
            reader_pb2.SubscribeResponse(
                opened=reader_pb2.SubscribeOpened(
                    tables=[to_proto_resume_point(point) for point in stream.points],
                    positions=to_proto_positions(stream.positions),
                )
            )
        )
        threading.Thread(target=self._run, name="subscription", daemon=True).start()
        every_s = stream.keep_every_s
        if every_s is None and self._check is not None:
            every_s = _CHECK_EVERY_S
        if every_s is not None:
            threading.Thread(target=self._keep_up, args=(every_s,), name="keep", daemon=True).start()

    def restart(self, points: Sequence[ResumePoint]) -> None:
        """Notifies the client that a position had expired, and where it begins now."""
        opened = reader_pb2.SubscribeOpened(tables=[to_proto_resume_point(point) for point in points])
        self._put(reader_pb2.SubscribeResponse(opened=opened))

    def keep(self, positions: Mapping[str, Position]) -> None:
        """Stores positions of the consumer; blocks on the metastore.

        Raises:
            PermissionDenied: The client may read no more.
            Fenced: Another reader has taken over.
            InvalidArgument: A table is not subscribed to, or the position is not valid.
        """
        other = next((name for name in positions if name not in self._uuids), None)
        if other is not None:
            raise InvalidArgument(
                f"keep names {other!r:.80}, which is not subscribed to: {', '.join(self._uuids)}.",
                metadata={"field": "keep.positions.table"},
            )
        assert self._stream is not None, "it was started"
        if self._check is not None:
            self._check()
        with self._keeping:
            self._stream.keep(positions)

    def sent(self, item: reader_pb2.SubscribeResponse) -> None:
        """Records that a message of `outgoing` is on its way."""
        if item.HasField("progress"):
            self._unsent.taken(item.progress.sequence)

    def end(self, reason: Exception) -> None:
        """Ends the stream at once, before messages that are still to be sent; called from the event loop."""
        while not self.outgoing.empty():
            self.outgoing.get_nowait()
        self.outgoing.put_nowait(reason)

    def close(self) -> None:
        """Ends the stream, from any thread; idempotent."""
        self._closed.set()
        self._window.close()
        self._unsent.close()
        if self._stream is not None:
            self._stream.follower.close()

    def _run(self) -> None:
        assert self._stream is not None, "it was started"
        end: BaseException | None = None
        try:
            with closing(self._stream.follower.follow()) as changes:  # type: ignore[type-var]
                for progress in changes:
                    if not self._send(progress):
                        return
        except BaseException as error:
            end = error
        finally:
            self._call(self.ended.set)
        self._put(end)

    def _send(self, progress: Progress) -> bool:
        done, skipped = to_proto_positions(progress.done or {}), to_proto_skipped(progress.skipped)
        for rows, is_last in self._with_last(progress):
            size_bytes = 0 if rows is None else len(rows.batch)
            sequence = self._window.enter(size_bytes)
            # Both windows count the same messages.
            if not sequence or not self._unsent.enter(size_bytes):
                return False
            if rows is not None:
                self._metrics.batches.inc()
                self._metrics.sent_bytes.inc(size_bytes)
            message = reader_pb2.StreamProgress(
                sequence=sequence, rows=rows, done=done if is_last else (), skipped=skipped if is_last else ()
            )
            self._put(reader_pb2.SubscribeResponse(progress=message))
        if progress.batch is not None:
            self._metrics.rows.inc(progress.batch.data.num_rows)
        for name, position in (progress.done or {}).items():
            self.reached[self._uuids[name]] = position.snapshot_id
        return True

    def _with_last(self, progress: Progress) -> Iterator[tuple[reader_pb2.StreamRows | None, bool]]:
        """The messages of a batch, each with whether it is the last."""
        held: reader_pb2.StreamRows | None = None
        if progress.batch is not None:
            for rows in self._encoder.encode(progress.batch):
                if held is not None:
                    yield held, False
                held = rows
        yield held, True

    def _keep_up(self, every_s: float) -> None:
        """Reports now and then that the consumer is used, as long as the client may read.

        Nothing may be sent for months, and a client that may read no more must not hold back the retention.
        """
        while not self._closed.wait(every_s):
            with contextlib.suppress(LakelogError):
                try:
                    self.keep({})
                except (Fenced, PermissionDenied) as error:
                    self._put(error)
                    return

    def _put(self, item: Outgoing) -> None:
        self._call(self.outgoing.put_nowait, item)

    def _call(self, callback: Callable[..., None], *args: object) -> None:
        # The loop may be gone when the service ends.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback, *args)
