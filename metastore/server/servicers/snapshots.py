"""SnapshotService: from messages to use cases and back; streams in messages of bounded size."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing
from typing import Any, Final

import grpc

from lakelog.client.metastore.metastore import WatchEvent, WatchPosition
from lakelog.format.commit.attachment import AttachRequest
from lakelog.format.commit.request import CommitRequest
from lakelog.format.tables.snapshot import Snapshot
from lakelog.rpc.commit import from_proto_commit_request, to_proto_commit_result
from lakelog.rpc.job import from_proto_attach_request, to_proto_attach_result
from lakelog.rpc.plan import from_proto_plan_request, to_proto_plan_header
from lakelog.rpc.snapshot import to_proto_snapshot
from lakelog.rpc.table import to_proto_table
from lakelog.rpc.v1 import snapshots_pb2, types_pb2
from lakelog.serving.edge.refusal_lines import RefusalLines
from lakelog.serving.edge.turns import Turns

from ...use_cases import UseCases
from ..audit import note_commit
from ..callers import caller_lost, message_check, principal
from ..edge.requests import Requests, forget_request
from ..edge.sliced_requests import SlicedRequest
from .commit_stream import CommitStream
from .unary import Servicer

Context = grpc.aio.ServicerContext[Any, Any]

# A watch whose client does not read holds one message, and there can be thousands. So a message is small, unless a
# single snapshot is large.
_BYTES_OF_A_MESSAGE: Final = 32 * 1024


class SnapshotServicer(Servicer):
    """Commits, plans and watches.

    Args:
        use_cases: The use cases to call.
        requests: Translates large requests.
        max_in_flight: Commits that are read ahead on one stream, and those of a caller that are under way.
        heartbeat_s: After this long without news a watch sends an empty message, for proxies that cut silent streams.
        draining: Set when the server ends.
        new_id: Generates ids of internal errors.
        refusals: Decides which refused commits of streams have a log line.
    """

    def __init__(
        self,
        use_cases: UseCases,
        requests: Requests,
        *,
        max_in_flight: int,
        heartbeat_s: float,
        draining: asyncio.Event,
        new_id: Callable[[], str],
        refusals: RefusalLines,
    ) -> None:
        super().__init__(snapshots_pb2.DESCRIPTOR.services_by_name["SnapshotService"], use_cases)
        self._use_cases = use_cases
        self._requests = requests
        self._max_in_flight = max_in_flight
        self._turns_of_streams = Turns(max_in_flight)
        self._heartbeat_s = heartbeat_s
        self._draining = draining
        self._new_id = new_id
        self._refusals = refusals

    async def StageAttempt(
        self, request: snapshots_pb2.StageAttemptRequest, context: Context
    ) -> snapshots_pb2.StageAttemptResponse:
        staged = await self._use_cases.staging.stage_attempt(
            tuple(request.table_uuids),
            request.writer,
            attempt_id=request.attempt_id,
            count=request.count or 1,
            identifier=request.identifier if request.HasField("identifier") else None,
            epoch=request.epoch,
            by=principal(),
        )
        return snapshots_pb2.StageAttemptResponse(
            attempt_id=staged.attempt_id,
            tables=[to_proto_table(table) for table in staged.tables],
            further_attempt_ids=staged.further_ids,
        )

    async def Commit(
        self, request: snapshots_pb2.CommitRequest | SlicedRequest[CommitRequest], context: Context
    ) -> snapshots_pb2.CommitResponse:
        commit = await self._requests.translate(request, from_proto_commit_request)
        result = await self._use_cases.gate.commit(commit, by=principal())
        note_commit(result)
        return to_proto_commit_result(result)

    async def CommitStream(self, request_iterator: Any, context: Context) -> None:
        stream = CommitStream(
            self._use_cases.gate,
            self._requests,
            principal(),
            message_check(),
            self._max_in_flight,
            self._turns_of_streams,
            self._draining,
            caller_lost.get(),
            self._new_id,
            self._refusals,
        )
        await stream.run(context)

    async def AttachChangelogs(
        self, request: snapshots_pb2.AttachChangelogsRequest | SlicedRequest[AttachRequest], context: Context
    ) -> snapshots_pb2.AttachChangelogsResponse:
        attachment = await self._requests.translate(request, from_proto_attach_request)
        attached = await self._use_cases.pending_changelogs.attach_changelogs(attachment, by=principal())
        return to_proto_attach_result(attached)

    async def ListSnapshots(
        self, request: snapshots_pb2.ListSnapshotsRequest, context: Context
    ) -> snapshots_pb2.ListSnapshotsResponse:
        page = await self._use_cases.listing.list_snapshots(
            request.table_uuid,
            after=request.after,
            until=request.until,
            limit=request.limit,
            newest=request.newest,
        )
        snapshots = await self._use_cases.work.rows.run(len(page.snapshots), _to_messages, page.snapshots)
        return snapshots_pb2.ListSnapshotsResponse(
            snapshots=snapshots,
            latest_snapshot_id=page.latest_snapshot_id,
            earliest_snapshot_id=page.earliest_snapshot_id,
            earliest_change_id=page.earliest_change_id,
            first_pending_snapshot_id=page.first_pending_snapshot_id,
        )

    async def ListLatest(
        self, request: snapshots_pb2.ListLatestRequest, context: Context
    ) -> snapshots_pb2.ListLatestResponse:
        found = await self._use_cases.listing.list_latest(tuple(request.table_uuids))
        return snapshots_pb2.ListLatestResponse(
            tables=[
                snapshots_pb2.LatestSnapshot(
                    table_uuid=each.table_uuid,
                    snapshot_id=each.snapshot_id,
                    snapshot_uuid=each.snapshot_uuid,
                    earliest_snapshot_id=each.earliest_snapshot_id,
                    earliest_change_id=each.earliest_change_id,
                    last_full_snapshot_id=each.last_full_snapshot_id,
                )
                for each in found
            ]
        )

    async def Plan(
        self, request: snapshots_pb2.PlanRequest, context: Context
    ) -> AsyncIterator[snapshots_pb2.PlanResponse]:
        plan = await self._use_cases.planner.plan(await self._requests.translate(request, from_proto_plan_request))
        # What is left of it is a small part. From here on the caller decides how long the plan is sent.
        del request
        forget_request()
        message = await self._use_cases.work.rows.run(
            len(plan.header.range_snapshots), to_proto_plan_header, plan.header
        )
        yield snapshots_pb2.PlanResponse(header=message)
        async for chunk in plan.chunks:
            yield snapshots_pb2.PlanResponse(
                chunk=snapshots_pb2.PlanChunk(entries=chunk.entries, without_file_ids=chunk.without_file_ids)
            )

    async def Watch(
        self, request: snapshots_pb2.WatchRequest, context: Context
    ) -> AsyncIterator[snapshots_pb2.WatchResponse]:
        positions = [
            WatchPosition(position.table_uuid, position.after, position.after_uuid) for position in request.positions
        ]
        complete = request.complete
        # A watch stays open for as long as its caller wants.
        del request
        forget_request()
        watch = self._use_cases.watches.watch(positions, complete=complete)
        async with aclosing(_with_heartbeats(watch, self._heartbeat_s)) as events:
            async for event in events:
                if event is None:
                    yield snapshots_pb2.WatchResponse()
                    continue
                for response in _to_responses(event):
                    yield response


def _to_messages(snapshots: Sequence[Snapshot]) -> list[types_pb2.Snapshot]:
    return [to_proto_snapshot(snapshot) for snapshot in snapshots]


def _to_responses(event: WatchEvent) -> Iterator[snapshots_pb2.WatchResponse]:
    part: list[types_pb2.Snapshot] = []
    size = 0
    for snapshot in event.snapshots:
        message = to_proto_snapshot(snapshot)
        message_size = message.ByteSize()
        if part and size + message_size > _BYTES_OF_A_MESSAGE:
            yield snapshots_pb2.WatchResponse(table_uuid=event.table_uuid, snapshots=part)
            part, size = [], 0
        part.append(message)
        size += message_size
    yield snapshots_pb2.WatchResponse(table_uuid=event.table_uuid, snapshots=part, dropped=event.dropped)


async def _with_heartbeats(
    events: AsyncIterator[WatchEvent], heartbeat_s: float
) -> AsyncGenerator[WatchEvent | None, None]:
    """The events, and None after each `heartbeat_s` without one."""
    waiting: asyncio.Future[WatchEvent] | None = None
    try:
        while True:
            waiting = waiting or asyncio.ensure_future(anext(events))
            await asyncio.wait({waiting}, timeout=heartbeat_s)
            if not waiting.done():
                yield None
                continue
            done, waiting = waiting, None
            try:
                event = done.result()
            except StopAsyncIteration:
                return
            yield event
    finally:
        if waiting is not None:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        close = getattr(events, "aclose", None)
        if close is not None:
            await close()
