"""A page of jobs is found by an index: it looks at few rows, however many jobs there are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from lakelog.format.jobs.job import COMPACT, PURGE, JobStatus
from metastore.postgres.connection.connections import libpq_url
from metastore.postgres.jobs.listing import to_page
from metastore.store.jobs import JobFilter, JobPlace, parse_cursor
from metastore.testing import InProcessMetastore
from tests.support.metastore.making import make_table
from tests.support.metastore.opening import open_in_process

JOBS = 20_000


@pytest.fixture
def filled(migrated_url: str) -> Iterator[tuple[InProcessMetastore, list[str]]]:
    """Two tables with many jobs that are done, one with a failed one and a purge at the end."""
    metastore = open_in_process(migrated_url)
    try:
        metastore.stop_background()
        tables = [make_table(metastore).table_uuid for _ in range(2)]
        with psycopg.connect(libpq_url(migrated_url), autocommit=True) as connection:
            connection.execute(
                """INSERT INTO job (table_id, kind, scope, state, priority, attempts, reason, outcome, epoch, holder,
                    due_at, created_at_ms, updated_at_ms)
                SELECT t.table_id, 'compact', '/' || n, 'done', 0, 0, '', '', 0, '', now(), 0, 0
                FROM catalog_table t, generate_series(1, %s) n ORDER BY t.table_id, n""",
                (JOBS,),
            )
            connection.execute(
                """INSERT INTO job (table_id, kind, scope, state, priority, attempts, reason, outcome, epoch, holder,
                    due_at, created_at_ms, updated_at_ms)
                SELECT max(table_id), 'purge', '', 'failed', 0, 0, '', '', 0, '', now(), 0, 0 FROM catalog_table"""
            )
            connection.execute("ANALYZE job")
        yield metastore, tables
    finally:
        metastore.close()


def count_rows(url: str, wanted: JobFilter, after: JobPlace | None, limit: int) -> int:
    """How many jobs a page reads, by the database's own account."""
    page, parameters = to_page(wanted, after, limit)
    with psycopg.connect(libpq_url(url)) as connection:
        row = connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {page}", parameters).fetchone()
    assert row is not None
    return _sum_of_jobs(row[0][0]["Plan"])


def _sum_of_jobs(node: dict[str, Any]) -> int:
    own = 0
    if node.get("Relation Name") == "job":
        own = (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
    return int(own) + sum(_sum_of_jobs(each) for each in node.get("Plans", ()))


def test_a_page_looks_at_few_jobs(filled: tuple[InProcessMetastore, list[str]], migrated_url: str) -> None:
    metastore, (first, second) = filled
    found = metastore.list_job_page([first], limit=10_000)
    middle, job_id = parse_cursor(found.cursor), found.jobs[-1].job_id
    for wanted, after in (
        (JobFilter(), None),
        (JobFilter(), middle),
        (JobFilter([first]), None),
        (JobFilter([first]), middle),
        (JobFilter([second]), None),
        (JobFilter([second], statuses=[JobStatus.FAILED]), None),
        (JobFilter([second], statuses=[JobStatus.DONE]), middle),
        (JobFilter([first], statuses=[JobStatus.LEASED]), None),
        (JobFilter([first], statuses=[JobStatus.DUE]), None),
        (JobFilter([first], statuses=[JobStatus.RESTING]), None),
        (JobFilter(statuses=[JobStatus.FAILED]), None),
        (JobFilter(kinds=[PURGE]), None),
        (JobFilter(kinds=[COMPACT]), middle),
        (JobFilter(job_ids=[job_id, job_id + 1]), None),
    ):
        assert count_rows(migrated_url, wanted, after, 101) <= 500, (wanted, after)


def test_control_without_the_index_all_of_the_table_are_looked_at(
    filled: tuple[InProcessMetastore, list[str]], migrated_url: str
) -> None:
    _, (_, second) = filled
    with psycopg.connect(libpq_url(migrated_url), autocommit=True) as connection:
        connection.execute("DROP INDEX job_of_table")
    assert count_rows(migrated_url, JobFilter([second]), None, 101) >= JOBS
