"""A log that is begun anew beside whoever publishes the generation before it, and does not know yet that it is over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakelog.errors import Fenced, HistoryDiverged
from lakelog.log.memory import MemoryLog
from lakelog.sdk.maintenance.log_verification import verify_log
from lakelog.sdk.tables.table import Table
from tests.support.log.log_world import World, read_log, rows
from tests.support.log.logging_tables import HandPublisher, read_all, to_rows
from writer.publishing.publisher import Step

Hook = Callable[[], None]


class HeldProducer:
    """A log whose producer does something just before it starts, or commits, for the first time."""

    def __init__(self, inner: Any, step: str, before: Hook) -> None:
        self._inner, self._step, self._before = inner, step, [before]

    def __getattr__(self, name: str) -> Any:
        if name == self._step and self._before:
            self._before.pop()()
        return getattr(self._inner, name)

    def open_producer(self, *names: str) -> Any:
        held = HeldProducer(self._inner.open_producer(*names), self._step, lambda: None)
        held._before = self._before
        return held


def make(world: World, *values: int) -> Table:
    table = world.make_unpublished()
    write(table, *values)
    return table


def write(table: Table, *values: int) -> None:
    for value in values:
        table.append(rows((value, value)))


def publish(world: World, table: Table) -> None:
    publisher = HandPublisher(world.metastore, world.cluster, table)
    publisher.publish()
    publisher.close()


def restart_before_commit(world: World, table: Table) -> None:
    """Has a publisher commit a transaction of all there is behind a restart that it knows nothing of."""
    done: list[int] = []

    def restart() -> None:
        done.append(world.metastore.restart_log(table.uuid).generation)

    publisher = hold(world, table, "commit", restart)
    with pytest.raises(HistoryDiverged, match="was restarted"):
        publisher.publish()
    publisher.close()
    assert done == [2]


def find_beginning(world: World, table: Table) -> tuple[int, ...]:
    starts_after = world.metastore.get_log(table.uuid).starts_after
    found = world.metastore.find_log_offsets(table.uuid, until=starts_after)
    return () if found is None else found.offsets


def read_after(world: World, table: Table) -> list[int | None]:
    """The snapshots of the records that a plain consumer sees that begins where the log does."""
    found = read_log(world, table)
    begins = find_beginning(world, table)
    return found.snapshot_ids.filter(found.offsets >= (begins[0] if begins else 0)).to_pylist()


def read_stream(table: Table, first: int, newest: int) -> list[tuple[object, ...]]:
    options = {"scan.snapshot-id": str(first), "streaming-read-mode": "log"}
    with table.subscribe(scan_mode="from-snapshot", options=options) as stream:
        return to_rows(read_all(stream, newest))


def test_a_log_begins_after_what_was_in_hand_when_it_was_restarted(world: World) -> None:
    table = make(world, 1, 2)
    restart_before_commit(world, table)
    assert find_beginning(world, table) == (), "nothing stood in the topic"
    write(table, 3)
    publish(world, table)
    # Two records, and the end of their transaction.
    assert find_beginning(world, table) == (3,)
    assert read_after(world, table) == [3]
    assert read_stream(table, 3, 3) == [(3, 3, 3)]
    info, metastore = world.metastore.get_log(table.uuid), world.metastore
    store = world.catalog.open_store(metastore.get_table_by_uuid(table.uuid))
    found = verify_log(metastore, info, MemoryLog(world.cluster), store, world.commits)
    assert (found.is_fine, found.earlier, found.rows) == (True, 2, 1)


def test_control_it_begins_with_what_was_in_hand(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("writer.publishing.publisher.may_begin_later", lambda info, known: False)
    table = make(world, 1, 2)
    restart_before_commit(world, table)
    write(table, 3)
    publish(world, table)
    assert read_after(world, table) == [1, 2, 3], "a consumer that has read the table sees its rows again"


def test_what_was_sent_of_the_new_generation_is_not_sent_again(world: World) -> None:
    table = make(world, 1)
    old = HandPublisher(world.metastore, world.cluster, table)
    old.publish()
    write(table, 2)
    assert world.metastore.restart_log(table.uuid).starts_after == 2
    # It stands before the new beginning, and nobody has told whoever publishes.
    write(table, 3)
    with pytest.raises(HistoryDiverged, match="was restarted"):
        old.publish()
    publish(world, table)
    write(table, 4)
    publish(world, table)
    assert read_log(world, table).snapshot_ids.to_pylist() == [1, 2, 3, 4]
    assert read_after(world, table) == [3, 4]
    assert read_stream(table, 3, 4) == [(3, 3, 3), (4, 4, 4)]


def test_who_was_frozen_before_a_log_was_restarted_does_not_take_it_back(world: World) -> None:
    table = make(world, 1)
    frozen = freeze_before_start(world, table)
    with pytest.raises(Fenced, match="restarted, as its generation 2"):
        frozen.step()
    write(table, 4)
    # A fresh start knows better.
    frozen.publish()
    frozen.close()
    assert read_after(world, table) == [4]


def test_control_it_takes_the_log_back(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("writer.publishing.publisher.TablePublisher._check_generation", lambda publisher, info: None)
    table = make(world, 1)
    frozen = freeze_before_start(world, table)
    assert frozen.step() is Step.STARTED
    with pytest.raises(HistoryDiverged, match="was restarted"):
        frozen.publisher.step(5)
    assert read_after(world, table) == [2], "what the generation leaves out"


def freeze_before_start(world: World, table: Table) -> HandPublisher:
    """A publisher of snapshot 2 that has looked all up, and fences others when the log was begun anew and published."""
    publish(world, table)
    write(table, 2)

    def restart() -> None:
        world.metastore.restart_log(table.uuid)
        # Published without a record: of those the last would tell that something is wrong.
        table.overwrite(rows((3, 3)))
        publish(world, table)

    return hold(world, table, "start", restart)


def hold(world: World, table: Table, step: str, before: Hook) -> HandPublisher:
    held: Any = HeldProducer(MemoryLog(world.cluster), step, before)
    return HandPublisher(world.metastore, lambda info: held, table)
