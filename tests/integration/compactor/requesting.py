"""Files to compact, and requests to compact them."""

from __future__ import annotations

from lakelog.format.jobs.job import COMPACT, FULL, STRATEGY, Job, to_bucket_scope
from lakelog.format.tables.plan import PlanRequest
from lakelog.sdk.tables.table import Table
from metastore.testing import InProcessMetastore
from tests.support.tables.keyed import rows


def request(metastore: InProcessMetastore, table: Table, strategy: str = FULL) -> list[Job]:
    """Asks for the compaction of every bucket that has files."""
    files = metastore.plan(PlanRequest(table.uuid)).files
    buckets = sorted(set(zip(files["partition"].to_pylist(), files["bucket"].to_pylist(), strict=True)))
    scopes = [to_bucket_scope(partition, bucket) for partition, bucket in buckets]
    return metastore.request_jobs(table.uuid, COMPACT, scopes, {STRATEGY: strategy})


def write_some(table: Table, count: int = 4) -> None:
    for number in range(count):
        table.write(rows("+I 1|1|1", f"+I 1|{number + 2}|{number}", f"+U 1|1|{number}", f"-D 1|{number + 1}|0"))
