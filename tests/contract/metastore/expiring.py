"""Histories of which the older part expires."""

from __future__ import annotations

from lakelog.client.metastore.metastore import Metastore
from lakelog.format.commit.request import CommitRequest
from lakelog.format.retention.expiry import ExpiryStep
from lakelog.format.tables.plan import AtSnapshot, PlanRequest
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.format.tables.table import TableInfo
from tests.support.metastore.making import append, make_change, make_file, rewrite

LATER_MS = 1 << 52


def expire(metastore: Metastore, table: TableInfo, retain_last: int = 1, older_than_ms: int = LATER_MS) -> ExpiryStep:
    """Expires all that is not the newest so many snapshots, however young, and tells of all steps together."""
    files = size_bytes = 0
    before = None
    for _ in range(20):
        step = metastore.expire_snapshots(table.table_uuid, older_than_ms=older_than_ms, retain_last=retain_last)
        before = before or step
        files, size_bytes = files + step.files, size_bytes + step.size_bytes
        if step.is_done:
            return ExpiryStep(
                before.earliest_before,
                step.earliest,
                before.earliest_change_before,
                step.earliest_change,
                files,
                size_bytes,
                step.held_by,
                step.named,
            )
    raise AssertionError("expiry does not end")


def expired(metastore: Metastore, table: TableInfo) -> list[str]:
    """The names of the files that are to be deleted."""
    return sorted(path.rpartition("/")[2] for path in metastore.list_expired_files(table.table_uuid, 10_000))


def live(metastore: Metastore, table: TableInfo, snapshot_id: int | None = None) -> list[str]:
    at = None if snapshot_id is None else AtSnapshot(snapshot_id)
    paths = metastore.plan(PlanRequest(table.table_uuid, at=at)).files.column("path").to_pylist()
    return sorted(path.rpartition("/")[2] for path in paths)


def file_ids(metastore: Metastore, table: TableInfo) -> list[int]:
    found: list[int] = metastore.plan(PlanRequest(table.table_uuid)).files.column("file_id").to_pylist()
    return sorted(found)


def replace_all(metastore: Metastore, table: TableInfo, identifier: int, names: str) -> None:
    """Puts new files in the place of all that are live."""
    kind = SnapshotKind.OVERWRITE
    rewrite(metastore, table, identifier, *file_ids(metastore, table), names=names, kind=kind, writer="overwriter")


def make_history(metastore: Metastore, table: TableInfo) -> None:
    """Snapshots 1 to 4 of one file each, all replaced by 5, which 6 adds one to."""
    for number, name in enumerate("abcd", 1):
        append(metastore, table, number, names=name)
    replace_all(metastore, table, 1, "p")
    append(metastore, table, 6, names="q")


def append_many(metastore: Metastore, table: TableInfo, number: int) -> None:
    attempt = metastore.stage_attempt([table.table_uuid], "w").attempt_id
    files = [make_file(attempt, f"{number}-{each}") for each in range(1000)]
    metastore.commit(CommitRequest("w", number, (make_change(table, files),), attempt))
