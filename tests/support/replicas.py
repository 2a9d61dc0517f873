"""Replicas of the reader service as processes of their own."""

from __future__ import annotations

import os
import re
import signal
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.forked import ForkedProcess, preload
from tests.support.repository import ROOT

preload("reader.config", "reader.wiring")


@dataclass
class Replica:
    """A process of the service."""

    process: ForkedProcess
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


def launch_replica(metastore: str, log: Path, arguments: Sequence[str], listen: str) -> Replica:
    """Starts `lakelog reader serve` and waits until it serves."""
    insecure = () if "--tls-cert" in arguments else ("--insecure-dev",)
    words = ["serve", "--listen", listen, "--metrics-port", "0", *insecure, *arguments]
    environment = {**os.environ, "LAKELOG_TARGET": metastore, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    process = ForkedProcess("reader", words, folder=ROOT, environment=environment, output=log)
    end_s = time.monotonic() + 60
    while not (ready := re.search(r"reader ready on (\S+) .* metrics on (\S+)", log.read_text())):
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < end_s, log.read_text()
        time.sleep(0.05)
    return Replica(process, ready[1], ready[2], log)


def end_replica(replica: Replica) -> None:
    if replica.process.poll() is None:
        replica.process.kill()
    replica.process.wait(10)
