"""`lakelog reader run` as a process."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass
from pathlib import Path

from lakelog.format.jobs.work import Pipeline
from lakelog.sdk.catalog import Catalog
from tests.support.forked import ForkedProcess


@dataclass
class Reader:
    """A process of the service with all that it started; its log is kept."""

    process: ForkedProcess
    log: Path

    def send(self, number: signal.Signals) -> None:
        self.process.signal_session(number)

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


def find_state(catalog: Catalog, name: str) -> Pipeline:
    """What the stream reported last."""
    return next(found for found in catalog.metastore.list_pipelines() if found.name == name)
