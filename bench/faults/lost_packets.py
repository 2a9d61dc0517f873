"""Packets between metastore and Postgres that are lost in one direction: what only TCP itself can notice.

A program in a network namespace of its own: `unshare -n python -m bench.faults.lost_packets <direction>`. It
prints the seconds until the metastore noticed, and until Postgres has ended its process, as JSON. The questions to
Postgres are off.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import psycopg

from lakelog.embedded.postgres import EmbeddedPostgres
from metastore.postgres.connection.connections import libpq_url
from metastore.postgres.connection.failures import ConnectionLost
from metastore.postgres.store import PostgresStore

SIDES: Final = {"requests": "dport", "answers": "sport"}
WITHIN_S: Final = 90.0
_BACKENDS: Final = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'lakelog-metastore'"


def main(direction: str) -> None:
    """Measures one direction; it changes the namespace that it runs in."""
    _ip("link", "set", "lo", "up")
    # The rule for local addresses comes first; ours must come before it.
    _ip("rule", "add", "pref", "10", "lookup", "local")
    _ip("rule", "del", "pref", "0")
    with (
        tempfile.TemporaryDirectory(prefix="ll-loss-", ignore_cleanup_errors=True) as folder,
        EmbeddedPostgres(Path(folder), port=0) as postgres,
    ):
        noticed_s, ended_s = asyncio.run(_measure(postgres, direction))
    sys.stdout.write(json.dumps({"noticed_s": noticed_s, "ended_s": ended_s}) + "\n")


async def _measure(postgres: EmbeddedPostgres, direction: str) -> tuple[float, float]:
    url = libpq_url(postgres.url(over_tcp=True))
    store = PostgresStore(url, pool_size=1, silence_s=1e6)
    await _select(store)
    _ip("rule", "add", "pref", "5", "ipproto", "tcp", SIDES[direction], str(urlsplit(url).port), "blackhole")
    begun_s = time.monotonic()
    with contextlib.suppress(ConnectionLost):
        await asyncio.wait_for(_select(store), WITHIN_S)
        raise AssertionError("it was answered, so nothing was lost")
    noticed_s = time.monotonic() - begun_s
    with psycopg.connect(libpq_url(postgres.url()), autocommit=True) as direct:
        while direct.execute(_BACKENDS).fetchone() != (0,):
            if time.monotonic() - begun_s > WITHIN_S:
                raise TimeoutError("Postgres did not notice")
            await asyncio.sleep(0.1)
    ended_s = time.monotonic() - begun_s
    await store.close()
    return noticed_s, ended_s


async def _select(store: PostgresStore) -> None:
    async with store.transaction() as transaction:
        session: Any = transaction
        await session._session.read("SELECT 1")


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
