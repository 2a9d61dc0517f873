"""A watch over gRPC that reconnects by itself.

The iterating thread reads the stream directly, so HTTP/2's flow control bounds what waits. A slow reader stops the
server from sending, and after a while the server cuts the watch; the reader then reconnects at its position. Nothing is
lost or doubled, since the position moves with each event that is handed out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import grpc

from lakelog.client.connection.connection import Connection, Session
from lakelog.client.connection.retry import RetryPolicy
from lakelog.client.connection.status import CallKind, from_rpc_error
from lakelog.client.metastore.metastore import WatchEvent, WatchPosition
from lakelog.clock import Clock
from lakelog.errors import InternalError, LakelogError, ResourceExhausted, Unavailable
from lakelog.rpc.snapshot import from_proto_snapshot
from lakelog.rpc.v1 import snapshots_pb2

_CONNECT_S: Final = 5.0
"""The limit of one try to reach the metastore; short, because the close of a watch is noticed only between tries."""


class GrpcWatch:
    """Implements `lakelog.client.metastore.metastore.Watch`.

    Reconnects on `Unavailable` and after a cut for slowness, with backoff, until nothing has arrived for
    `RetryPolicy.watch_total_s`. Ends by itself when all watched tables are dropped. One thread iterates, any may close.
    """

    def __init__(
        self,
        connection: Connection,
        positions: Sequence[WatchPosition],
        *,
        policy: RetryPolicy,
        clock: Clock,
        rng: Callable[[], float],
        complete: bool = False,
    ) -> None:
        self._complete = complete
        self._connection = connection
        self._positions = {position.table_uuid: position for position in positions}
        self._policy = policy
        self._clock = clock
        self._rng = rng
        self._closed = threading.Event()
        self._session: Session | None = None
        self._metadata: tuple[tuple[str, str], ...] = ()
        self._call: grpc.Call | None = None
        self._lock = threading.Lock()

    def __iter__(self) -> Iterator[WatchEvent]:
        """Blocks for the next event; ends when closed."""
        tries = 0
        last_answer_at_s = self._clock.monotonic_s()
        while self._positions and not self._closed.is_set():
            failure: LakelogError
            try:
                for response in self._open():
                    tries, last_answer_at_s = 0, self._clock.monotonic_s()
                    event = self._advance(response)
                    if event is not None:
                        yield event
                    if not self._positions:
                        return
                failure = Unavailable(f"{self._connection.target} ended the watch.")
            except (grpc.RpcError, LakelogError) as error:
                failure = self._translate(error)
            finally:
                self._cancel()
            if self._closed.is_set() or not self._positions:
                return
            tries += 1
            if not self._may_come_back(failure, tries, self._clock.monotonic_s() - last_answer_at_s):
                raise failure
            is_lost = isinstance(failure, Unavailable)
            wait_s = self._policy.come_back_s if is_lost else self._policy.backoff_s
            self._closed.wait(wait_s(tries, self._rng()))

    def close(self) -> None:
        """Ends the watch; idempotent."""
        self._closed.set()
        self._cancel()

    def _open(self) -> Iterator[snapshots_pb2.WatchResponse]:
        request = snapshots_pb2.WatchRequest(
            positions=[
                snapshots_pb2.WatchPosition(
                    table_uuid=position.table_uuid, after=position.after, after_uuid=position.after_uuid
                )
                for position in self._positions.values()
            ],
            complete=self._complete,
        )
        session = self._connection.session(fresh=False, max_unavailable_s=_CONNECT_S)
        self._metadata = self._connection.call_metadata
        call = session.methods.Watch(request, metadata=self._metadata)
        with self._lock:
            self._session, self._call = session, call
        if self._closed.is_set():
            call.cancel()
        return call

    def _may_come_back(self, failure: LakelogError, tries: int, silent_s: float) -> bool:
        if isinstance(failure, ResourceExhausted):
            # Cut for slowness: reconnect only if something has arrived since the last time, else this would never end.
            return tries == 1
        if self._connection.may_sign_in_again(failure, self._metadata):
            return True
        # If no metastore has ever answered, the target is more likely wrong than the metastore away.
        return isinstance(failure, Unavailable) and self._connection.is_known and silent_s < self._policy.watch_total_s

    def _cancel(self) -> None:
        with self._lock:
            call, self._call = self._call, None
        if call is not None:
            call.cancel()

    def _translate(self, error: grpc.RpcError | LakelogError) -> LakelogError:
        if isinstance(error, LakelogError):
            return error
        if self._session is not None:
            self._connection.failed(self._session)
        return from_rpc_error(
            error, kind=CallKind.READ, method="Watch", target=str(self._connection.target), deadline_s=None
        )

    def _advance(self, response: snapshots_pb2.WatchResponse) -> WatchEvent | None:
        position = self._positions.get(response.table_uuid)
        if position is None:  # A sign of life, or a table that is dropped already.
            return None
        snapshots = tuple(
            [from_proto_snapshot(found) for found in response.snapshots if found.snapshot_id > position.after]
        )
        if snapshots:
            if snapshots[0].snapshot_id != position.after + 1:
                raise InternalError(
                    f"The watch of table {position.table_uuid} left out snapshots between {position.after} and "
                    f"{snapshots[0].snapshot_id}. Open it again from {position.after}.",
                    metadata={"table_uuid": position.table_uuid, "after": str(position.after)},
                )
            last = snapshots[-1]
            self._positions[position.table_uuid] = WatchPosition(
                position.table_uuid, last.snapshot_id, last.snapshot_uuid
            )
        if response.dropped:
            del self._positions[position.table_uuid]
        return WatchEvent(position.table_uuid, snapshots, response.dropped) if snapshots or response.dropped else None
