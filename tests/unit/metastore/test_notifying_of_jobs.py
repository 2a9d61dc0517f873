"""Telling those who wait that jobs may be due: at once, and of many commits together."""

from __future__ import annotations

import asyncio

import pytest

from lakelog.clock import SystemClock
from metastore.memory import MemoryStore
from metastore.use_cases import UseCases


def test_many_commits_are_emitted_together_and_the_last_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        use_cases = UseCases(MemoryStore(SystemClock()), "file:///w")
        loop = asyncio.get_running_loop()
        reported: list[float] = []
        monkeypatch.setattr(use_cases.jobs, "_wake", lambda: reported.append(loop.time()))
        use_cases.jobs.due()
        assert len(reported) == 1, "the first one is told of at once"
        begun_s = loop.time()
        commits = 0
        while loop.time() - begun_s < 0.3:
            use_cases.jobs.due()
            commits += 1
            await asyncio.sleep(0.001)
        last_s = loop.time()
        await asyncio.sleep(0.2)
        assert commits > 30
        assert 3 <= len(reported) <= 9
        assert reported[-1] >= last_s - 0.001, "those behind the last telling are told of, too"
        count = len(reported)
        await asyncio.sleep(0.1)
        assert len(reported) == count, "who has heard everything is left alone"
        use_cases.jobs.close()

    asyncio.run(main())


def test_control_each_commit_wakes_without_the_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        monkeypatch.setattr("metastore.jobs.jobs._REPORT_EVERY_S", 0.0)
        use_cases = UseCases(MemoryStore(SystemClock()), "file:///w")
        reported: list[None] = []
        monkeypatch.setattr(use_cases.jobs, "_wake", lambda: reported.append(None))
        for _ in range(50):
            use_cases.jobs.due()
            await asyncio.sleep(0.002)
        assert len(reported) > 30
        use_cases.jobs.close()

    asyncio.run(main())
