"""The step that plans due work, and requests that plan meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from lakelog.clock import SystemClock
from metastore.jobs.due_work import DueWork
from metastore.memory import MemoryStore


class PlansMeanwhile(DueWork):
    """While the step plans its first table, a request has another one planned."""

    def __init__(self) -> None:
        async def plan_nothing(tx: object, work: object) -> list[object]:
            return []

        clock = SystemClock()
        super().__init__(MemoryStore(clock), clock, [plan_nothing], lambda: None)  # type: ignore[list-item]
        self.planned: list[str] = []

    async def _plan(self, table_uuid: str) -> bool:
        self.planned.append(table_uuid)
        if table_uuid == "a":
            await self.plan_now("b")
        return True


def test_a_table_that_a_request_has_planned_meanwhile_ends_no_step() -> None:
    work = PlansMeanwhile()
    for table_uuid in ("a", "b", "c"):
        work.touch(table_uuid)
    assert asyncio.run(work.step()) == 2
    assert work.planned == ["a", "b", "c"]


def test_without_planners_it_rests_until_a_table_is_touched() -> None:
    clock = SystemClock()
    work = DueWork(MemoryStore(clock), clock, [], lambda: None)

    async def run() -> None:
        for _ in range(2):
            work.touch("a")
            await asyncio.wait_for(work.wait(), 20)
            assert await work.step() == 0
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(work.wait(), 0.05)

    asyncio.run(run())
