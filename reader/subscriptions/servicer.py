"""ReaderService: which callers may subscribe, how many at once, and the messages in both directions."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import grpc

from lakelog.clock import Clock, Ids, SystemClock
from lakelog.errors import (
    HistoryDiverged,
    InternalError,
    InvalidArgument,
    LakelogError,
    NotFound,
    ResourceExhausted,
    Unavailable,
    forget_frames,
)
from lakelog.format.tables.table import TableInfo
from lakelog.reads.streams.open_stream import open_stream
from lakelog.reads.streams.wire import from_proto_positions
from lakelog.rpc.v1 import reader_pb2
from lakelog.sdk.catalog import Catalog
from lakelog.serving.access import Access, Caller
from lakelog.serving.edge.bounded_streams import checked
from lakelog.serving.edge.failures import fail
from lakelog.serving.edge.known_callers import KnownCallers, caller_lost
from lakelog.serving.edge.refusal_lines import RefusalLines, to_address
from lakelog.serving.edge.request_ids import find_request_id
from lakelog.serving.logging_setup import Logger
from lakelog.tracing.request_ids import current

from .lines import SubscriptionLines
from .metrics import SubscriptionMetrics
from .pump import ClientLeft, Pump
from .requests import Start, to_start
from .rights import ReadRight, Rights
from .send_window import SendWindow

Context = grpc.aio.ServicerContext[Any, Any]

_START_WITHIN_S: Final = 10.0
"""The time in which a connected client must have sent its request."""


class ReaderServicer:
    """Serves subscriptions, each read by a thread of its own.

    Args:
        catalog: The catalog with the tables.
        access: How callers are authenticated. Any role from `reader` on may read everything; the role `user` may read
            what the grants of the metastore allow.
        max_subscriptions: Subscriptions at once.
        caller_share: The part of them, from 0 to 1, that one caller can have, if the server identifies callers.
        holder: This server's name, in lists of consumers.
        metrics: The measurements.
        log: The service's log.
        ids: Generates ids of internal errors.
        draining: Set when the server ends.
        clock: Measures the age of what is known of grants.
        linger_s: How long a client may take after the end of its stream to have its last position stored.
    """

    def __init__(
        self,
        catalog: Catalog,
        access: Access,
        *,
        max_subscriptions: int,
        caller_share: float,
        holder: str,
        metrics: SubscriptionMetrics,
        log: Logger,
        ids: Ids,
        draining: asyncio.Event,
        clock: Clock | None = None,
        linger_s: float = 30.0,
    ) -> None:
        self._catalog = catalog
        self._access = access
        self._callers = KnownCallers(SystemClock())
        self._rights = Rights(catalog, clock or SystemClock())
        self._max_subscriptions = max_subscriptions
        self._max_of_caller = max(1, int(max_subscriptions * caller_share))
        self._holder = holder
        self._metrics = metrics
        self._log = log
        self._ids = ids
        self._draining = draining
        self._linger_s = linger_s
        self._open = 0
        self._open_of: Counter[str] = Counter()
        self._leaving: set[asyncio.Future[None]] = set()
        # One for each subscription, which begins or stores a position, and waits for the metastore meanwhile. So no
        # caller waits for those of another.
        self._threads = ThreadPoolExecutor(max_subscriptions, thread_name_prefix="subscription")
        self.refusals: Final = RefusalLines(log)
        """Decides which subscriptions that end with an error have a log line."""
        self.pumps: Final[set[Pump]] = set()
        """The pumps of open subscriptions."""

    @property
    def used_slots(self) -> int:
        """Open subscriptions, and ended ones for which a thread still reads."""
        return self._open

    def use(self, access: Access) -> None:
        """Authenticates callers so from now on, also those of open subscriptions."""
        self._access = access
        self._callers.recheck()

    def _recognize(self, context: Context, address: str) -> Caller:
        return self._access.recognize(_authorization(context), _common_name(context), address)

    async def Subscribe(self, request_iterator: Any, context: Context) -> None:  # noqa: N802
        """Serves one subscription until its end."""
        outcome, lines = "client", SubscriptionLines()
        request_id = find_request_id(context.invocation_metadata()) or self._ids.new_id()
        current.set(request_id)
        try:
            found = self._recognize(context, to_address(context.peer()))
            lines.caller = found.name
            release = self._acquire_slot(found.name)
            with self._callers.keep(found, lambda: self._recognize(context, address="")) as lost:
                await self._serve(context, release, lost, self._rights.of(found), lines)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            failure = self._as_our_own(error)
            outcome = failure.reason
            if self.refusals.admit(outcome, lines.caller or to_address(context.peer())):
                self._log.info(
                    "subscription ended",
                    **lines.to_fields(),
                    outcome=outcome,
                    peer=context.peer(),
                    message=failure.message,
                )
            # The traceback holds the request.
            forget_frames(error)
            fail(context, failure, request_id)
        finally:
            self._metrics.ended.labels(outcome).inc()
            if outcome == "client" and lines.pump is not None:
                self._log.info("subscription ended", **lines.to_fields(), outcome=outcome)

    def _acquire_slot(self, caller: str) -> Callable[[], None]:
        """Takes a slot; returns the function that gives it back."""
        if self._draining.is_set():
            raise _going_away()
        if self._open >= self._max_subscriptions:
            raise self._refused(
                f"This reader service has {self._open} subscriptions open, which is its limit. Subscribe at another "
                "replica, start more of them, or raise --max-subscriptions.",
                self._max_subscriptions,
            )
        if not self._access.open and self._open_of[caller] >= self._max_of_caller:
            raise self._refused(
                f"{caller} has {self._open_of[caller]} subscriptions open at this reader service, which is the limit "
                "of one caller. Subscribe at another replica, close some, or raise --caller-share.",
                self._max_of_caller,
            )
        self._open += 1
        self._open_of[caller] += 1
        self._metrics.subscriptions.set(self._open)

        def release() -> None:
            self._open -= 1
            self._open_of[caller] -= 1
            if not self._open_of[caller]:
                del self._open_of[caller]
            self._metrics.subscriptions.set(self._open)

        return release

    def _refused(self, message: str, limit: int) -> ResourceExhausted:
        self._metrics.refused.inc()
        return ResourceExhausted(message, reason="TOO_MANY_SUBSCRIPTIONS", metadata={"limit": str(limit)})

    async def _serve(
        self,
        context: Context,
        release: Callable[[], None],
        lost: asyncio.Event,
        right: ReadRight | None,
        lines: SubscriptionLines,
    ) -> None:
        try:
            start = await _read_start(context)
        except BaseException:
            release()
            raise
        if start is None:
            release()
            return
        lines.start = start
        window = SendWindow(start.max_bytes, start.max_messages)
        check = None if right is None else right.check_if_old
        pump = Pump(window, self._metrics, asyncio.get_running_loop(), check=check)
        beginning = asyncio.get_running_loop().run_in_executor(self._threads, self._begin, pump, start, right)
        try:
            # Cancelling a call does not end the thread.
            await asyncio.shield(beginning)
            self._metrics.opened.inc()
            self.pumps.add(pump)
            # It reads already: how far it is would be chance.
            self._log.info("subscription opened", **lines.to_fields())
            lines.pump = pump
            await self._exchange(context, pump, window, lost, right)
        finally:
            self.pumps.discard(pump)
            pump.close()
            leaving = asyncio.ensure_future(self._leave(beginning, pump, release))
            self._leaving.add(leaving)
            leaving.add_done_callback(self._leaving.discard)

    async def _leave(self, beginning: asyncio.Future[None], pump: Pump, release: Callable[[], None]) -> None:
        """Frees the slot when the threads are done, so that a client that leaves at once starts no more of them."""
        await asyncio.wait([beginning])
        if beginning.exception() is None:
            await pump.ended.wait()
        release()

    def _begin(self, pump: Pump, start: Start, right: ReadRight | None) -> None:
        tables = self._find_tables(start, right)
        for table, point in zip(tables, start.points, strict=False):
            if point.table_uuid != table.table_uuid:
                raise HistoryDiverged(
                    f"The client has read table {point.table_uuid!r:.80}, and {table.name} is {table.table_uuid}: it "
                    "was dropped and made anew. Read it from its beginning.",
                    metadata={"table": str(table.name)},
                )
        stream = open_stream(
            self._catalog.context,
            tables,
            start.request,
            holder=self._holder,
            points=start.points,
            on_begin=pump.restart,
        )
        pump.start(stream, [str(table.name) for table in tables])

    def _find_tables(self, start: Start, right: ReadRight | None) -> list[TableInfo]:
        if right is None:
            return [self._find_table(str(name), uuid) for name, uuid in start.tables]
        tables: dict[str, TableInfo | None] = {}
        for name, uuid in start.tables:
            try:
                tables[str(name)] = self._find_table(str(name), uuid)
            except NotFound:
                # That it does not exist is for those that may read it.
                tables[str(name)] = None
        return right.check(tables)

    def _find_table(self, name: str, uuid: str) -> TableInfo:
        info = self._catalog.table(name).info
        if uuid and info.table_uuid != uuid:
            raise NotFound(
                f"Table {name} is not the one that the client means: that was dropped, and another one has its name.",
                reason="TABLE_NOT_FOUND",
                metadata={"table": name},
            )
        return info

    async def _exchange(
        self, context: Context, pump: Pump, window: SendWindow, lost: asyncio.Event, right: ReadRight | None
    ) -> None:
        """Sends messages until the client has enough or is recognized no more, something fails, or the server ends.

        SUBTLE: all of these arrive through the queue of messages. A write that is cancelled under way would leave the
            call without an end.
        """
        # One answer is on its way at a time: a client that reads none is not heard any further.
        answering = asyncio.Semaphore(1)
        listening = asyncio.ensure_future(self._listen(context, pump, window, answering))
        ends = [
            asyncio.ensure_future(_end_when(self._draining, pump, _going_away)),
            asyncio.ensure_future(_end_when(lost, pump, caller_lost)),
        ]
        try:
            await self._emit(context, pump, answering, right)
        finally:
            for task in (listening, *ends):
                task.cancel()
            await asyncio.gather(listening, *ends, return_exceptions=True)

    async def _listen(self, context: Context, pump: Pump, window: SendWindow, answering: asyncio.Semaphore) -> None:
        try:
            await self._receive(context, pump, window, answering)
        except Exception as error:
            pump.end(error)
        else:
            pump.end(ClientLeft())

    async def _receive(self, context: Context, pump: Pump, window: SendWindow, answering: asyncio.Semaphore) -> None:
        """Handles the client's messages, until it sends no more."""
        while (arrived := await context.read()) is not grpc.aio.EOF:
            request = checked(arrived)
            match request.WhichOneof("request"):
                case "taken":
                    window.taken(request.taken.sequence)
                case "keep":
                    positions = from_proto_positions(request.keep.positions)
                    await asyncio.get_running_loop().run_in_executor(self._threads, pump.keep, positions)
                    await answering.acquire()
                    pump.outgoing.put_nowait(reader_pb2.SubscribeResponse(kept=reader_pb2.KeptPositions()))
                case other:
                    raise InvalidArgument(
                        f"A message of a client that has begun holds {other or 'nothing'}. Send taken or keep.",
                        metadata={"field": "request"},
                    )

    async def _emit(self, context: Context, pump: Pump, answering: asyncio.Semaphore, right: ReadRight | None) -> None:
        while True:
            item = await pump.outgoing.get()
            if isinstance(item, ClientLeft):
                return
            if isinstance(item, BaseException):
                raise item
            if item is None:
                # The client may still have positions to store; after this it comes back for that.
                item = reader_pb2.SubscribeResponse(ended=reader_pb2.SubscribeEnded())
                asyncio.get_running_loop().call_later(self._linger_s, pump.end, ClientLeft())
            if right is not None and not right.is_fresh:
                await asyncio.get_running_loop().run_in_executor(self._threads, right.check_still)
            await context.write(item)
            pump.sent(item)
            if item.HasField("kept"):
                answering.release()

    def _as_our_own(self, error: Exception) -> LakelogError:
        if isinstance(error, LakelogError) and not isinstance(error, InternalError):
            return error
        error_id = self._ids.new_id()
        self._log.error("internal error", error_id=error_id, exc_info=error)
        return InternalError(
            f"The reader service failed by a defect of its own; please report it with id {error_id}.",
            metadata={"error_id": error_id},
        )


async def _end_when(event: asyncio.Event, pump: Pump, error: Callable[[], LakelogError]) -> None:
    await event.wait()
    pump.end(error())


def _going_away() -> Unavailable:
    return Unavailable(
        "This reader service is shutting down. Go on at another one from where you are.", reason="READER_DRAINING"
    )


def _authorization(context: Context) -> str | None:
    for key, value in context.invocation_metadata() or ():
        if key == "authorization":
            return value if isinstance(value, str) else ""
    return None


def _common_name(context: Context) -> str | None:
    names = context.auth_context().get("x509_common_name") or ()
    return next((bytes(name).decode("utf-8", "replace") for name in names), None)


async def _read_start(context: Context) -> Start | None:
    """The client's request; None if it left."""
    try:
        async with asyncio.timeout(_START_WITHIN_S):
            first = await context.read()
    except TimeoutError as error:
        raise InvalidArgument(f"Nothing was asked for within {_START_WITHIN_S:g} s. Send the start at once.") from error
    return None if first is grpc.aio.EOF else to_start(checked(first))
