"""When steps beside the requests are due."""

from __future__ import annotations

import asyncio

import pytest

from lakelog.clock import SystemClock
from lakelog.format.jobs.waiting_work import WaitingWork
from metastore.alarm import Alarm
from metastore.heavy_work import HeavyWork
from metastore.memory import MemoryStore
from metastore.metrics import NoMetrics
from metastore.plans.packing import Packer
from metastore.store.waiting_work import MeasuredWork
from metastore.waiting_work.measuring import WorkMeasuring


class _SetClock(SystemClock):
    now_s = 100.0

    def monotonic_s(self) -> float:
        return self.now_s


def test_it_is_due_at_first_when_notified_and_when_its_time_has_come() -> None:
    clock = _SetClock()
    alarm = Alarm(clock)
    assert alarm.is_due
    alarm.set(30.0)
    assert not alarm.is_due
    alarm.notify()
    assert alarm.is_due
    alarm.set(30.0)
    assert not alarm.is_due
    clock.now_s += 30.0
    assert alarm.is_due
    assert not alarm.is_notified


def test_a_wait_ends_when_it_is_notified_or_due() -> None:
    async def run() -> None:
        alarm = Alarm(SystemClock())
        alarm.set(3600.0)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(alarm.wait(), 0.05)
        waiting = asyncio.create_task(alarm.wait())
        await asyncio.sleep(0)
        alarm.notify()
        await asyncio.wait_for(waiting, 20)
        alarm.set(0.01)
        await asyncio.wait_for(alarm.wait(), 20)

    asyncio.run(run())


@pytest.mark.parametrize("part", ["packing", "measuring"])
def test_a_notice_that_comes_during_a_step_causes_another(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SystemClock()
    store = MemoryStore(clock)
    packer, measuring = Packer(store, HeavyWork(), clock=clock), WorkMeasuring(store, clock, NoMetrics())

    async def pack(_: Packer) -> int:
        packer.touch()
        return 0

    async def measure(*_: object) -> MeasuredWork:
        measuring.touch()
        return MeasuredWork(0, 0, WaitingWork())

    monkeypatch.setattr(Packer, "step", pack)
    monkeypatch.setattr(WorkMeasuring, "_measure", measure)

    async def run() -> None:
        step, wait = (packer.step_if_touched, packer.wait) if part == "packing" else (measuring.step, measuring.wait)
        await step()
        await asyncio.wait_for(wait(), 20)

    asyncio.run(run())
