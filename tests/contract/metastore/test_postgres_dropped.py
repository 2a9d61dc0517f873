"""Tables that were dropped before a dropped table could be restored."""

from __future__ import annotations

import psycopg
import pytest
from alembic import command

from lakelog.errors import NotFound
from lakelog.format.jobs.job import PURGE
from lakelog.format.tables.table import TableName
from metastore.postgres import migrate
from metastore.postgres.schema import migration
from tests.contract.metastore.conftest import open_in_process

UUID = "0123456789abcdef0123456789abcdef"


def test_they_are_purged_a_day_after_the_migration(postgres_url: str) -> None:
    with migration._connect(postgres_url) as connection:
        command.upgrade(migration._config(connection), "0011")
        connection.commit()
    with psycopg.connect(postgres_url.replace("+psycopg", "")) as raw:
        raw.execute("INSERT INTO database VALUES ('shop', '')")
        raw.execute(
            "INSERT INTO catalog_table (table_uuid, database, name, location, options, comment, created_at_ms, "
            "dropped_at_ms) VALUES (%s, 'shop', 't', %s, '{}', '', 1, 2)",
            (UUID, f"file:///warehouse/{UUID}/"),
        )
        raw.execute("INSERT INTO commit_result (table_id, writer, identifier, committed_at_ms) VALUES (1, 'w', 1, 1)")
    migrate(postgres_url)
    opened = open_in_process(postgres_url)
    try:
        (dropped,) = opened.list_dropped_tables("shop")
        assert (dropped.table_uuid, dropped.dropped_at_ms, dropped.is_purged) == (UUID, 2, True)
        with pytest.raises(NotFound, match="kept no longer"):
            opened.restore_table(TableName("shop", "t"))
        (job,) = opened.list_jobs()
        assert (job.kind, job.table) == (PURGE, "shop.t")
        assert 86_000_000 < job.remaining_ms <= 86_400_000
        opened.retry_job(job.job_id)
        leased = opened.lease_job([PURGE], [], "c", duration_ms=60_000)
        assert leased is not None
        assert opened.begin_purge(leased.job_id, leased.epoch).location == f"file:///warehouse/{UUID}/"
        assert opened.purge_rows(leased.job_id, leased.epoch) == 1
        assert opened.purge_rows(leased.job_id, leased.epoch) == 0
        assert not opened.finish_job(leased.job_id, leased.epoch)
        assert opened.list_dropped_tables() == []
    finally:
        opened.close()
