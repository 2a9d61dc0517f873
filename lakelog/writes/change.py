"""Translates a write into the change of a commit: one translation for the SDK, Spark and the compactor. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from lakelog.format.commit.log_content import plan_log_content, to_log_files
from lakelog.format.commit.request import ANY_TIME, Change, CompactionGroup, Removal, RemoveFiles
from lakelog.format.tables.files import DataFile
from lakelog.format.tables.snapshot import ChangelogState, Snapshot, SnapshotKind
from lakelog.format.tables.table import TableInfo
from lakelog.options.values import TableOptions
from lakelog.storage.write.removed_rows import RemovedRows
from lakelog.writes.changelog.commit_changelog import find_producer, to_changelog_state, to_open_rules
from lakelog.writes.changelog.lookup_changelog import LookupChangelog
from lakelog.writes.commit_metadata import CommitMetadata
from lakelog.writes.commit_options import Guards
from lakelog.writes.uncommitted_sending import SentUncommitted


def to_change(
    info: TableInfo,
    files: Sequence[DataFile],
    inputs: Sequence[DataFile],
    *,
    removal: Removal | None,
    removed_rows: RemovedRows | None = None,
    lookup: LookupChangelog | None,
    sent: SentUncommitted | None,
    guards: Guards,
    commit_metadata: CommitMetadata,
) -> Change:
    """Returns the change of a write to a table. Pure.

    Args:
        info: The table as it was at the write.
        files: The data files, in the commit's order.
        inputs: Files with the records as they arrived, for the producer `input` or the external log.
        removal: What the commit removes, which makes it an overwrite; None: it only adds rows.
        removed_rows: Rows of an append table that it removes by their positions, which makes it an overwrite, too.
        lookup: The changelog, if the producer is `lookup` and there are files.
        sent: States that all rows are in the topic before the commit; None: not all are.
        guards: Snapshots since which nothing may have changed; `if_snapshot` belongs to the request.
        commit_metadata: What the commit says besides its rows.
    """
    options, replaces = TableOptions(info.options), removal is not None or removed_rows is not None
    if removed_rows is not None and removed_rows.file_ids:
        removal = RemoveFiles(removed_rows.file_ids)
    producer = find_producer(options, replaces=replaces)
    log = plan_log_content(info, options, replaces=replaces)
    changelog_files = tuple(inputs) if producer == "input" else ()
    return Change(
        table_uuid=info.table_uuid,
        kind=SnapshotKind.OVERWRITE if replaces else SnapshotKind.APPEND,
        schema_id=info.schema.schema_id,
        bucket_count=options.bucket_count(bool(info.schema.primary_key)),
        add_files=tuple(files) if lookup is None else lookup.data_files,
        remove=removal,
        groups=() if removed_rows is None else removed_rows.groups,
        base_snapshot_id=None if lookup is None else lookup.base_snapshot_id,
        base_snapshot_uuid="" if lookup is None else lookup.base_snapshot_uuid,
        unchanged_buckets=() if lookup is None else lookup.buckets,
        if_unchanged=guards.if_unchanged,
        window=ANY_TIME if lookup is None else lookup.window,
        watermark_ms=commit_metadata.watermark_ms,
        properties={**commit_metadata.properties, **to_open_rules(producer, info.options)},
        allow_empty=commit_metadata.allow_empty,
        changelog=to_changelog_state(producer),
        changelog_files=changelog_files if lookup is None else lookup.files,
        log=log,
        log_files=to_log_files(log, inputs),
        sent_offsets=None if sent is None else sent.offsets,
        sent_generation=0 if sent is None else sent.generation,
    )


def to_compaction_change(
    info: TableInfo,
    planned_at: Snapshot,
    groups: Sequence[CompactionGroup],
    files: Sequence[DataFile] = (),
    changelog_files: Sequence[DataFile] = (),
) -> Change:
    """Returns the change of a compaction, or of deletion vectors that were built for a bucket. Pure.

    Args:
        info: The table as it was when the work was planned.
        planned_at: The snapshot whose files it names by their ids.
        groups: The groups, each of which is committed or dropped by itself.
        files: The files that were written, group by group.
        changelog_files: The changelog files, group by group.
    """
    return Change(
        table_uuid=info.table_uuid,
        kind=SnapshotKind.COMPACT,
        schema_id=info.schema.schema_id,
        bucket_count=TableOptions(info.options).bucket_count(bool(info.schema.primary_key)),
        base_snapshot_id=planned_at.snapshot_id,
        base_snapshot_uuid=planned_at.snapshot_uuid,
        add_files=tuple(files),
        changelog=ChangelogState.ATTACHED if any(group.emits_changelog for group in groups) else ChangelogState.NONE,
        changelog_files=tuple(changelog_files),
        groups=tuple(groups),
    )
