"""A publisher that has long had nothing to publish keeps no producer; the next snapshot is published all the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integration.sdk.moved_clock import MovedClock
from tests.support.log.log_world import World, read_log, rows
from tests.support.log.logging_tables import HandPublisher
from writer.publishing import session
from writer.publishing.publisher import Step


@pytest.mark.parametrize(("idle_s", "rests"), [(session.REST_AFTER_S - 10, False), (session.REST_AFTER_S + 1, True)])
def test_who_has_nothing_to_publish_rests(tmp_path: Path, idle_s: float, rests: bool) -> None:
    world, clock = World(tmp_path), MovedClock()
    table = world.make_unpublished()
    publisher = HandPublisher(world.metastore, world.cluster, table, clock)
    for number in (1, 2):
        table.append(rows((number, number)))
        publisher.publish()
        clock.ahead_s += idle_s
        for _ in range(2):
            assert publisher.step() is Step.IDLE
        assert producer_of(publisher).can_go_on is not rests
    publisher.close()
    assert publisher.publisher.published.producer_reinits == (2 if rests else 1)
    assert read_log(world, table).snapshot_ids.to_pylist() == [1, 2]
    world.close()


def producer_of(publisher: HandPublisher) -> Any:
    found = publisher.publisher._session
    assert found is not None, "it is no doubt"
    return found.producer
