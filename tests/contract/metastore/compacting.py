"""Small makers of compactions, and what they leave behind, shared by their tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lakelog.client.metastore.metastore import Metastore
from lakelog.format.commit.request import BucketRef, Change, ChangeResult, CommitRequest, CompactionGroup
from lakelog.format.tables.plan import PlanRequest
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.format.tables.table import TableInfo
from tests.support.metastore.making import key, make_change, make_file

BUCKET = BucketRef(b"", 0)


def files(metastore: Metastore, table: TableInfo, at: Any = None, **request: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = metastore.plan(PlanRequest(table.table_uuid, at, **request)).files.to_pylist()
    return found


def shown(metastore: Metastore, table: TableInfo, at: Any = None) -> str:
    """Each file's name and level in the order of the plan."""
    return " ".join(f"{name(file)}{file['level']}" for file in files(metastore, table, at))


def name(file: dict[str, Any]) -> str:
    return str(file["path"]).split("/")[-1][:-8]


def place(file: dict[str, Any]) -> tuple[int, int, int]:
    return file["order_snapshot"], file["order_ordinal"], file["order_time_ms"]


def commit(
    metastore: Metastore, change: Change, identifier: int = 1, *, writer: str = "compactor", attempt: str = ""
) -> ChangeResult:
    (result,) = metastore.commit(CommitRequest(writer, identifier, (change,), attempt)).results
    return result


def stage(metastore: Metastore, table: TableInfo) -> str:
    return metastore.stage_attempt([table.table_uuid], "compactor").attempt_id


def bounds(first: int, last: int) -> dict[str, Any]:
    return {"min_key": key(first), "max_key": key(last)}


def groups(table: TableInfo, attempt: str, *wanted: tuple[str, BucketRef, Sequence[int], dict[str, Any]]) -> Change:
    """A compaction of several groups, each with the outputs that its letters name, at level 1."""
    made = [
        make_file(attempt, letter, level=1, partition=bucket.partition, bucket=bucket.bucket, **fields)
        for letters, bucket, _, fields in wanted
        for letter in letters
    ]
    named = [CompactionGroup(bucket, tuple(inputs), len(letters), (), 1) for letters, bucket, inputs, _ in wanted]
    return make_change(table, made, kind=SnapshotKind.COMPACT, groups=tuple(named))
