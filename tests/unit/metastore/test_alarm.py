"""When steps beside the requests are due."""

from __future__ import annotations

import asyncio

import pytest

from lakelog.clock import SystemClock
from metastore.alarm import Alarm


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
