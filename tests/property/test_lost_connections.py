"""Connections to Postgres that are lost while they are being set up."""

from __future__ import annotations

import asyncio
import gc
import warnings

import pytest

from lakelog.embedded.postgres import EmbeddedPostgres
from lakelog.errors import LakelogError, Unavailable
from lakelog.testing.postgres_proxy import PostgresProxy
from metastore.postgres.connection.connections import connect


@pytest.mark.slow
def test_a_connection_lost_at_any_length_of_its_set_up_is_unavailable_and_leaves_nothing_open(
    postgres_server: EmbeddedPostgres, database: PostgresProxy
) -> None:
    direct = postgres_server.url(over_tcp=True)
    url = f"{direct.rpartition(':')[0]}:{database.port}/postgres".replace("+psycopg", "")

    async def open_and_close() -> None:
        connection = await connect(url)
        connection.pgconn.finish()

    with warnings.catch_warnings(action="ignore"):
        # What earlier tests left is not meant here.
        gc.collect()
    failures: list[LakelogError] = []
    for length in range(1, 1400, 60):
        database.cut_after(length, "answers")
        try:
            asyncio.run(open_and_close())
        except LakelogError as error:
            failures.append(error)
        database.heal()
        # What is left open says so when it is collected, and warnings are errors here.
        gc.collect()
    assert len(failures) > 10, "the fault took no effect"
    assert {type(failure) for failure in failures} == {Unavailable}
    database.refuse()
    with pytest.raises(Unavailable):
        asyncio.run(open_and_close())
    database.heal()
