"""The parts of a support bundle. Each returns the files of that part; an error leaves only that part out."""

from __future__ import annotations

import dataclasses
import os
import platform
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import lakelog
from lakelog.cli.commands.health.doctor import describe_result
from lakelog.cli.commands.health.status_record import load_status
from lakelog.cli.commands.pipelines import describe_pipeline
from lakelog.cli.doctor.check import Result
from lakelog.cli.doctor.machine import list_versions
from lakelog.cli.doctor.situation import Situation
from lakelog.cli.output.text import format_time
from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import NotFound
from lakelog.format.jobs.job import Job, JobStatus
from lakelog.format.jobs.job_run import RunResult
from lakelog.format.tables.table import TableInfo, TableName
from lakelog.privacy.masking import is_secret_name
from lakelog.privacy.redaction import BLOT

MAX_TABLES: Final = 200
MAX_SNAPSHOTS: Final = 20
MAX_JOBS: Final = 1000
MAX_RUNS: Final = 200

MAX_LOG_BYTES: Final = 2 << 20
"""Of each log: its newest part."""

MAX_LOGS_BYTES: Final = 40 << 20
"""Of all logs together."""

_OURS: Final = ("LAKELOG_", "AWS_", "JAVA_HOME", "PYTHON", "SPARK_", "OTEL_", "PG", "KAFKA", "NO_COLOR", "LANG", "TZ")
"""The beginnings of variables that change what lakelog does. Of others not even the names leave this machine."""


def describe_versions(_: Situation) -> dict[str, Any]:
    """This machine and all packages."""
    return {
        "lakelog": lakelog.__version__,
        "python": sys.version,
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "packages": list_versions(),
    }


def describe_configuration(situation: Situation) -> dict[str, Any]:
    """The shared options, and the variables of the environment that concern lakelog."""
    invocation = situation.invocation
    return {
        "target": invocation.address,
        "catalog": invocation.catalog_name or None,
        "tls": invocation.tls is not None,
        "signs_in": invocation.sign_in is not None,
        "data": str(situation.data),
        "environment": {
            name: BLOT if is_secret_name(name) and value else value
            for name, value in sorted(situation.environment.items())
            if name.startswith(_OURS)
        },
    }


def describe_checks(results: list[Result]) -> dict[str, Any]:
    """What `lakelog doctor` has found."""
    return {"checks": [describe_result(each) for each in results]}


def describe_status(situation: Situation) -> dict[str, Any]:
    """What `lakelog status` shows; raises at once if it would wait for a database that does not answer."""
    if situation.serving.is_serving:
        _ = situation.catalog
    return load_status(situation.invocation).record


def describe_tables(situation: Situation) -> dict[str, Any]:
    """Definitions and options of tables, and summaries of their newest snapshots."""
    metastore = situation.catalog.metastore
    names = [
        TableName(database.name, name)
        for database in metastore.list_databases()
        for name in metastore.list_tables(database.name)
    ]
    found = [_describe_table(metastore, name) for name in names[:MAX_TABLES]]
    return {"count": len(names), "tables": [each for each in found if each is not None]}


def _describe_table(metastore: Metastore, name: TableName) -> dict[str, Any] | None:
    try:
        info = metastore.get_table(name)
        snapshots = _describe_snapshots(metastore, info)
    except NotFound:
        # It was dropped meanwhile.
        return None
    return {
        "name": str(info.name),
        "uuid": info.table_uuid,
        "location": info.location,
        "created_at": format_time(info.created_at_ms),
        "schema_id": info.schema.schema_id,
        "columns": [{"column": each.name, "type": str(each.type)} for each in info.schema.arrow],
        "primary": list(info.schema.primary_key),
        "partition_by": list(info.schema.partition_by),
        "options": dict(info.options),
        "newest_snapshots": snapshots,
    }


def _describe_snapshots(metastore: Metastore, info: TableInfo) -> list[dict[str, Any]]:
    page = metastore.list_snapshots(info.table_uuid, limit=MAX_SNAPSHOTS, newest=True)
    # Without properties: they may hold anything.
    return [
        {
            "snapshot": each.snapshot_id,
            "kind": each.kind.value,
            "committed_at": format_time(each.committed_at_ms),
            "writer": each.writer,
            "rows": each.total_rows,
            "files": each.total_files,
            "bytes": each.total_bytes,
            "added_rows": each.added_rows,
        }
        for each in page.snapshots
    ]


def describe_jobs(situation: Situation) -> dict[str, Any]:
    """The jobs of compactors. Without the parts of tables that they are about: these hold values of partitions."""
    metastore = situation.catalog.metastore
    # Those that need somebody first; of those that are done only how many they are.
    jobs: list[Job] = []
    for status in JobStatus:
        if status is not JobStatus.DONE and len(jobs) < MAX_JOBS:
            jobs += metastore.list_job_page(statuses=[status], limit=MAX_JOBS - len(jobs)).jobs
    return {
        "counts": [
            {"kind": each.kind, "state": each.status.value, "count": each.count} for each in metastore.count_jobs()
        ],
        "jobs": [
            {
                "job": each.job_id,
                "table": each.table,
                "kind": each.kind,
                "state": each.status.value,
                "tries": each.attempts,
                "reason": each.reason,
                "outcome": each.outcome,
                "holder": each.holder,
                "changed_at": format_time(each.updated_at_ms),
            }
            for each in jobs
        ],
        "newest_failures": [
            {
                "run": each.run_id,
                "job": each.job_id,
                "table": each.table,
                "kind": each.kind,
                "result": each.result.value,
                "message": each.message,
                "holder": each.holder,
                "ended_at": format_time(each.ended_at_ms),
                "took_ms": each.duration_ms,
            }
            for each in metastore.list_job_runs(results=[RunResult.FAILED, RunResult.LOST], limit=MAX_RUNS)
        ],
    }


def describe_pipelines(situation: Situation) -> dict[str, Any]:
    """The pipelines, as they report."""
    found = situation.catalog.metastore.list_pipelines()
    return {"pipelines": [describe_pipeline(each, situation.now_ms()) for each in found]}


def describe_overview(situation: Situation) -> dict[str, Any]:
    """What waits, by name: logs, consumers, failed jobs, overdue snapshots."""
    found = dataclasses.asdict(situation.catalog.overview())
    return _without_enums(found)


def _without_enums(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_enums(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_enums(each) for each in value]
    return getattr(value, "value", value)


def list_logs(data: Path) -> Iterator[tuple[str, str]]:
    """The newest part of each log of `lakelog up`, by name; the newest logs first, as many as there is room for."""
    room = MAX_LOGS_BYTES
    files = [file for file in (data / "logs").glob("*.log*") if file.is_file() and not file.is_symlink()]
    for file in sorted(files, key=lambda each: -each.stat().st_mtime):
        size = min(file.stat().st_size, MAX_LOG_BYTES)
        if size <= room:
            room -= size
            yield file.name, read_end(file, size)


def read_end(file: Path, size: int) -> str:
    """The last bytes of a file, from the beginning of a line on."""
    with file.open("rb") as source:
        whole = source.seek(0, os.SEEK_END)
        source.seek(max(whole - size, 0))
        content = source.read(size)
    if whole > size:
        content = content.partition(b"\n")[2]
    return content.decode(errors="replace")
