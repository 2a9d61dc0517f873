"""Makes changelogs of snapshots that were committed without one (semantics 3.5), from the states before them.

Objectives, which conflict: a changelog as the commit itself would have made it; a backlog that drains faster than it
grows; bounded memory. So successive snapshots are handled together: old rows are looked up once, before the first of
them, and the old rows of the later ones follow from the earlier ones. What is too much for that is handled snapshot by
snapshot, bucket by bucket, a large bucket by key ranges.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from lakelog.client.metastore.metastore import Metastore
from lakelog.format.commit.attachment import SnapshotChangelog
from lakelog.format.tables.files import DataFile
from lakelog.format.tables.plan import AtSnapshot, InRange, PlanRequest
from lakelog.format.tables.snapshot import ChangelogState, Snapshot, SnapshotKind
from lakelog.format.tables.table import TableInfo, as_of
from lakelog.options.values import TableOptions
from lakelog.reads.change_plan import pick_shown_files
from lakelog.storage.lookup.bucket_changelog import BucketChangelogs
from lakelog.storage.lookup.bucket_changes import Bucket, group_by_bucket, to_plan_request
from lakelog.storage.lookup.caches import Caches
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.parquet.live_file import LiveFile, to_live_files
from lakelog.writes.changelog.commit_changelog import find_open_rules, with_open_rules

MAX_TOGETHER: Final = 200
"""Snapshots handled together: each brings changelog files of its own, and readers wait for all of them."""

_TOGETHER_ROWS: Final = 1 << 19
"""Rows of snapshots handled together: they, their old rows and the changes are in memory, one share at a time."""

_TOGETHER_BYTES: Final = 64 << 20
"""The same limit for wide rows, in stored bytes."""

_TOGETHER_FILES: Final = 5000
"""Data files of snapshots handled together: about as many changelog files go to the metastore in one request."""

_THREADS: Final = 2


@dataclass(frozen=True)
class LateChangelogs:
    """The changelogs made for the lowest snapshots with a pending changelog.

    Args:
        changelogs: By rising snapshot.
        schema_id: The schema of their files: that of the snapshots.
        rows: How many rows they changed, counting -U and +U each.
    """

    changelogs: tuple[SnapshotChangelog, ...]
    schema_id: int
    rows: int

    @property
    def files(self) -> tuple[DataFile, ...]:
        """All changelog files."""
        return tuple(file for each in self.changelogs for file in each.files)


def pick_together(snapshots: Sequence[Snapshot]) -> list[Snapshot]:
    """Returns the pending snapshots that can be handled together, beginning with the lowest. Pure.

    Between two of them only snapshots that change no row are allowed; any other would be missing from the old rows of
    the later one. All of them have the same options and the same columns.

    Args:
        snapshots: Rising, without gaps, from the lowest pending one on.
    """
    picked: list[Snapshot] = []
    rows = 0
    for each in snapshots:
        if each.kind is SnapshotKind.COMPACT:
            continue
        rows += each.added_rows
        if each.changelog is not ChangelogState.PENDING or len(picked) == MAX_TOGETHER:
            break
        if picked and rows > _TOGETHER_ROWS:
            break
        if picked and find_open_rules(each.properties) != find_open_rules(picked[0].properties):
            break
        if picked and each.schema_id != picked[0].schema_id:
            break
        picked.append(each)
    return picked


def keep_bounded(snapshots: Sequence[Snapshot], files: Sequence[LiveFile]) -> list[Snapshot]:
    """Returns as many of some snapshots, at least the first, as stay within the limits of bytes and files. Pure."""
    ends = {each.snapshot_id: number for number, each in enumerate(snapshots)}
    sizes, counts = ([0] * len(snapshots) for _ in range(2))
    for file in files:
        place = ends.get(file.added_snapshot)
        if place is not None:
            sizes[place] += file.size_bytes
            counts[place] += 1
    totals = zip(itertools.accumulate(sizes), itertools.accumulate(counts), strict=True)
    fits = [size <= _TOGETHER_BYTES and count <= _TOGETHER_FILES for size, count in totals]
    return [each for number, (each, fit) in enumerate(zip(snapshots, fits, strict=True)) if fit or number == 0]


def make_late_changelogs(
    metastore: Metastore,
    store: ObjectStore,
    info: TableInfo,
    attempt_id: str,
    snapshots: Sequence[Snapshot],
    caches: Caches,
) -> LateChangelogs:
    """Makes the changelogs of the lowest pending snapshots, as many as fit; blocks. A failure leaves no files.

    Args:
        metastore: Plans the reads.
        store: Where the table's files are.
        info: The table.
        attempt_id: The attempt that owns the changelog files.
        snapshots: Rising, without gaps, from the lowest pending one on; not necessarily all of them.
        caches: Used for the old rows.

    Raises:
        DataCorrupted: A data file is damaged or missing; named.
        LakelogError: The metastore or the store failed.
    """
    picked = pick_together(snapshots)
    info = _find_version(metastore, info, picked[0].schema_id)
    first, last = picked[0].snapshot_id, picked[-1].snapshot_id
    plan = metastore.plan(PlanRequest(info.table_uuid, InRange(first - 1, last)))
    added = to_live_files(plan.files)
    picked = keep_bounded(picked, added)
    shown = pick_shown_files(added, picked)
    before: dict[Bucket, list[LiveFile]] = {}
    if first > 1 and shown:
        state = metastore.plan(to_plan_request(info.table_uuid, AtSnapshot(first - 1), shown))
        before = group_by_bucket(to_live_files(state.files))
    options = TableOptions(with_open_rules(info.options, picked[0].properties))
    maker = BucketChangelogs(store, info.schema, options, attempt_id, caches.find_copies(info.table_uuid, options))
    found: dict[int, list[DataFile]] = {each.snapshot_id: [] for each in picked}
    uuids = {each.snapshot_id: each.snapshot_uuid for each in picked}
    try:
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="lakelog-late") as pool:
            buckets = group_by_bucket(shown)
            emitted = [
                (commits, pool.submit(maker.write_commits, f"late-{number:05d}", bucket, list(commits.values()), old))
                for number, (bucket, files) in enumerate(buckets.items())
                for commits, old in [(_by_commit(files), before.get(bucket, []))]
            ]
            failure: BaseException | None = None
            for commits, future in emitted:
                error = future.exception()
                if error is not None:
                    failure = failure or error
                    continue
                for snapshot_id, files_of_it in zip(commits, future.result(), strict=True):
                    found[snapshot_id] += files_of_it
            if failure is not None:
                raise failure
    except BaseException:
        maker.delete(file.path for files in found.values() for file in files)
        raise
    return LateChangelogs(
        tuple(SnapshotChangelog(snapshot_id, tuple(files), uuids[snapshot_id]) for snapshot_id, files in found.items()),
        info.schema.schema_id,
        sum(file.row_count for files in found.values() for file in files),
    )


def _find_version(metastore: Metastore, info: TableInfo, schema_id: int) -> TableInfo:
    """The table with the columns that snapshots have; those that were dropped since are shown by readers behind."""
    if info.schema.schema_id == schema_id:
        return info
    versions = {each.schema_id: each for each in metastore.list_schemas(info.table_uuid)}
    return as_of(info, versions[schema_id])


def _by_commit(files: Sequence[LiveFile]) -> dict[int, list[LiveFile]]:
    """Groups a bucket's files by the snapshot that added them, rising."""
    found: dict[int, list[LiveFile]] = {}
    for file in files:
        found.setdefault(file.added_snapshot, []).append(file)
    return found
