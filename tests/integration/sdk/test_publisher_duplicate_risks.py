"""After each doubt a publisher starts afresh, and only then (reliability R2)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lakelog.errors import LakelogError
from lakelog.format.log.state import PublishReport, to_publisher_lease
from lakelog.format.tables.snapshot import Snapshot
from lakelog.log.memory import Fault, Step
from tests.support.log.log_world import SCHEMA, World, read_log, rows
from tests.support.log.logging_tables import HandPublisher
from writer.publishing import publisher
from writer.publishing.reading.feed import WatchFeed
from writer.publishing.transactions import TransactionLimits


@pytest.mark.parametrize(
    ("step", "fault", "starts"),
    [
        (None, None, 1),
        (Step.COMMIT, Fault.DOUBLED, 2),
        (Step.COMMIT, Fault.LOST_ANSWER, 2),
        (Step.COMMIT, Fault.REFUSED, 2),
        (Step.SEND, Fault.LOST_ANSWER, 2),
        (Step.SEND, Fault.REFUSED, 2),
    ],
)
def test_a_transaction_goes_on_after_another_only_without_a_duplicate_risk(
    world: World, step: Step | None, fault: Fault | None, starts: int
) -> None:
    table, hand = world.make(keyed=False)
    publishing = hand.publisher
    table.append(rows((1, 1)))
    hand.publish()
    if step is not None and fault is not None:
        world.cluster.script(step, fault)
    table.append(rows((2, 2)))
    for number in (2, 3):
        while world.metastore.get_publish_state(table.uuid).snapshot_id < number:
            try:
                publishing.step(0.05)
            except LakelogError:
                assert fault is not Fault.DOUBLED
        if number == 2:
            table.append(rows((3, 3)))
    world.cluster.deliver_late()
    assert publishing.published.producer_reinits == starts
    assert read_log(world, table).snapshot_ids.to_pylist() == [1, 2, 3]


def test_a_problem_that_is_mended_is_no_longer_reported_though_nothing_is_left_to_publish(world: World) -> None:
    table, hand = world.make(keyed=False)
    table.append(rows((1, 1)))
    hand.publish()
    metastore = world.metastore
    epoch = metastore.acquire_lease(to_publisher_lease(table.uuid), "test", 600_000).epoch
    metastore.report_published(PublishReport(table.uuid, 1, epoch, problem="The brokers are away."))
    assert metastore.get_publish_state(table.uuid).problem
    hand.close()
    assert hand.step() is publisher.Step.STARTED
    state = metastore.get_publish_state(table.uuid)
    assert (state.problem, state.snapshot_id) == ("", 1)


def test_that_a_log_is_looked_after_is_reported_before_anything_is_published(world: World) -> None:
    table, hand = world.make()
    assert world.metastore.get_publish_state(table.uuid).reported_at_ms == 0
    assert hand.step() is publisher.Step.STARTED
    assert world.metastore.get_publish_state(table.uuid).reported_at_ms > 0


@pytest.mark.parametrize("reported", [0, 2], ids=["a snapshot and a part of the next", "a part"])
def test_what_was_never_reported_is_reported_after_a_restart(
    world: World, monkeypatch: pytest.MonkeyPatch, reported: int
) -> None:
    table = world.catalog.create_table(
        "shop.orders", schema=SCHEMA, primary_key=["k"], options={"log.system": "kafka", "bucket": "2"}
    )
    for number in (1, 2):
        # 2 is in bucket 0, 1 in bucket 1.
        table.upsert(rows((1, number), (2, number)))
    # Each bucket of a snapshot in a transaction of its own.
    limits = TransactionLimits(rows=1, chunk_records_bytes=1)
    hand = HandPublisher(world.metastore, world.cluster, table, limits=limits)
    hand.step()
    waits: list[float] = []
    take = WatchFeed.take

    def note(feed: WatchFeed, wait_s: float) -> Sequence[Snapshot]:
        waits.append(wait_s)
        return take(feed, wait_s)

    monkeypatch.setattr(WatchFeed, "take", note)
    for number in range(3):
        if number == reported:
            # As after a metastore's database was set back.
            monkeypatch.setattr(world.metastore, "report_published", lambda report: None)
        assert hand.publisher.step(10.0) is publisher.Step.PUBLISHED
    assert waits[:2] == [10.0, 0.0], "who has something to publish does not wait for more"
    hand.close()
    monkeypatch.undo()
    state = world.metastore.get_publish_state(table.uuid)
    assert (state.snapshot_id, state.next_index) == ((0, 0) if reported == 0 else (1, 0))
    assert hand.step() is publisher.Step.STARTED
    state = world.metastore.get_publish_state(table.uuid)
    assert (state.snapshot_id, state.next_index) == (1, 1)
    hand.publish()
    hand.close()
    assert sorted(read_log(world, table).snapshot_ids.to_pylist()) == [1, 1, 2, 2]
