"""Repairs of a table whose metastore was restored to an earlier state, while files and the log are newer.

    snapshots with broken files -> the newest one has none -> their tags deleted, then expired with all before them
    log with a problem -> log and table do not belong together any more -> restarted after the newest snapshot

Objectives, in this order:

1. No state that can be read is lost. Snapshots with broken files cannot be read; those before them hold nothing that
   the newest snapshot lacks, but can be read, and go with them: only the oldest snapshots can expire.
2. Nothing happens where the newest snapshot has broken files. Then rows are lost, or it is not the right warehouse, and
   people must decide.
3. What needs a snapshot keeps it, and is named.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import PermissionDenied
from lakelog.format.log.state import RESTART_COMMAND
from lakelog.format.retention.table_files import MAX_FILES_A_CALL, FileUse
from lakelog.format.tables.table import TableInfo
from lakelog.options.declared.log import LOG_SYSTEM
from lakelog.options.values import TableOptions
from lakelog.sdk.maintenance.checking.file_check_result import BrokenFile, FileCheck
from lakelog.sdk.maintenance.expiry import describe_snapshot_lease, expire_snapshots


def forget_broken(
    metastore: Metastore, info: TableInfo, found: FileCheck, spans: Collection[tuple[int, int | None]]
) -> FileCheck:
    """Expires the snapshots that have broken files, unless the newest one is among them; blocks; idempotent.

    Args:
        metastore: Knows the snapshots.
        info: The table.
        found: What a check has found.
        spans: The first and the last snapshot of each broken file.

    Returns:
        What the check has found and this has done; `broken` has the files that are left.
    """
    if found.broken_until is None:
        return found
    deleted = []
    for tag in metastore.list_tags(info.table_uuid):
        if any(first <= tag.snapshot_id <= (last or 0) for first, last in spans):
            metastore.delete_tag(info.table_uuid, tag.name)
            deleted.append(tag.name)
    next_one = metastore.list_snapshots(info.table_uuid, after=found.broken_until, limit=1).snapshots[0]
    # A snapshot is replaced when the next one is committed.
    expired = expire_snapshots(metastore, info, older_than=next_one.committed_at_ms, retain_last=1)
    left = _find_used(metastore, info, found.broken)
    is_done = not left
    return replace(
        found,
        broken=left,
        broken_files=0 if is_done else found.broken_files - len(found.broken) + len(left),
        broken_until=None if is_done else found.broken_until,
        expired_snapshots=expired.snapshots,
        deleted_tags=tuple(deleted),
        held_by=() if is_done else tuple(describe_snapshot_lease(each) for each in expired.held_by),
    )


def check_log(metastore: Metastore, info: TableInfo, found: FileCheck, *, repair: bool) -> FileCheck:
    """Adds the problem of a table's log, and with `repair` restarts a log that needs it; blocks.

    Its publisher finds the problem, when it starts and every ten seconds, and reports it.
    """
    if TableOptions(info.options).get(LOG_SYSTEM) == "none":
        return found
    state, log = metastore.get_publish_state(info.table_uuid), metastore.get_log(info.table_uuid)
    problem = state.problem or log.problem
    if not (state.needs_restart or RESTART_COMMAND in log.problem):
        return replace(found, log_problem=problem)
    if not repair:
        return replace(found, log_problem=problem, log_needs_restart=True)
    try:
        restarted = metastore.restart_log(info.table_uuid)
    except PermissionDenied as error:
        return replace(found, log_problem=f"{problem} It was not restarted: {error.message}", log_needs_restart=True)
    return replace(found, log_problem=problem, log_restarted_after=restarted.starts_after)


def _find_used(metastore: Metastore, info: TableInfo, broken: tuple[BrokenFile, ...]) -> tuple[BrokenFile, ...]:
    """Those broken files that something still refers to."""
    used: set[str] = set()
    for start in range(0, len(broken), MAX_FILES_A_CALL):
        paths = [each.path for each in broken[start : start + MAX_FILES_A_CALL]]
        files = metastore.find_used_files(info.table_uuid, paths).files
        used.update(each.path for each in files if each.use is not FileUse.EXPIRED)
    return tuple(each for each in broken if each.path in used)
