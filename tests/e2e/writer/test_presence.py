"""A pipeline's process is listed while it runs."""

from __future__ import annotations

import signal

import pytest

from lakelog.format.jobs.presence import Liveness, Service, ServiceState
from tests.e2e.writer.world import World, Writer

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]


def find(world: World, writer: Writer) -> Service | None:
    return next((service for service in world.catalog.services() if service.pid == writer.process.pid), None)


def test_a_pipeline_starts_runs_and_ends(world: World) -> None:
    world.write_pipeline(trigger='{interval: "1 s"}')
    world.add_files(1)
    writer = world.start("--metrics-port", "0")
    seen: list[ServiceState] = []

    def runs() -> bool:
        found = find(world, writer)
        if found is not None and found.state not in seen:
            seen.append(found.state)
        return ServiceState.RUNNING in seen

    world.until(runs)
    found = find(world, writer)
    assert found is not None
    assert (found.kind, found.work, found.liveness) == ("writer", (world.name,), Liveness.PRESENT)
    assert found.metrics.startswith("127.0.0.1:")
    # Spark takes long: before it runs, it is listed as starting.
    assert seen == [ServiceState.STARTING, ServiceState.RUNNING]
    world.until(world.has_all_rows_once)
    writer.send(signal.SIGTERM)
    assert writer.wait() == 0, writer.text()
    assert find(world, writer) is None
