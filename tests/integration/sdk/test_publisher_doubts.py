"""After each doubt a publisher starts afresh, and only then (RELIABILITY.md R2)."""

from __future__ import annotations

import pytest

from lakelog.errors import LakelogError
from lakelog.format.log_state import PublishReport, to_publisher_lease
from lakelog.log.memory import Fault, Step
from tests.integration.sdk.log_world import World, read_log, rows
from writer.publishing import publisher


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
def test_a_transaction_goes_on_behind_another_only_without_a_doubt(
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
    assert publishing.published.fresh_starts == starts
    assert read_log(world, table).snapshot_ids.to_pylist() == [1, 2, 3]


def test_a_problem_that_is_mended_is_no_longer_told_though_nothing_is_left_to_publish(world: World) -> None:
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
