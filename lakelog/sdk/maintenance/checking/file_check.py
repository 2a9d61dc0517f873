"""Checks a table's files: which files below its location are orphans, and which referenced files are missing.

    listed in pages -> attempts, then references asked for -> orphans by attempt -> with repair: aborted, deleted
    references listed in pages -> not seen in the store, or of another size -> checked a second time -> broken

Rules that keep a file that is, or will be, part of the table (reliability C4):

1. References to a file are read after the state of its attempt. An attempt that is over has put its files into the
   table by then, or never will.
2. No file of an open attempt is deleted before the metastore has aborted the attempt, which it does only if the attempt
   is old enough. A program that still writes to it is refused when it commits.
3. Only expiry deletes the files that it has queued; it can queue and delete files while a check runs.
4. Files of unknown attempts are deleted when they are old, by the clock of their store.
5. Symbolic links are reported as orphans, and neither followed nor deleted.

Memory: one page, 16 bytes for each file, and the reports on at most `MAX_REPORTED` attempts and missing files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from lakelog.client.metastore.metastore import Metastore
from lakelog.clock import Clock
from lakelog.errors import NotFound
from lakelog.format.retention.table_files import (
    MAX_FILES_A_CALL,
    FileUse,
    OrphanReason,
    UsedFile,
    find_attempt,
    find_reason,
    may_delete,
)
from lakelog.format.tables.paths import is_path
from lakelog.format.tables.table import TableInfo
from lakelog.progress.tracking import track
from lakelog.sdk.maintenance.checking.file_check_result import BrokenFile, FileCheck, OrphanFiles
from lakelog.sdk.maintenance.checking.store_check import refuse_wrong_store
from lakelog.sdk.maintenance.checking.table_repair import find_lost, forget_broken
from lakelog.storage.objects.deleting import delete_files
from lakelog.storage.objects.store import ObjectStore, StoredObject

MAX_REPORTED: Final = 10_000
"""Attempts and missing files that a check reports one by one; the rest are only counted."""

DEFAULT_OLDER_THAN_MS: Final = 86_400_000
"""A day: few writes take longer."""


@dataclass
class _Found:
    """What a check has found so far."""

    files: int = 0
    size_bytes: int = 0
    present_files: int = 0
    orphans: dict[tuple[str, OrphanReason], OrphanFiles] = field(default_factory=dict)
    orphan_files: int = 0
    orphan_bytes: int = 0
    queued_files: int = 0
    broken: list[BrokenFile] = field(default_factory=list)
    broken_files: int = 0
    broken_changelogs: int = 0
    deleted_files: int = 0
    deleted_bytes: int = 0
    left_files: int = 0
    spans: set[tuple[int, int | None]] = field(default_factory=set)
    seen: list[npt.NDArray[np.int64]] = field(default_factory=list)

    def add_broken(self, used: UsedFile, found_bytes: int | None) -> None:
        self.broken_files += 1
        if used.use is FileUse.CHANGELOG:
            # Its snapshot can be read all the same.
            self.broken_changelogs += 1
        else:
            # A file of which nothing is known, as an older metastore says it, is in all snapshots.
            self.spans.add((used.first_snapshot_id or 0, used.last_snapshot_id))
        if len(self.broken) < MAX_REPORTED:
            self.broken.append(BrokenFile(used.path, used.use, used.size_bytes, found_bytes, used.last_snapshot_id))


def check_files(
    metastore: Metastore,
    store: ObjectStore,
    info: TableInfo,
    *,
    repair: bool,
    forget_lost: bool = False,
    older_than_ms: int,
    clock: Clock,
    report: Callable[[int], None] = lambda _: None,
    page_size: int = MAX_FILES_A_CALL,
) -> FileCheck:
    """Checks a table's files, and with `repair` deletes those that nothing refers to; blocks.

    Safe to repeat, and to end at any moment.

    Args:
        metastore: Knows what refers to files.
        store: Where the files are.
        info: The table.
        repair: Delete what may be deleted.
        forget_lost: Also expire the snapshots that lack files, see `forget_broken`; only with `repair`.
        older_than_ms: Attempts that have been open for longer are aborted, and older files of unknown origin are
            deleted; younger ones stay.
        clock: For the age of files of unknown origin.
        report: Called now and then with the number of files checked so far.
        page_size: Files that are checked together.

    Raises:
        NotFound: The table was dropped.
        DataCorrupted: With `repair`: not one of the table's files was found. Nothing was changed.
        LakelogError: Metastore or store failed; files deleted until then stay deleted.
    """
    check = _Check(metastore, store, info, repair, older_than_ms, clock)
    if repair:
        refuse_wrong_store(metastore, store, info, page_size)
    with track(f"checking {info.name}", "files") as work:
        for page in store.list_pages(page_size):
            check.look_at(page)
            work.done = check.found.files
            report(check.found.files)
        if repair and check.found.deleted_files:
            store.delete_empty_folders()
        check.find_missing(page_size)
    result = find_lost(metastore, info, check.result(), check.found.spans)
    if not (repair and forget_lost) or result.lost is None:
        return result
    # The warehouse can have gone meanwhile.
    refuse_wrong_store(metastore, store, info, page_size)
    return forget_broken(metastore, info, result, check.found.spans)


class _Check:
    """A running check; the arguments are those of `check_files`."""

    def __init__(
        self, metastore: Metastore, store: ObjectStore, info: TableInfo, repair: bool, older_than_ms: int, clock: Clock
    ) -> None:
        self.found = _Found()
        self._metastore = metastore
        self._store = store
        self._info = info
        self._repair = repair
        self._older_than_ms = older_than_ms
        self._clock = clock

    def look_at(self, page: Sequence[StoredObject]) -> None:
        """Checks files of the store, and with `repair` deletes those that may be deleted."""
        found = self.found
        found.files += len(page)
        found.size_bytes += sum(each.size_bytes for each in page)
        known = self._metastore.find_used_files(self._info.table_uuid, [each.path for each in page])
        used = {each.path: each for each in known.files}
        attempts = {each.attempt_id: each for each in known.attempts}
        old = [each.attempt_id for each in known.attempts if find_reason(each) is OrphanReason.OPEN]
        old = [each for each in old if attempts[each].age_ms >= self._older_than_ms]
        aborted = self._abort(old, [each for each in page if each.path not in used])
        now_ms = self._clock.now_ms()
        to_delete: list[StoredObject] = []
        # A file of another size counts as not seen: it is looked for once more when references are listed.
        found.seen.append(_hashes(each.path for each in page if not _has_other_size(each, used.get(each.path))))
        for each in page:
            use = used.get(each.path)
            if use is not None:
                found.queued_files += use.use is FileUse.EXPIRED
                found.present_files += use.use is not FileUse.EXPIRED
                continue
            attempt = attempts.get(find_attempt(each.path))
            reason = find_reason(attempt)
            is_over = attempt is not None and attempt.attempt_id in aborted
            # An operator may have moved a folder elsewhere by a link, so people decide about it.
            may_go = not each.is_link and may_delete(
                reason, is_aborted=is_over, age_ms=now_ms - each.modified_ms, older_than_ms=self._older_than_ms
            )
            if may_go:
                to_delete.append(each)
            open_ms = attempt.age_ms if attempt is not None and reason is OrphanReason.OPEN else None
            self._add_orphan(each, reason, open_ms, may_go)
        if self._repair and to_delete:
            left = {each.path for each in delete_files(self._store, [each.path for each in to_delete])}
            gone = [each for each in to_delete if each.path not in left]
            found.left_files += len(left)
            found.deleted_files += len(gone)
            found.deleted_bytes += sum(each.size_bytes for each in gone)

    def find_missing(self, page_size: int) -> None:
        """Looks for files that the table refers to and that were not in the store as they were committed."""
        seen = np.sort(np.concatenate(self.found.seen)) if self.found.seen else np.empty(0, np.int64)
        self.found.seen.clear()
        cursor = ""
        while True:
            page = self._metastore.list_used_files(self._info.table_uuid, cursor, page_size)
            unseen = ~np.isin(_hashes(each.path for each in page.files), seen, assume_unique=False)
            self._recheck([page.files[place] for place in np.flatnonzero(unseen)])
            cursor = page.cursor
            if not cursor:
                return

    def result(self) -> FileCheck:
        """What was found."""
        found = self.found
        lasts = [last for _, last in found.spans]
        until = None if None in lasts else max((last for last in lasts if last is not None), default=None)
        return FileCheck(
            table=str(self._info.name),
            location=self._info.location,
            files=found.files,
            size_bytes=found.size_bytes,
            orphans=tuple(found.orphans.values()),
            orphan_files=found.orphan_files,
            orphan_bytes=found.orphan_bytes,
            queued_files=found.queued_files,
            broken=tuple(found.broken),
            broken_files=found.broken_files,
            broken_changelogs=found.broken_changelogs,
            present_files=found.present_files,
            deleted_files=found.deleted_files,
            deleted_bytes=found.deleted_bytes,
            left_files=found.left_files,
            broken_until=until,
        )

    def _abort(self, old: Sequence[str], orphans: Sequence[StoredObject]) -> set[str]:
        """Aborts attempts with orphans that have been open for too long; returns those whose files may be deleted."""
        having = {find_attempt(each.path) for each in orphans}
        wanted = [each for each in old if each in having]
        if not self._repair or not wanted:
            # Without repair the result says what a repair would do.
            return set(wanted)
        return set(self._metastore.abort_attempts(self._info.table_uuid, wanted, self._older_than_ms))

    def _add_orphan(self, object_: StoredObject, reason: OrphanReason, open_ms: int | None, deletable: bool) -> None:
        found = self.found
        found.orphan_files += 1
        found.orphan_bytes += object_.size_bytes
        key = (find_attempt(object_.path), reason)
        group = found.orphans.get(key)
        if group is None:
            if len(found.orphans) >= MAX_REPORTED:
                return
            group = OrphanFiles(key[0], reason, open_ms, 0, 0, object_.path, 0)
        found.orphans[key] = replace(
            group,
            files=group.files + 1,
            size_bytes=group.size_bytes + object_.size_bytes,
            deletable=group.deletable + deletable,
        )

    def _recheck(self, suspects: Sequence[UsedFile]) -> None:
        """Checks again: an unlisted file may be new or expired since; a short one may have been just written."""
        # Several entries can have one file.
        by_path: dict[str, UsedFile] = {}
        for each in suspects:
            by_path[each.path] = _join(by_path[each.path], each) if each.path in by_path else each
        for each in by_path.values():
            if not is_path(each.path):
                # Earlier versions committed such paths; no store can contain the file.
                self.found.add_broken(each, None)
        sizes = {path: self._find_size(path) for path in by_path if is_path(path)}
        broken = [path for path, size in sizes.items() if _is_broken(by_path[path], size)]
        for start in range(0, len(broken), MAX_FILES_A_CALL):
            paths = broken[start : start + MAX_FILES_A_CALL]
            for used in self._metastore.find_used_files(self._info.table_uuid, paths).files:
                if used.use is not FileUse.EXPIRED:
                    self.found.add_broken(by_path[used.path], sizes[used.path])

    def _find_size(self, path: str) -> int | None:
        try:
            return self._store.size(path)
        except NotFound:
            return None


def _has_other_size(found: StoredObject, used: UsedFile | None) -> bool:
    """Whether a file of the store has another size than was committed. Pure."""
    if used is None or used.use is FileUse.EXPIRED:
        return False
    return used.size_bytes not in (None, found.size_bytes)


def _join(one: UsedFile, other: UsedFile) -> UsedFile:
    """One file in the snapshots of two entries; states count more than changes. Pure."""
    if FileUse.CHANGELOG in (one.use, other.use) and one.use is not other.use:
        return other if one.use is FileUse.CHANGELOG else one
    firsts = [each.first_snapshot_id or 0 for each in (one, other)]
    lasts = [each.last_snapshot_id for each in (one, other)]
    last = None if None in lasts else max(each for each in lasts if each is not None)
    return replace(one, first_snapshot_id=min(firsts), last_snapshot_id=last)


def _is_broken(used: UsedFile, size_bytes: int | None) -> bool:
    """Whether a file is missing, or has another size than was committed. Pure."""
    return size_bytes is None or used.size_bytes not in (None, size_bytes)


def _hashes(paths: Iterator[str] | Sequence[str]) -> npt.NDArray[np.int64]:
    """Hashes of paths, in 64 bits.

    Among 10 million the odds are one in 300,000 that two are alike, which would hide that one of them is missing.
    """
    return np.fromiter((hash(path) for path in paths), np.int64)
