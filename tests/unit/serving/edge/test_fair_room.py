"""Room that waiting callers get in turn, without losing any, also when one that waits gives up."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from lakelog.serving.edge.fair_room import FairRoom


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def served(requests: list[tuple[str, int]]) -> list[str]:
    """The origins in the order in which they get room of 10, which one request has had at first."""
    room, came = FairRoom(10), []

    async def take(origin: str, size: int) -> None:
        await room.take(origin, size)
        came.append(origin)
        await asyncio.sleep(0)
        room.give_back(size)

    await room.take("first", 10)
    waiting = [asyncio.ensure_future(take(*each)) for each in requests]
    await settle()
    assert came == []
    room.give_back(10)
    await asyncio.gather(*waiting)
    assert (room.used, room._waiting) == (0, {})
    return came


def test_a_busy_caller_delays_others_by_one_request() -> None:
    assert asyncio.run(served([("ann", 9)] * 4 + [("bob", 9), ("eve", 9)])) == ["ann", "bob", "eve", *["ann"] * 3]


def test_a_large_request_is_not_overtaken_for_ever() -> None:
    assert asyncio.run(served([("ann", 25), ("bob", 1), ("bob", 1)])) == ["ann", "bob", "bob"]


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 15), st.integers(0, 3)), max_size=20))
def test_nothing_is_lost_if_some_are_cancelled(steps: list[tuple[str, int, int]]) -> None:
    async def work() -> None:
        room = FairRoom(10)

        async def use(origin: str, size: int, pauses: int) -> None:
            await room.take(origin, size)
            assert room.used <= 10 or room.used == size
            try:
                for _ in range(pauses):
                    await asyncio.sleep(0)
            finally:
                room.give_back(size)

        running = []
        for number, (origin, size, pauses) in enumerate(steps):
            running.append(asyncio.ensure_future(use(origin, size, pauses)))
            await asyncio.sleep(0)
            if number % 3 == 2:
                running[number // 2].cancel()
        await asyncio.gather(*running, return_exceptions=True)
        assert (room.used, room._waiting) == (0, {})

    asyncio.run(work())
