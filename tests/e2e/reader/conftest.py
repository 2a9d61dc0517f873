"""`lakelog reader run` as processes of their own, beside the metastore of all tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lakelog.embedded.stack import EmbeddedStack
from lakelog.format.jobs.work import Pipeline
from lakelog.sdk.catalog import Catalog

ROOT = Path(__file__).parents[3]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.e2e)
            item.add_marker(pytest.mark.slow)
            # A session of Spark takes half a minute to start on a busy machine.
            item.add_marker(pytest.mark.timeout(600))


@dataclass
class Reader:
    """A process of the service with all that it started; its log is kept."""

    process: subprocess.Popen[bytes]
    log: Path

    def send(self, number: signal.Signals) -> None:
        os.killpg(self.process.pid, number)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        self.process.wait(30)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(120)

    def wait(self) -> int:
        return self.process.wait(300)

    def text(self) -> str:
        return self.log.read_text()

    def wait_for(self, word: str, within_s: float = 240.0) -> None:
        end_s = time.monotonic() + within_s
        while word not in self.text():
            assert self.process.poll() is None, self.text()[-5000:]
            assert time.monotonic() < end_s, self.text()[-5000:]
            time.sleep(0.1)


@pytest.fixture
def start_reader(stack: EmbeddedStack, tmp_path: Path) -> Iterator[Callable[..., Reader]]:
    """Starts `lakelog reader <arguments>`; all end with the test."""
    started: list[Reader] = []

    def start(*arguments: str | Path) -> Reader:
        log = tmp_path / f"reader-{len(started)}.log"
        environment = {**os.environ, "LAKELOG_TARGET": stack.target, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
        command = [sys.executable, "-m", "reader", *map(str, arguments)]
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, cwd=tmp_path, env=environment, stdout=output, stderr=output, start_new_session=True
            )
        started.append(Reader(process, log))
        return started[-1]

    yield start
    for reader in started:
        if reader.process.poll() is None:
            reader.kill()


def find_state(catalog: Catalog, name: str) -> Pipeline:
    """What the stream reported last."""
    return next(found for found in catalog.metastore.list_pipelines() if found.name == name)
