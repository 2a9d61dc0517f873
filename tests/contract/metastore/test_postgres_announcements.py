"""Announcements between metastores arrive whole, however many and long their names are."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from metastore.postgres import PostgresStore


def test_all_names_arrive_however_long_they_are(migrated_url: str) -> None:
    names = {f"grants/{number:03}{'c' * 253}" for number in range(100)} | {f"{number:032x}" for number in range(300)}

    async def announce() -> set[str]:
        sender, receiver = PostgresStore(migrated_url), PostgresStore(migrated_url)
        heard: set[str] = set()
        try:
            async with asyncio.timeout(30), aclosing(receiver.listen()) as announcements:
                assert await anext(announcements) == frozenset()
                await sender.announce(names)
                while heard != names:
                    heard |= await anext(announcements)
        finally:
            await sender.close()
            await receiver.close()
        return heard

    assert asyncio.run(announce()) == names
