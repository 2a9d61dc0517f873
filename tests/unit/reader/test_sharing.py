"""Instances that were given the same streams share them, and take over what becomes free."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakelog.clock import SystemClock
from lakelog.errors import LakelogError, Unavailable
from lakelog.serving.lease import LeaseRenewer
from lakelog.serving.logging_setup import set_up_logging
from metastore.testing import InProcessMetastore
from reader.streams.metrics import StreamMetrics
from reader.streams.progress import StreamProgress
from reader.streams.runner import RunOptions, Shared, StreamRunner
from reader.streams.spec import Sink, SinkType, Source, Stream

pytestmark = pytest.mark.usefixtures("kept_logs")


class Instance:
    """Takes the leases of some streams, each in a thread, and runs nothing."""

    def __init__(self, metastore: InProcessMetastore, name: str, count: int, *, wait: bool = True) -> None:
        no_session: Any = None
        self.shared = Shared(lambda: no_session, lambda _: None)
        self.taken: dict[str, LeaseRenewer] = {}
        self.refused: list[Unavailable] = []
        log = set_up_logging("error")

        def take(stream: Stream) -> None:
            def make_lease(on_lost: Callable[[LakelogError], None]) -> LeaseRenewer:
                return LeaseRenewer(
                    metastore,
                    stream.lease,
                    name,
                    duration_s=30.0,
                    max_unavailable_s=5.0,
                    clock=SystemClock(),
                    log=log,
                    on_lost=on_lost,
                )

            runner = StreamRunner(
                stream,
                RunOptions(once=False, wait_for_lease=wait, max_unavailable_s=5.0),
                self.shared,
                metastore=metastore,
                make_lease=make_lease,
                progress=StreamProgress(stream, metastore, StreamMetrics(), log),
                clock=SystemClock(),
                log=log,
            )
            lease = make_lease(lambda error: None)
            try:
                if runner._acquire_lease(lease):
                    self.taken[stream.name] = lease
            except Unavailable as error:
                self.refused.append(error)

        streams = [
            Stream(Path("/s"), f"s{n}", None, Source("a.b"), Sink(SinkType.CONSOLE), 0.0, Path("/c"))
            for n in range(count)
        ]
        self.threads = [threading.Thread(target=take, args=(stream,)) for stream in streams]
        for thread in self.threads:
            thread.start()

    def end(self) -> None:
        self.shared.stopping.set()
        for thread in self.threads:
            thread.join()
        for lease in self.taken.values():
            lease.release()


def wait_until(what: Callable[[], bool]) -> None:
    end_s = time.monotonic() + 20
    while not what():
        assert time.monotonic() < end_s
        time.sleep(0.02)


def test_those_that_start_together_share(metastore: InProcessMetastore) -> None:
    first, second = Instance(metastore, "first", 6), Instance(metastore, "second", 6)
    try:
        wait_until(lambda: len(first.taken) + len(second.taken) == 6)
        assert not set(first.taken) & set(second.taken)
        assert 2 <= len(first.taken) <= 4, f"{len(first.taken)} and {len(second.taken)}"
        first.end()
        wait_until(lambda: len(second.taken) == 6)
    finally:
        first.end()
        second.end()


def test_a_start_without_waiting_names_the_holder(metastore: InProcessMetastore) -> None:
    first = Instance(metastore, "first", 1)
    wait_until(lambda: len(first.taken) == 1)
    second = Instance(metastore, "second", 1, wait=False)
    wait_until(lambda: len(second.refused) == 1)
    assert "'first' runs this pipeline now" in second.refused[0].message
    first.end()
    second.end()
