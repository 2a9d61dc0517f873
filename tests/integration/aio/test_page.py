"""Every block of docs/asyncio.md runs in its order, and the service in it does what the page says."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest

import lakelog
from tests.support.forked_stack import ForkedStack

_PAGE = Path(__file__).parents[3] / "docs" / "asyncio.md"
WAIT_S = 30.0


@pytest.fixture(scope="module")
def names(running: ForkedStack) -> dict[str, Any]:
    """What the blocks of the page have defined."""
    found: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```$", _PAGE.read_text(), re.DOTALL | re.MULTILINE):
        exec(compile(block.replace("localhost:7450", running.target), str(_PAGE), "exec"), found)
    return found


def test_a_write_in_time_is_written_once(names: dict[str, Any], running: ForkedStack) -> None:
    async def run() -> None:
        async with lakelog.aio.connect(running.target) as catalog:
            orders = await catalog.table("shop.aio_orders")
            assert [await names["write_in_time"](orders, 100) for _ in range(2)] == [True, True]
            assert await orders.count("id = 100") == 1
            assert await catalog.last_identifier("aio-service", "shop.aio_orders") == 100

    asyncio.run(run())


def test_the_service_answers_when_orders_are_committed_and_knows_the_sum(
    names: dict[str, Any], running: ForkedStack
) -> None:
    async def order(port: int, number: int) -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(json.dumps({"id": number, "item": "tea", "price": 2.0}).encode() + b"\n")
        answer = int(await reader.readline())
        writer.close()
        return answer

    async def run() -> None:
        ready: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        service = asyncio.create_task(names["run_service"](running.target, ready))
        async with asyncio.timeout(WAIT_S):
            service_orders, port = await ready
            snapshots = await asyncio.gather(*(order(port, 1000 + number) for number in range(40)))
            assert 1 <= len(set(snapshots)) < 40
            table = service_orders.table.blocking
            wanted = await asyncio.to_thread(lambda: sum(table.scan(["price"]).to_arrow().column("price").to_pylist()))
            while service_orders.total != pytest.approx(wanted):
                await asyncio.sleep(0.02)
        service.cancel()
        with pytest.raises(asyncio.CancelledError):
            await service
        assert not [each for each in threading.enumerate() if each.name.startswith("lakelog-aio")]

    asyncio.run(run())
