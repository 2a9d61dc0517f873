"""The wall clock of a publisher steps by hours and days: each snapshot reaches a plain consumer, once and in order."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest

from bench.faults.lab import LEASE_S, FaultLab
from bench.faults.tables import SCHEMA, VALUE, WHOLE_ROWS
from lakelog.testing.log_recording import check_recording
from tests.support.clock_steps import DAY_S, HOUR_S, SteppedClock
from tests.support.log.kafka_broker import require_kafka
from tests.support.repository import ROOT

pytestmark = pytest.mark.e2e

STEPS_S = (0, HOUR_S, -HOUR_S, DAY_S, -DAY_S, 0)
STOPS_POLLING = """
import sys, time
from confluent_kafka import Producer
from lakelog.log.kafka import polling

server, bound_s = sys.argv[1:]
polling._STOP_WAIT_S = float(bound_s)
# No error arrives, which would end a wait.
patient = {"socket.connection.setup.timeout.ms": 300_000, "api.version.request.timeout.ms": 300_000}
poller = polling.Poller(Producer({"bootstrap.servers": server, **patient}), print)
time.sleep(2)
print("polls", flush=True)
input()
poller.stop()
"""
LONG_S = 10.0


def start(words: list[str], clock: SteppedClock) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **clock.environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_a_publisher_goes_on_when_its_clock_steps() -> None:
    require_kafka()
    clock = SteppedClock()
    with (
        tempfile.TemporaryDirectory(prefix="ll-clock-log-", ignore_cleanup_errors=True) as name,
        FaultLab(Path(name)).running(publishers=()) as lab,
        lab.connect() as catalog,
    ):
        table = lab.make_table(catalog, keyed=False)
        words = ["--tables", table.name, "--target", lab.stack.target, "--lease-seconds", f"{LEASE_S:g}"]
        with lab.record(table) as recorder, start(["-m", "writer", "publish", *words], clock) as publisher:
            try:
                for number, step_s in enumerate(STEPS_S, start=1):
                    clock.step(step_s)
                    rows = {"k": list(range(6)), "v": [f"{number}.{row}" for row in range(6)]}
                    table.append(pa.table(rows, schema=SCHEMA))
                    assert lab.drain(table).problem == ""
            finally:
                publisher.terminate()
            assert not check_recording(recorder.stop(), table, row=VALUE, whole_rows=WHOLE_ROWS)


@pytest.mark.slow
@pytest.mark.parametrize("bound_s", [2, 60], ids=["", "control"])
def test_a_client_of_kafka_ends_though_the_clock_was_set_back(bound_s: int) -> None:
    """An idle client's waits end by the wall clock, an hour later than they should: a producer could not be ended."""
    clock = SteppedClock()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = f"127.0.0.1:{silent.getsockname()[1]}"
        with start(["-c", STOPS_POLLING, server, str(bound_s)], clock) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stdout.readline() == "polls\n"
            clock.step(-HOUR_S)
            process.stdin.write("\n")
            process.stdin.flush()
            try:
                code = process.wait(LONG_S)
            except subprocess.TimeoutExpired:
                process.kill()
                code = None
    assert code == (0 if bound_s < LONG_S else None)
