"""Replicas of the reader service as processes of their own, beside the metastore of all tests."""

from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from lakelog.embedded.services import is_serving
from lakelog.embedded.stack import EmbeddedStack
from lakelog.sdk.catalog import Catalog

ROOT = Path(__file__).parents[3]
_numbers = itertools.count(1)


@dataclass
class Replica:
    """A process of the service."""

    process: subprocess.Popen[bytes]
    target: str
    metrics_url: str
    log: Path

    def kill(self) -> None:
        """As by kill -9."""
        self.process.kill()
        self.process.wait(10)

    def stop(self) -> int:
        """As by an operator; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)

    def measure(self, name: str) -> float:
        """A metric."""
        with urllib.request.urlopen(self.metrics_url, timeout=10) as page:
            text: str = page.read().decode()
        found = re.search(rf"^{name} (\S+)$", text, re.MULTILINE)
        assert found, f"{name} is not in {text}"
        return float(found[1])

    def wait_for(self, name: str, value: float, within_s: float = 20.0) -> None:
        end_s = time.monotonic() + within_s
        while self.measure(name) != value:
            assert time.monotonic() < end_s, f"{name} is {self.measure(name)}, not {value}"
            time.sleep(0.05)


@pytest.fixture
def database(catalog: Catalog) -> str:
    name = f"reader{next(_numbers)}"
    catalog.create_database(name)
    return name


def launch_replica(metastore: str, log: Path, arguments: Sequence[str], listen: str) -> Replica:
    """Starts `lakelog reader serve` and waits until it serves."""
    insecure = () if "--tls-cert" in arguments else ("--insecure-dev",)
    command = [sys.executable, "-m", "reader", "serve", "--listen", listen, "--metrics-port", "0", *insecure]
    environment = {**os.environ, "LAKELOG_TARGET": metastore, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    with log.open("wb") as output:
        process = subprocess.Popen([*command, *arguments], cwd=ROOT, env=environment, stdout=output, stderr=output)
    end_s = time.monotonic() + 60
    while not (ready := re.search(r"reader ready on (\S+) .* metrics on (\S+)", log.read_text())):
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < end_s, log.read_text()
        time.sleep(0.05)
    return Replica(process, ready[1], ready[2], log)


@pytest.fixture
def start_replica(stack: EmbeddedStack, tmp_path: Path) -> Iterator[Callable[..., Replica]]:
    """Starts a replica with more arguments; all end with the test."""
    started: list[Replica] = []

    def start(*arguments: str, listen: str = "127.0.0.1:0") -> Replica:
        replica = launch_replica(stack.target, tmp_path / f"reader-{len(started)}.log", arguments, listen)
        started.append(replica)
        assert "--tls-cert" in arguments or is_serving(replica.target)
        return replica

    yield start
    for replica in started:
        end_replica(replica)


@pytest.fixture(scope="session")
def shared_replica(stack: EmbeddedStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replica]:
    """One that no test ends."""
    replica = launch_replica(stack.target, tmp_path_factory.mktemp("shared") / "reader.log", (), "127.0.0.1:0")
    yield replica
    end_replica(replica)


def end_replica(replica: Replica) -> None:
    if replica.process.poll() is None:
        replica.process.kill()
    replica.process.wait(10)
