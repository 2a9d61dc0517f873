"""What a check of a table's files has found."""

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
    """

    path: str
    use: FileUse
    size_bytes: int | None
    found_bytes: int | None


@dataclass(frozen=True)
class FileCheck:
    """What a check has found.

    Args:
        table: The table's full name.
        location: Where its files are.
        files: Files below the location.
        size_bytes: Their total size.
        orphans: Files that nothing refers to, by attempt.
        orphan_files: The number of orphans, including those of attempts that are not listed.
        orphan_bytes: Their total size.
        queued_files: Files that expiry has queued and not deleted yet.
        broken: Referenced files that are missing or have another size.
        broken_files: The number of broken files, including those that are not listed.
        deleted_files: How many files this check has deleted.
        deleted_bytes: Their total size.
        left_files: How many files this check tried to delete and could not.
    """

    table: str
    location: str
    files: int = 0
    size_bytes: int = 0
    orphans: tuple[OrphanFiles, ...] = ()
    orphan_files: int = 0
    orphan_bytes: int = 0
    queued_files: int = 0
    broken: tuple[BrokenFile, ...] = ()
    broken_files: int = 0
    deleted_files: int = 0
    deleted_bytes: int = 0
    left_files: int = 0
