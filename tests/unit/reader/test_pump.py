"""A subscription whose client does not read has little ready to be sent, whatever send window the client chose."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from prometheus_client import CollectorRegistry

from lakelog.reads.streams.batch import Progress, StreamBatch
from lakelog.reads.streams.open_stream import OpenStream
from reader.subscriptions import pump
from reader.subscriptions.metrics import SubscriptionMetrics
from reader.subscriptions.pump import Pump
from reader.subscriptions.send_window import SendWindow

MIB = 1 << 20
BATCHES = 60


class Follower:
    """A stream of batches of a megabyte."""

    def follow(self) -> Iterator[Progress]:
        rows = pa.record_batch({"v": ["x" * 1024] * 1024})
        for number in range(1, BATCHES + 1):
            yield Progress(StreamBatch(rows, number, "shop.items"), None)

    def close(self) -> None:
        pass


@pytest.mark.parametrize("bounded", [True, False], ids=["protected", "control"])
def test_what_is_not_sent_is_bounded(monkeypatch: pytest.MonkeyPatch, bounded: bool) -> None:
    if not bounded:
        monkeypatch.setattr(pump, "_MAX_UNSENT_BYTES", 1 << 40)

    async def run() -> None:
        window = SendWindow(256 * MIB, 10_000)
        running = Pump(window, SubscriptionMetrics(CollectorRegistry()), asyncio.get_running_loop())
        follower: Any = Follower()
        running.start(OpenStream(follower, (), {}, lambda positions: None, None), [])
        waited_for = pump._MAX_UNSENT_BYTES if bounded else BATCHES * MIB
        # The window counts a message before it is ready; the first one of all is that the stream is open.
        while window.sent_bytes < waited_for or (not bounded and running.outgoing.qsize() <= BATCHES):
            await asyncio.sleep(0.001)
        # Nothing is sent yet: all of it is ready.
        ready = sum(item.ByteSize() for item in list(running.outgoing._queue) if item)  # type: ignore[attr-defined]
        if bounded:
            assert running.outgoing.qsize() < BATCHES // 2
            assert ready <= 2 * pump._MAX_UNSENT_BYTES
        else:
            assert ready >= BATCHES * MIB
        came = 0
        while (item := await running.outgoing.get()) is not None:
            assert not isinstance(item, BaseException)
            came += item.HasField("progress")
            running.sent(item)
        assert came == BATCHES

    asyncio.run(asyncio.wait_for(run(), 60))
