"""The probe of the metastore's database: a server that ends is noticed at once, without looking again and again."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from lakelog.errors import Unavailable
from metastore.postgres.connection.connections import libpq_url
from metastore.server.database_probe import DatabaseProbe

_END = (
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'lakelog-metastore-health'"
)


def test_the_end_of_the_connection_ends_a_pause(postgres_url: str) -> None:
    url = libpq_url(postgres_url)

    async def run() -> None:
        probe = DatabaseProbe(url)
        await probe.ping()
        pause = asyncio.create_task(probe.pause(3600))
        with pytest.raises(TimeoutError):
            # The control: nothing else ends it.
            await asyncio.wait_for(asyncio.shield(pause), 0.3)
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as other:
            await other.execute(_END)
        await asyncio.wait_for(pause, 20)
        with pytest.raises(Unavailable):
            await probe.ping()
        # It connects again.
        await probe.ping()
        await probe.close()

    asyncio.run(run())


def test_a_pause_without_a_connection_ends_in_time(postgres_url: str) -> None:
    asyncio.run(asyncio.wait_for(DatabaseProbe(libpq_url(postgres_url)).pause(0.01), 20))
