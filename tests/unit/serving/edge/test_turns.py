"""Turns of a key: a limited number of each at once."""

from __future__ import annotations

import asyncio

from lakelog.serving.edge.turns import Turns


def test_each_key_has_its_own_turns() -> None:
    async def work() -> None:
        turns, inside, most = Turns(2), {"a": 0, "b": 0}, {"a": 0, "b": 0}

        async def use(key: str) -> None:
            async with turns.turn(key):
                inside[key] += 1
                most[key] = max(most[key], inside[key])
                await asyncio.sleep(0)
                inside[key] -= 1

        await asyncio.gather(*(use(key) for key in "abaabbaa"))
        assert most == {"a": 2, "b": 2}
        assert turns.is_empty

    asyncio.run(work())
