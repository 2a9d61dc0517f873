from __future__ import annotations

import asyncio
from typing import get_args

import pyarrow as pa
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from lakelog.clock import SystemClock
from lakelog.errors import CommitConflict
from lakelog.format.commit.request import Change, CommitRequest
from lakelog.format.tables.plan import PlanRequest
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.format.tables.table import TableName
from metastore import metrics
from metastore.memory import MemoryStore
from metastore.ownership import EVERYONE
from metastore.use_cases import UseCases


def test_every_name_is_described() -> None:
    names = [
        name for kind in (metrics.Seconds, metrics.Counts, metrics.Sizes, metrics.Levels) for name in get_args(kind)
    ]
    assert sorted(names) == sorted(metrics.HELP)


def test_commits_conflicts_and_plans_are_measured() -> None:
    registry = CollectorRegistry()

    async def main() -> None:
        store = MemoryStore(SystemClock())
        use_cases = UseCases(store, "file:///w", metrics=metrics.PrometheusMetrics(registry))
        await use_cases.catalog.create_database("d")
        schema = pa.schema([("id", pa.int64())])
        await use_cases.catalog.create_table(TableName("d", "unused"), schema, by=EVERYONE)
        await use_cases.catalog.drop_table(TableName("d", "unused"))
        table, _ = await use_cases.catalog.create_table(TableName("d", "t"), schema, by=EVERYONE)
        change = Change(table.table_uuid, SnapshotKind.APPEND, 0, -1, allow_empty=True)
        await use_cases.gate.commit(CommitRequest("w", 1, (change,)), by=EVERYONE)
        await use_cases.gate.commit(CommitRequest("w", 1, (change,)), by=EVERYONE)
        with pytest.raises(CommitConflict):
            await use_cases.gate.commit(CommitRequest("w", 3, (change,), previous_identifier=2), by=EVERYONE)
        await use_cases.planner.plan(PlanRequest(table.table_uuid))
        said = generate_latest(registry).decode()
        prefix = "lakelog_metastore_"
        for line in (
            'commits_total{outcome="applied"} 1.0',
            'commits_total{outcome="already_applied"} 1.0',
            'commits_total{outcome="refused"} 1.0',
            'conflicts_total{reason="IDENTIFIER_GAP"} 1.0',
            "group_size_commits_count 3.0",
            "commit_latency_seconds_count 3.0",
            "plan_latency_seconds_count 1.0",
            'live_files{table="d.t"} 0.0',
            'live_rows{table="d.t"} 0.0',
            'live_bytes{table="d.t"} 0.0',
            'last_commit_timestamp_seconds{table="d.t"} ',
            'snapshots_total{kind="append"} 1.0',
            'added_rows_total{kind="append"} 0.0',
            "commit_transaction_seconds_count 3.0",
        ):
            assert prefix + line in said
        await use_cases.catalog.drop_table(TableName("d", "t"))
        said = generate_latest(registry).decode()
        assert not [name for name in metrics.OF_TABLES if f"{name}{{" in said]

    asyncio.run(main())
