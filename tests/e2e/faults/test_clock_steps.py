"""The wall clock of one service, of the client or of Postgres steps by hours and days while all of them work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import lakelog
from lakelog.embedded import postgres as embedded
from lakelog.embedded.ports import free_ports
from lakelog.embedded.services import is_serving
from lakelog.embedded.stack import EmbeddedStack
from tests.e2e.faults.clock_client import SCHEMA, WITHIN_S
from tests.support.clock_steps import DAY_S, HOUR_S, SteppedClock
from tests.support.repository import ROOT

pytestmark = pytest.mark.e2e

WHOSE = ("metastore", "reader", "compactor", "client", "postgres")
STEPS_S = (HOUR_S, -HOUR_S, DAY_S, -DAY_S, 0)
PRINT_TIME = "import time; input(); print(time.time())"


@dataclass
class Clocks:
    """A stack each of whose processes has a clock of its own."""

    stack: EmbeddedStack
    reader: str
    clocks: dict[str, SteppedClock]


@pytest.fixture(scope="module")
def clocks() -> Iterator[Clocks]:
    with (
        tempfile.TemporaryDirectory(prefix="ll-clk-", ignore_cleanup_errors=True) as text,
        pytest.MonkeyPatch.context() as patch,
    ):
        folder = Path(text)
        clocks = {name: SteppedClock() for name in WHOSE}
        plain = embedded._server_environment
        of_postgres = clocks["postgres"].environment
        patch.setattr(embedded, "_server_environment", lambda programs: {**plain(programs), **of_postgres})
        of_metastore = {**os.environ, **clocks["metastore"].environment}
        with EmbeddedStack(folder / "stack", environment=of_metastore) as stack:
            reader = f"127.0.0.1:{free_ports(1)[0]}"
            shared = {"LAKELOG_TARGET": stack.target}
            # It starts while the reader does, which is waited for.
            stack.add_service("compactor", ["run"], environment={**shared, **clocks["compactor"].environment})
            stack.add_service(
                "reader",
                ["serve", "--listen", reader, "--insecure-dev"],
                environment={**shared, **clocks["reader"].environment},
                is_ready=lambda: is_serving(reader),
            )
            yield Clocks(stack, reader, clocks)


@pytest.mark.parametrize("seed", range(len(WHOSE)), ids=WHOSE)
def test_all_go_on_when_one_clock_steps(clocks: Clocks, seed: int) -> None:
    clock, name = clocks.clocks[WHOSE[seed]], f"clk.{WHOSE[seed]}"
    with lakelog.connect(clocks.stack.target) as catalog:
        catalog.create_database("clk", if_not_exists=True)
        catalog.create_table(name, SCHEMA, primary_key=["k"], options={"bucket": "1"})
        with client(clocks, name) as process:
            done(process, 1)
            for number, step_s in enumerate(STEPS_S, start=2):
                clock.step(step_s)
                done(process, number)
            seen = finish(process)
        table = catalog.table(name)
        count = len(STEPS_S) + 1
        assert sorted(table.scan().to_arrow().column("v").to_pylist()) == list(range(1, count + 1))
        assert seen == list(range(1, count + 1)), "rows came twice, never, or in another order"
        snapshots = table.snapshots().to_pylist()
        assert [each["id"] for each in snapshots] == list(range(1, len(snapshots) + 1))
        times = [each["committed_at"] for each in snapshots]
        assert times == sorted(times)
        assert len(snapshots) > count, "nothing was compacted"


def test_control_the_clock_of_a_process_is_stepped(clocks: Clocks) -> None:
    """Else the tests above would show nothing."""
    clock = clocks.clocks["client"]
    environment = {**os.environ, **clock.environment}
    with subprocess.Popen(
        [sys.executable, "-c", PRINT_TIME], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        clock.step(DAY_S)
        shown, _ = process.communicate("\n")
        clock.step(0)
    plain = subprocess.run([sys.executable, "-c", PRINT_TIME], input="\n", capture_output=True, text=True, check=True)
    assert DAY_S - 600 < float(shown) - float(plain.stdout) < DAY_S + 600


def client(clocks: Clocks, table: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.e2e.faults.clock_client", clocks.stack.target, clocks.reader, table],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **clocks.clocks["client"].environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def done(process: subprocess.Popen[str], number: int) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{number}\n")
    process.stdin.flush()
    assert read_line(process) == str(number)


def finish(process: subprocess.Popen[str]) -> list[int]:
    assert process.stdin is not None
    process.stdin.close()
    word, _, seen = read_line(process).partition(" ")
    assert word == "seen"
    found: list[int] = json.loads(seen)
    return found


def read_line(process: subprocess.Popen[str]) -> str:
    """The next line of its output; it is killed if none comes, so that nothing waits for ever."""
    assert process.stdout is not None
    timer = threading.Timer(2 * WITHIN_S, process.kill)
    timer.start()
    try:
        return process.stdout.readline().strip()
    finally:
        timer.cancel()
