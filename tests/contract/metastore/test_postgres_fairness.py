"""Who has many calls waiting for the database does not make others wait behind all of them."""

from __future__ import annotations

import asyncio

import pytest

from lakelog.serving.edge.origin import origin
from metastore.postgres.connection.connections import ConnectionPool

_MANY = 40


def _order(url: str, *, is_known: bool) -> list[str]:
    """In which order the work of two callers ends, the many calls of the one first in line."""

    async def work() -> list[str]:
        pool = ConnectionPool(url, 2, "on")
        done: list[str] = []

        async def use(caller: str) -> None:
            if is_known:
                origin.set(caller)
            connection = await pool.acquire()
            await connection.execute("SELECT pg_sleep(0.005)")
            pool.release(connection)
            done.append(caller)

        await asyncio.gather(*[use(caller) for caller in ["busy"] * _MANY + ["light"]])
        await pool.close()
        return done

    return asyncio.run(work())


def test_waiting_callers_have_connections_in_turn(postgres_url: str) -> None:
    order = _order(postgres_url, is_known=True)
    assert order.index("light") <= 4
    assert len(order) == _MANY + 1


def test_control_without_knowing_the_callers_the_light_one_is_last(postgres_url: str) -> None:
    assert _order(postgres_url, is_known=False).index("light") >= _MANY - 2


@pytest.mark.parametrize("size", [1, 3])
def test_who_gives_up_leaves_its_connection_to_the_next(postgres_url: str, size: int) -> None:
    async def work() -> None:
        pool = ConnectionPool(postgres_url, size, "on")
        held = [await pool.acquire() for _ in range(size)]
        waiting = [asyncio.ensure_future(pool.acquire()) for _ in range(4)]
        await asyncio.sleep(0)
        for each in waiting[:3]:
            each.cancel()
        for connection in held:
            pool.release(connection)
        pool.release(await asyncio.wait_for(waiting[3], 10))
        again = [await asyncio.wait_for(pool.acquire(), 10) for _ in range(size)]
        for connection in again:
            pool.release(connection)
        await pool.close()

    asyncio.run(work())
