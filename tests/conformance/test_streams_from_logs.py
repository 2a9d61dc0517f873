"""Section 5 through subscriptions out of tables' logs, which show what those out of files do (semantics 4.6)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from lakelog.clock import SystemClock
from tests.conformance import cases_full_compaction, cases_stream_positions, cases_stream_shown, cases_stream_starts
from tests.conformance.drivers import SdkDriver
from tests.conformance.language import Step, TableSpec
from tests.conformance.stream_drivers import SubscriptionDriver
from tests.conformance.stream_language import Act, Again, Forget, StreamCase, check_stream
from tests.support.log.log_world import World
from tests.support.log.logging_tables import HandPublisher


def acts_of(case: StreamCase) -> Iterator[Act]:
    """All that happens, also while the stream is stopped."""
    for act in (*case.history, *case.then):
        yield act
        if isinstance(act, Again):
            yield from act.meanwhile


def has_log(case: StreamCase) -> bool:
    """Whether a log may stand behind the case, and says the same.

    What expires is expired by SQL there, and times of records are others than those of commits.
    """
    times = any(key == "scan.timestamp-millis" for key in case.options)
    return not times and not any(isinstance(act, Forget) for act in acts_of(case))


CASES = [
    case
    for case in (
        *cases_stream_starts.CASES,
        *cases_stream_shown.CASES,
        *cases_stream_positions.CASES,
        *cases_full_compaction.STREAMS,
    )
    if has_log(case)
]


class LoggedDriver(SubscriptionDriver):
    """Subscriptions to tables with a log, which is published behind each commit."""

    def __init__(self, world: World) -> None:
        self.catalog = world.catalog
        self._world = world
        self._tables = SdkDriver(world.catalog)
        self._publishers: dict[str, HandPublisher] = {}

    def create(self, table: TableSpec) -> str:
        name = super().create(replace(table, options={"log.system": "kafka", **table.options}))
        self._publishers[name] = self._world.publish(self.catalog.table(name))
        return name

    def act(self, name: str, table: TableSpec, act: Act) -> None:
        super().act(name, table, act)
        if not isinstance(act, Step) or act.error is None:
            self._publishers[name].publish()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World(tmp_path_factory.mktemp("logs"), SystemClock())
    yield world
    world.close()


@pytest.mark.parametrize("case", CASES, ids=[case.rule.replace(" ", "-") for case in CASES])
def test_rule(case: StreamCase, world: World) -> None:
    check_stream(LoggedDriver(world), case)


def test_it_is_logs_that_are_read(world: World) -> None:
    (case,) = (each for each in CASES if each.rule == "5.2 an overwrite while it runs")
    uses = world.uses
    check_stream(LoggedDriver(world), case)
    assert world.uses > uses
    by_files = replace(case, options={**case.options, "streaming-read-mode": "file"})
    uses = world.uses
    check_stream(LoggedDriver(world), by_files)
    assert world.uses == uses
