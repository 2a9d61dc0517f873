"""Subscribers of the simulation: slow, dying, frozen, fenced by their successors, going on by their consumer.

Each keeps the table from its changes alone, in a sink that outlives it: first the rows and the snapshot that they are,
written at once, then the position, then what may be done once only. Whoever comes back knows by the sink what it had
handled before its position was kept.
"""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa

from lakelog.errors import Fenced, InvalidArgument, OutcomeUnknown, Unavailable
from lakelog.format.retention.consumer import ConsumerPosition
from lakelog.format.tables.table import TableName
from lakelog.reads.continued_columns import COLUMNS_CHANGED
from lakelog.reads.streams.batch import Position, StreamBatch
from lakelog.reads.streams.open_stream import OpenStream, open_stream
from lakelog.reads.streams.request import StreamRequest
from lakelog.sdk.catalog import Catalog
from tests.simulation.actors import TABLE, Sink, World, as_simulated, fold_history

CONSUMER_LIFETIME_S = 10.0
"""How long a consumer keeps its position without a reader, where consumers expire."""


class ForwardCalls:
    """The calls of a reader that takes whatever epoch its consumer has for its own."""

    def __init__(self, calls: Any) -> None:
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        return getattr(self._calls, name)

    def advance_consumer(self, consumer_id: str, positions: list[ConsumerPosition]) -> None:
        """Moves the position whoever has taken over; where that one is further, all the better."""
        found = {each.consumer_id: each for each in self._calls.list_consumers(positions[0].table_uuid)}
        with suppress(InvalidArgument):
            self._calls.advance_consumer(
                consumer_id, [replace(each, epoch=found[consumer_id].epoch) for each in positions]
            )


def read(world: World, consumer: str, mode: str) -> None:
    """Reads until nobody commits any more, or until another reader has taken over."""
    if world.scheduler.random.random() < world.late_readers:
        world.scheduler.sleep(world.scheduler.random.uniform(1, 3) * CONSUMER_LIFETIME_S)
    while True:
        try:
            _follow(world, consumer, mode)
        except (Unavailable, OutcomeUnknown):
            world.scheduler.sleep(1)
        except Fenced:
            world.sinks[consumer].fenced += 1
            return
        except InvalidArgument as error:
            if error.reason != COLUMNS_CHANGED:
                raise
            world.sinks[consumer].broken += 1
        else:
            return


def _follow(world: World, consumer: str, mode: str) -> None:
    catalog = world.catalog()
    if not world.habits.own_epoch:
        calls: Any = ForwardCalls(catalog.metastore)
        forwarded = Catalog(
            calls, world.stores, clock=catalog.context.clock, rng=catalog.context.rng, cache_folder=world.cache_folder
        )
        catalog = as_simulated(forwarded)
    table = catalog.metastore.get_table(TableName(*TABLE.split(".")))
    options = {"consumer-id": consumer, "scan.mode": mode, "streaming-read-overwrite": "true"}
    options |= {"scan.snapshot-id": "1"} if mode == "from-snapshot" else {}
    if world.late_readers:
        options["scan.expired-position"] = "full"
    stream = open_stream(catalog.context, [table], StreamRequest(options), holder=consumer)
    sink = world.sinks[consumer]
    # Without a position it begins anew, whatever was handled, and with rows where what came next has expired.
    goes_on = bool(stream.positions) and not stream.points[0].from_state
    if not goes_on and sink.handled:
        sink.restarted += 1
        sink.handled.clear()
    rows, at = (dict(sink.rows), sink.at) if goes_on else ({}, 0)
    kept = stream.positions[TABLE].snapshot_id if goes_on else -1
    pending: list[StreamBatch] = []
    with closing(stream.follower.follow()) as changes:  # type: ignore[type-var]
        for progress in changes:
            if progress.batch is not None:
                pending.append(progress.batch)
            if not world.habits.keep_position_when_done and progress.done:
                _keep(world, stream, progress.done)
            world.scheduler.pause("handles rows")
            if world.scheduler.random.random() < 0.2:
                world.scheduler.sleep(world.scheduler.random.uniform(0.5, 8))
            if not progress.done:
                continue
            reached = progress.done[TABLE].snapshot_id
            for batch in pending:
                if batch.snapshot_id > at:
                    apply(rows, batch.data, f"{consumer} at snapshot {batch.snapshot_id}")
            pending = []
            at = max(at, reached)
            _write(sink, rows, at)
            if reached > kept:
                if world.habits.keep_position_when_done:
                    _keep(world, stream, progress.done)
                sink.handled.append(reached)
                kept = reached


def _write(sink: Sink, rows: dict[int, str], at: int) -> None:
    """One transaction of the sink; of two readers the one that is further counts."""
    if at > sink.at:
        sink.rows, sink.at = dict(rows), at
        sink.states[at] = dict(rows)


def _keep(world: World, stream: OpenStream, done: Any) -> None:
    """Keeps a position; where its outcome is not known, again: it is where it is."""
    positions: dict[str, Position] = dict(done)
    while True:
        try:
            stream.keep(positions)
        except (Unavailable, OutcomeUnknown):
            world.scheduler.sleep(1)
        else:
            return


def apply(rows: dict[int, str], data: pa.RecordBatch, who: str) -> None:
    """Takes changes; AssertionError where they do not fit what is there."""
    for row in data.to_pylist():
        kind, key, value = row["_row_kind"], row["k"], row["v"]
        if kind in ("-U", "-D"):
            assert key in rows, f"{who}: {kind} of {key}, which is not there"
            assert rows[key] == value, f"{who}: {kind} {value} of {key}, but {rows[key]} is there"
            del rows[key]
        else:
            assert key not in rows, f"{who}: {kind} {value} of {key}, but {rows[key]} is there"
            rows[key] = value


def audit(world: World) -> None:
    """Holds all that sinks ever were against the table; AssertionError for what differs, or was handled twice."""
    table = world.auditing_catalog().table(TABLE)
    latest = max(table.snapshots().column("id").to_pylist())
    # Also of snapshots that have expired since.
    known = {snapshot.snapshot_id: dict(state) for snapshot, state in fold_history(world)}
    for consumer, sink in world.sinks.items():
        for at, rows in sink.states.items():
            assert rows == known[at], f"{consumer} differs from the table at snapshot {at}"
        assert sink.at == latest, f"{consumer} ended at snapshot {sink.at} of {latest}"
        twice = {each for each in sink.handled if sink.handled.count(each) > 1}
        assert not twice, f"{consumer}: snapshots {sorted(twice)} were handled twice"
