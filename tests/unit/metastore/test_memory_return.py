"""Memory that large work has freed returns to the system, once for all work that ends about then."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from metastore import memory_return
from metastore.heavy_work import HeavyWork
from metastore.memory_return import WORTH_IT, MemoryReturn, return_memory


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096


def test_freed_blocks_that_the_allocator_keeps_are_returned() -> None:
    # Too small for pages of their own, so the allocator keeps them when they are freed. The last one stays in use, and
    # so they are not at the end of the heap.
    blocks = [bytearray(20_000) for _ in range(4000)]
    last = bytearray(20_000)
    with_blocks = resident_bytes()
    blocks.clear()
    assert with_blocks - resident_bytes() < 20 << 20, "the control: by itself the allocator keeps them"
    return_memory()
    assert with_blocks - resident_bytes() > 40 << 20
    assert last


def test_large_work_of_a_metastore_returns_memory_once_and_small_work_never(monkeypatch: pytest.MonkeyPatch) -> None:
    returned: list[str] = []
    monkeypatch.setattr(memory_return, "_AFTER_S", 0.05)
    monkeypatch.setattr(memory_return, "return_memory", lambda: returned.append("returned"))

    async def work(size: int) -> None:
        heavy = HeavyWork()
        for threads in (heavy.commits, heavy.plans, heavy.rows):
            await threads.run(size, lambda: None)
        await asyncio.sleep(0.3)

    asyncio.run(work(WORTH_IT - 1))
    assert not returned
    asyncio.run(work(WORTH_IT))
    assert returned == ["returned"]


def test_later_work_returns_memory_again(monkeypatch: pytest.MonkeyPatch) -> None:
    returned: list[str] = []
    monkeypatch.setattr(memory_return, "_AFTER_S", 0.01)
    monkeypatch.setattr(memory_return, "return_memory", lambda: returned.append("returned"))

    async def work() -> None:
        with ThreadPoolExecutor(1) as executor:
            memory = MemoryReturn(executor)
            for _ in range(2):
                memory.after(WORTH_IT)
                await asyncio.sleep(0.1)

    asyncio.run(work())
    assert returned == ["returned"] * 2
