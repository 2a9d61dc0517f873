"""What a check of a table has found, and what its repair has done."""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.format.retention.table_files import FileUse, OrphanReason


@dataclass(frozen=True)
class OrphanFiles:
    """Files of one attempt that nothing refers to.

    Args:
        attempt_id: The attempt; empty: the files are in no attempt's folder.
        reason: Why nothing refers to them.
        open_ms: How long the attempt has been open; None: it is not open.
        files: How many there are.
        size_bytes: Their total size.
        example: The path of one.
        deletable: How many of them a repair deletes, or has deleted.
    """

    attempt_id: str
    reason: OrphanReason
    open_ms: int | None
    files: int
    size_bytes: int
    example: str
    deletable: int


@dataclass(frozen=True)
class BrokenFile:
    """A file that the table refers to and that differs from what was committed.

    Args:
        path: Relative to the table's location.
        use: What refers to it.
        size_bytes: The size that was committed; None: unknown.
        found_bytes: The size in the store; None: the file is missing.
        last_snapshot_id: The last snapshot that has it; None: the newest one has it.
    """

    path: str
    use: FileUse
    size_bytes: int | None
    found_bytes: int | None
    last_snapshot_id: int | None = None


@dataclass(frozen=True)
class LostSnapshots:
    """The oldest snapshots of a table, up to the last one that lacks files. Only the oldest snapshots can expire.

    Args:
        first: The first of them; 0: only tags still have such snapshots.
        last: The last of them, which lacks files.
        lacking: How many of them lack files.
        readable: How many of them can be read; they go with the others.
        tags: The tags of snapshots that lack files.
    """

    first: int
    last: int
    lacking: int
    readable: int
    tags: tuple[str, ...]


@dataclass(frozen=True)
class FileCheck:
    """What a check has found.

    Args:
        table: The table's full name.
        location: Where its files are.
        files: Files below the location.
        present_files: How many of them the table refers to.
        size_bytes: Their total size.
        orphans: Files that nothing refers to, by attempt.
        orphan_files: The number of orphans, including those of attempts that are not listed.
        orphan_bytes: Their total size.
        queued_files: Files that expiry has queued and not deleted yet.
        broken: Referenced files that are missing or have another size.
        broken_files: The number of broken files, including those that are not listed.
        broken_changelogs: How many of them are changelogs: their changes cannot be read, their snapshots can.
        deleted_files: How many files this check has deleted.
        deleted_bytes: Their total size.
        left_files: How many files this check tried to delete and could not.
        broken_until: The last snapshot that cannot be read because of broken files. None: there is none, or the newest
            snapshot is one.
        lost: What a repair with `forget_lost` expires and deletes; None: nothing, or the newest snapshot lacks files.
        expired: What this check has expired; None: nothing.
        expired_snapshots: How many snapshots this check has expired. Those that a tag or reader retains do not count.
        deleted_tags: The tags that this check has deleted, because their snapshots have broken files.
        forgotten: The broken files to which nothing refers any more, because this check has expired their snapshots.
        held_by: What kept such snapshots from expiring.
        log_problem: Why the table's log is not published; empty: no known problem, or no log.
        log_needs_restart: Whether log and table do not belong together any more, so that only a restart helps, unless
            people restore what was there.
        log_is_ahead: Whether that is because the table has lost snapshots that the log has; then a repair restarts it.
        log_restarted_after: The snapshot after which this check has restarted the log; None: it has not.
    """

    table: str
    location: str
    files: int = 0
    size_bytes: int = 0
    present_files: int = 0
    orphans: tuple[OrphanFiles, ...] = ()
    orphan_files: int = 0
    orphan_bytes: int = 0
    queued_files: int = 0
    broken: tuple[BrokenFile, ...] = ()
    broken_files: int = 0
    broken_changelogs: int = 0
    deleted_files: int = 0
    deleted_bytes: int = 0
    left_files: int = 0
    broken_until: int | None = None
    lost: LostSnapshots | None = None
    expired: LostSnapshots | None = None
    expired_snapshots: int = 0
    deleted_tags: tuple[str, ...] = ()
    forgotten: tuple[BrokenFile, ...] = ()
    held_by: tuple[str, ...] = ()
    log_problem: str = ""
    log_needs_restart: bool = False
    log_is_ahead: bool = False
    log_restarted_after: int | None = None
