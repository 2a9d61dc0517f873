"""Receives requests: bounds them before any object is made, and processes large ones beside the event loop.

A small request is checked, parsed and translated where it arrives, within a few milliseconds. A thread processes a
large one, while the event loop serves others. The requests that are processed at once are bounded in bytes, because the
objects of a request take several times its bytes. Further large requests wait, and so do their callers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from google.protobuf.message import DecodeError, Message

from lakelog.errors import InvalidArgument, LakelogError
from lakelog.serving.edge.fair_room import FairRoom
from lakelog.serving.edge.origin import origin
from lakelog.serving.edge.request_bounds import RequestBounds

from ...heavy_work import run_paused
from .sliced_requests import SlicedRequest, read_attachment, read_commit, read_stream_commit

R = TypeVar("R", bound=Message | SlicedRequest[Any])
V = TypeVar("V")

SMALL_BYTES: Final = 8 * 1024
"""The event loop processes a request up to this size: at worst 4,000 empty entries, some 20 ms."""

_OF_PLANS: Final = frozenset({"/lakelog.rpc.v1.SnapshotService/Plan"})
"""Methods with room of their own, so that large plans keep no commits waiting."""

_READ_IN_SLICES: Final[Mapping[str, Callable[[bytes], Message | SlicedRequest[Any]]]] = {
    "/lakelog.rpc.v1.SnapshotService/Commit": read_commit,
    "/lakelog.rpc.v1.SnapshotService/CommitStream": read_stream_commit,
    "/lakelog.rpc.v1.SnapshotService/AttachChangelogs": read_attachment,
}
"""How large requests of some methods are parsed."""

_THREADS: Final = 2
"""They share one interpreter: more threads would only leave more requests half done."""


@dataclass(frozen=True)
class Unread:
    """A large message of a stream that has arrived and is not checked yet: `Requests.finish` reads it."""

    method: str
    data: bytes
    parse: Callable[[bytes], Message]


class Received:
    """A request that was checked and read.

    Args:
        message: The request, of the type that its method takes; or a `SlicedRequest`.
        room: The room that it uses; None: it is small.
        size: Its bytes.
    """

    def __init__(self, message: Message | SlicedRequest[Any], room: FairRoom | None = None, size: int = 0) -> None:
        # Only the method knows the type of its message.
        self.message: Any = message
        self._room = room
        self._size = size

    @property
    def is_large(self) -> bool:
        """Whether it uses room."""
        return self._room is not None

    def release(self) -> None:
        """Gives its room back, once nothing is left of it; idempotent."""
        room, self._room = self._room, None
        if room is not None:
            room.give_back(self._size)

    def forget(self) -> None:
        """Lets go of the message, and gives its room back; idempotent."""
        self.message = None
        self.release()


_received: Final[ContextVar[Received]] = ContextVar("received")


def note_received(received: Received) -> None:
    """Notes the request of the present call."""
    _received.set(received)


def forget_request() -> None:
    """Lets go of the request of the present call, once nothing refers to its message any more.

    For answers that are sent for as long as the caller reads: a caller that does not read would keep the large requests
    of others waiting.
    """
    received = _received.get(None)
    if received is not None:
        received.forget()


class Requests:
    """Checks, parses and translates requests.

    Args:
        bounds: The bounds of each method, by its full name.
        in_work_bytes: The most bytes of all large requests that are processed at once; a quarter of it is for plans.
    """

    def __init__(self, bounds: Mapping[str, RequestBounds], in_work_bytes: int) -> None:
        self.bounds: Final = bounds
        of_plans = in_work_bytes // 4
        self._room = FairRoom(in_work_bytes - of_plans)
        self._room_of_plans = FairRoom(of_plans)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="requests")

    def close(self) -> None:
        """Ends the threads once they are done."""
        self._threads.shutdown(wait=False)

    async def read(self, method: str, data: bytes, parse: Callable[[bytes], Message]) -> Received:
        """Reads a request.

        Raises:
            ResourceExhausted: It is too large.
            InvalidArgument: It has too many entries, or is no message of this call.
        """
        bounds = self.bounds[method]
        bounds.check_size(data)
        if len(data) <= SMALL_BYTES:
            return Received(_read(bounds, data, parse))
        room = self._room_of_plans if method in _OF_PLANS else self._room
        await room.take(origin.get(), len(data))
        try:
            parse_large = _READ_IN_SLICES.get(method, parse)
            message = await self._in_thread(lambda: _read(bounds, data, parse_large))
        except BaseException:
            room.give_back(len(data))
            raise
        return Received(message, room, len(data))

    def reader_of_stream(self, method: str, parse: Callable[[bytes], Message]) -> Callable[[bytes], Any]:
        """Returns a reader of a stream: it makes small messages, `Unread` large ones, or errors of refused ones.

        gRPC calls the reader on the event loop, and errors that it raises are lost.
        """
        bounds = self.bounds[method]

        def read(data: bytes) -> Message | Unread | LakelogError:
            try:
                bounds.check_size(data)
                return _read(bounds, data, parse) if len(data) <= SMALL_BYTES else Unread(method, data, parse)
            except LakelogError as error:
                return error

        return read

    async def finish(self, arrived: Message | Unread | LakelogError) -> Received:
        """Returns the message of a stream from any result of `reader_of_stream`.

        Raises:
            ResourceExhausted: As in `read`.
            InvalidArgument: As in `read`.
        """
        if isinstance(arrived, LakelogError):
            raise arrived
        if isinstance(arrived, Unread):
            return await self.read(arrived.method, arrived.data, arrived.parse)
        return Received(arrived)

    async def translate(self, message: Message | SlicedRequest[Any], translate: Callable[[Any], V]) -> V:
        """Translates a message, a large one beside the event loop.

        If it is cancelled meanwhile, it waits for the thread, so that the caller gives no room back too early.
        """
        work: Callable[[], V]
        if isinstance(message, SlicedRequest):
            # Its files are translated already; the rest can be hundreds of thousands of groups and buckets.
            is_large, work = message.message_bytes > SMALL_BYTES, message.take
        else:
            is_large, work = _is_large(message), partial(translate, message)
        return await self._in_thread(work) if is_large else work()

    async def _in_thread(self, work: Callable[[], V]) -> V:
        working = self._threads.submit(run_paused, work)
        done = asyncio.wrap_future(working)
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            # A thread cannot be stopped, and until its end it takes the memory that its caller has room for.
            if not working.cancel():
                await _until_done(done)
            raise


def _is_large(message: Message) -> bool:
    received = _received.get(None)
    if received is not None and received.message is message:
        # To ask a message of megabytes for its size takes about as long as to write it.
        return received.is_large
    return message.ByteSize() > SMALL_BYTES


async def _until_done(work: asyncio.Future[Any]) -> None:
    """Waits for work to end, however often the waiting task is cancelled meanwhile."""
    while not work.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait({work})


def _read(bounds: RequestBounds, data: bytes, parse: Callable[[bytes], R]) -> R:
    bounds.check_entries(data)
    try:
        return parse(data)
    except DecodeError as error:
        raise InvalidArgument(
            f"The request's {len(data)} bytes are no message of this call: {error}. Send what its proto says, "
            "with at most 100 messages inside each other."
        ) from error
