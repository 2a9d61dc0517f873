"""Publishers that die, freeze and are answered late: a plain consumer sees each row once, in order, snapshots whole."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from lakelog.errors import HistoryDiverged
from lakelog.format.log.state import LogInfo, SnapshotOffsets
from lakelog.log.records import LogSnapshot
from lakelog.testing.log_history import LogViolation
from tests.simulation.actors import World
from tests.simulation.publishers import LogWorld, PublisherHabits, find_wrong, judge, make_parts
from tests.simulation.running import simulate
from writer.publishing import publisher
from writer.publishing.publisher import TablePublisher
from writer.publishing.recovery import RecoveryFacts, find_resume


def publish(seed: int, loop: asyncio.AbstractEventLoop, log: LogWorld, alterers: int = 0) -> Counter[str]:
    """A history with publishers; the faults that took effect. AssertionError: a consumer saw what it must not."""
    world = simulate(seed, loop, log=log, alterers=alterers, request_lost=0.01, reply_lost=0.02)
    try:
        found = judge(world, log)
    except HistoryDiverged as error:
        raise AssertionError(f"seed {seed}: {error.message}") from error
    assert not found, f"seed {seed}: {'; '.join(map(str, found))}"
    assert not log.diverged, f"seed {seed}: {log.diverged}"
    return Counter(world.faults.injected)


@pytest.mark.parametrize("seed", range(1, 7))
def test_every_history_is_published_once(seed: int, loop: asyncio.AbstractEventLoop) -> None:
    log = LogWorld()
    faults = publish(seed, loop, log)
    assert sum(count for name, count in faults.items() if name.startswith("commit:")) > 3
    assert log.producer_reinits > 10
    assert log.fenced > 0
    assert log.forgotten > 0


@pytest.mark.parametrize("seed", range(1, 4))
def test_a_history_with_changes_of_columns_is_published_once(seed: int, loop: asyncio.AbstractEventLoop) -> None:
    publish(seed, loop, LogWorld(), alterers=1)


@pytest.mark.parametrize("restarts", [True, False], ids=["protected", "control"])
def test_a_publisher_goes_on_after_errors(
    restarts: bool, loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it had begun is given up: the next step is a restart. Without it a row is lost or comes twice."""
    if not restarts:
        step = TablePublisher.step

        def step_without_restart(publisher: TablePublisher, wait_s: float) -> Any:
            with monkeypatch.context() as patched:
                patched.setattr(publisher, "forget", lambda: None)
                return step(publisher, wait_s)

        monkeypatch.setattr(TablePublisher, "step", step_without_restart)
        with pytest.raises(AssertionError, match=LogViolation.LOST.name):  # noqa: PT012 - the first that finds it
            for seed in range(3, 43):
                publish(seed, loop, LogWorld(go_on=True))
        return
    for seed in (1, 2, 3):
        publish(seed, loop, LogWorld(go_on=True))


@pytest.mark.parametrize(
    ("off", "seed", "expected"),
    [
        ("one_id", 2, LogViolation.DUPLICATE.name),
        # What was torn off stands behind the position: the next fresh start notices, and stops.
        ("check_duplicate_sends", 7, r"holds a record of snapshot \d+ behind the position"),
        ("unknown_is_open", 1, LogViolation.LOST.name),
        ("position_of_the_log", 1, LogViolation.DUPLICATE.name),
        ("look_at_the_tail", 11, LogViolation.DUPLICATE.name),
    ],
)
def test_each_habit_is_missed_when_it_is_off(
    off: str, seed: int, expected: str, loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    habits = replace(PublisherHabits(), **{off: False})

    def find_with_habits(info: Any, known: Any, history: Any) -> Any:
        return find_resume(info, find_wrong(known, habits), history)

    monkeypatch.setattr(publisher, "find_resume", find_with_habits)
    with pytest.raises(AssertionError, match=expected):  # noqa: PT012 - the first that finds it
        for each in range(seed, seed + 40):
            publish(each, loop, LogWorld(habits=habits))


@pytest.mark.parametrize("seed", range(1, 5))
def test_a_log_restarted_holds_what_comes_after_its_beginning(seed: int, loop: asyncio.AbstractEventLoop) -> None:
    log = LogWorld(restarts=4)
    publish(seed, loop, log)


def test_a_log_restarted_holds_more_where_no_one_looks_again(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor reads what the topic holds up to its ends: that waits for the transactions that are open."""

    def report_end(_info: LogInfo, known: RecoveryFacts, last: LogSnapshot, *_: Any) -> list[SnapshotOffsets]:
        return [SnapshotOffsets(last.snapshot_id, last.snapshot_uuid, known.ends)]

    monkeypatch.setattr("writer.publishing.publisher.may_begin_later", lambda info, known: False)
    monkeypatch.setattr("writer.publishing.publisher.find_ends", report_end)
    with pytest.raises(AssertionError, match=LogViolation.ABORTED_READ.name):  # noqa: PT012 - the first that finds it
        for each in range(8, 48):
            publish(each, loop, LogWorld(restarts=4))


def recreate_topic(loop: asyncio.AbstractEventLoop) -> tuple[World, LogWorld, TablePublisher]:
    """A history that was published, whose topic was deleted and made again; and who is to publish it next."""
    log = LogWorld()
    world = simulate(1, loop, log=log)
    assert judge(world, log) == []
    metastore = world.auditing_catalog().metastore
    (info,) = metastore.list_logs()
    topic = log.cluster.get_topic(info.topic)
    log.cluster.delete_topic(info.topic)
    log.cluster.create_topic(topic.spec, topic.settings)
    return world, log, TablePublisher(info.table_uuid, 0, make_parts(world, log, metastore, plain=True))


def test_a_topic_that_was_recreated_is_noticed(loop: asyncio.AbstractEventLoop) -> None:
    *_, publisher = recreate_topic(loop)
    with pytest.raises(HistoryDiverged, match="was made anew"):
        publisher.step(0.0)


def test_without_a_look_at_the_topic_its_log_begins_in_the_middle(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, log, _ = recreate_topic(loop)
    monkeypatch.setattr("writer.publishing.recovery._check_topic", lambda info, known: None)
    monkeypatch.setattr("writer.publishing.recovery._check_retained", lambda info, known: None)
    assert {finding.violation for finding in judge(world, log)} == {LogViolation.LOST}
