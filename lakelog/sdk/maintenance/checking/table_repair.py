"""Repairs of a table whose metastore was restored to an earlier state, while files and the log are newer.

    snapshots with broken files -> the newest one has none, and a user agrees -> expired with all before them
    their tags -> deleted once the snapshots have expired
    log with a problem -> it has snapshots that the table has lost -> restarted after the newest snapshot

Objectives, in this order:

1. No state that can be read is lost without a user's consent. Snapshots with broken files cannot be read; those before
   them can, and go with them: only the oldest snapshots can expire. A lost changelog makes no snapshot unreadable.
2. Nothing happens where the newest snapshot has broken files. Then rows are lost, or it is not the right warehouse, and
   people must decide.
3. What needs a snapshot keeps it, and is named.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace

import numpy as np

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import NotFound, PermissionDenied
from lakelog.format.retention.table_files import MAX_FILES_A_CALL, FileUse
from lakelog.format.tables.table import TableInfo
from lakelog.options.declared.log import LOG_SYSTEM
from lakelog.options.values import TableOptions
from lakelog.sdk.maintenance.checking.file_check_result import BrokenFile, FileCheck, LostSnapshots
from lakelog.sdk.maintenance.expiry import ExpiryResult, describe_snapshot_lease, expire_snapshots

Spans = Collection[tuple[int, int | None]]
"""The first and the last snapshot of each broken data file or file of deletion vectors; None: the newest."""


def find_lost(metastore: Metastore, info: TableInfo, found: FileCheck, spans: Spans) -> FileCheck:
    """Adds what `forget_broken` would expire and delete; blocks."""
    until = found.broken_until
    if until is None:
        return found
    page = metastore.list_snapshots(info.table_uuid, limit=1, newest=True)
    tags = [tag.name for tag in metastore.list_tags(info.table_uuid) if _is_in(spans, tag.snapshot_id)]
    return replace(found, lost=_describe(page.earliest_snapshot_id, until, spans, tags))


def forget_broken(metastore: Metastore, info: TableInfo, found: FileCheck, spans: Spans) -> FileCheck:
    """Expires the snapshots that have broken files, unless the newest one is among them; blocks; idempotent.

    Tags are deleted once their snapshots have expired, so none goes whose snapshot a reader or consumer keeps.

    Args:
        metastore: Knows the snapshots.
        info: The table.
        found: What a check has found.
        spans: The snapshots of the broken files.

    Returns:
        What the check has found and this has done; `broken` has the files that are left.
    """
    until = found.broken_until
    if until is None:
        return found
    before = metastore.list_snapshots(info.table_uuid, limit=1, newest=True)
    expired = _expire(metastore, info, until)
    kept_from = expired.first_kept or 0
    deleted = _delete_tags(metastore, info, kept_from, spans)
    # What only these tags retained can go now.
    expired = _expire(metastore, info, until)
    gone = range(before.earliest_snapshot_id, kept_from)
    left = _find_used(metastore, info, found.broken)
    changelogs = [each for each in found.broken if each.use is FileUse.CHANGELOG]
    left_changelogs = [each for each in left if each.use is FileUse.CHANGELOG]
    is_done = len(left) == len(left_changelogs)
    # All other files go together, also those that are not listed.
    unlisted = found.broken_files - found.broken_changelogs - (len(found.broken) - len(changelogs))
    rest_changelogs = found.broken_changelogs - len(changelogs) + len(left_changelogs)
    rest = 0 if is_done else unlisted + len(left) - len(left_changelogs)
    kept = set(left)
    result = replace(
        found,
        broken=left,
        broken_files=rest + rest_changelogs,
        broken_changelogs=rest_changelogs,
        broken_until=None if is_done else until,
        lost=None,
        expired=_describe(gone.start, gone.stop - 1, spans, deleted) if gone or deleted else None,
        expired_snapshots=len(gone) - len([each for each in expired.tagged if each in gone]),
        deleted_tags=tuple(deleted),
        forgotten=tuple(each for each in found.broken if each not in kept),
        held_by=() if is_done else tuple(describe_snapshot_lease(each) for each in expired.held_by),
    )
    return result if is_done else find_lost(metastore, info, result, spans)


def _expire(metastore: Metastore, info: TableInfo, until: int) -> ExpiryResult:
    """Expires the snapshots up to `until`, and no later ones.

    Expiry knows ages and numbers, not ids. The number of later snapshots decides here. If a program commits meanwhile,
    the age decides: then later snapshots that were committed in one millisecond with the first of them could go, one
    for each such commit.
    """
    later = metastore.list_snapshots(info.table_uuid, after=until, limit=1)
    # The newest snapshot is a later one.
    first = later.snapshots[0]
    # A snapshot is replaced when the next one is committed.
    return expire_snapshots(
        metastore, info, older_than=first.committed_at_ms, retain_last=later.latest_snapshot_id - until
    )


def _delete_tags(metastore: Metastore, info: TableInfo, kept_from: int, spans: Spans) -> list[str]:
    """Deletes the tags of expired snapshots that lack files; returns those that this call has deleted."""
    deleted = []
    for tag in metastore.list_tags(info.table_uuid):
        if tag.snapshot_id >= kept_from or not _is_in(spans, tag.snapshot_id):
            continue
        # Another repair, or a user, can have deleted it since.
        with suppress(NotFound):
            metastore.delete_tag(info.table_uuid, tag.name)
            deleted.append(tag.name)
    return deleted


def _is_in(spans: Spans, snapshot_id: int) -> bool:
    """Whether a snapshot has a broken file. Pure."""
    return any(first <= snapshot_id and (last is None or snapshot_id <= last) for first, last in spans)


def _describe(first: int, last: int, spans: Spans, tags: Collection[str]) -> LostSnapshots:
    """What is to expire, or has. Pure."""
    count = max(last - first + 1, 0)
    lacking = np.zeros(count, np.bool_)
    for begin, end in spans:
        lacking[max(begin - first, 0) : max((last if end is None else end) - first + 1, 0)] = True
    found = int(lacking.sum())
    return LostSnapshots(first if count else 0, last if count else 0, found, count - found, tuple(tags))


def check_log(metastore: Metastore, info: TableInfo, found: FileCheck, *, repair: bool) -> FileCheck:
    """Adds the problem of a table's log, and with `repair` restarts a log that is ahead; blocks.

    Its publisher finds the problem, when it starts and every ten seconds, and reports it. A restart mends a log that
    has snapshots which the table has lost. If its topic was cut or made again, people must find out why.
    """
    if TableOptions(info.options).get(LOG_SYSTEM) == "none":
        return found
    state, log = metastore.get_publish_state(info.table_uuid), metastore.get_log(info.table_uuid)
    problem = state.problem or log.problem
    if not state.needs_restart:
        return replace(found, log_problem=problem)
    if not (repair and state.is_ahead):
        return replace(found, log_problem=problem, log_needs_restart=True, log_is_ahead=state.is_ahead)
    try:
        restarted = metastore.restart_log(info.table_uuid)
    except PermissionDenied as error:
        return replace(
            found,
            log_problem=f"{problem} It was not restarted: {error.message}",
            log_needs_restart=True,
            log_is_ahead=True,
        )
    return replace(found, log_problem=problem, log_restarted_after=restarted.starts_after)


def _find_used(metastore: Metastore, info: TableInfo, broken: tuple[BrokenFile, ...]) -> tuple[BrokenFile, ...]:
    """Those broken files that something still refers to."""
    used: set[str] = set()
    for start in range(0, len(broken), MAX_FILES_A_CALL):
        paths = [each.path for each in broken[start : start + MAX_FILES_A_CALL]]
        files = metastore.find_used_files(info.table_uuid, paths).files
        used.update(each.path for each in files if each.use is not FileUse.EXPIRED)
    return tuple(each for each in broken if each.path in used)
