"""Shared parts of reads of changes: which files of a range they show, which columns they read, which mode. Pure."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.arguments import check_snapshot_id
from lakelog.errors import InvalidArgument
from lakelog.format.filter.condition import Filter
from lakelog.format.tables.snapshot import ChangelogState, Snapshot, SnapshotKind
from lakelog.format.tables.table import TableInfo, TableName
from lakelog.format.types.rowkind import ROW_KIND_COLUMN
from lakelog.format.types.schema import TableSchema
from lakelog.options.declared.reads_and_writes import INCREMENTAL_BETWEEN_SCAN_MODE
from lakelog.options.declared.tables import CHANGELOG_PRODUCER, DEDUPLICATE, MERGE_ENGINE, STREAMING_READ_OVERWRITE
from lakelog.options.values import ScanOptions, TableOptions
from lakelog.reads.reading import to_names, to_scan_columns
from lakelog.storage.parquet.live_file import LiveFile
from lakelog.storage.parquet.writer import plan_file_schema
from lakelog.storage.scan.file_scan import ScanColumns

_NAMED_SNAPSHOTS: Final = 5
"""The number of snapshots that a message names, at most."""


def pick_shown_files(
    files: Sequence[LiveFile], snapshots: Sequence[Snapshot], *, overwrites: bool = False, changelog: bool = False
) -> list[LiveFile]:
    """Returns the files that some snapshots show, by commit, then in the order of their buckets. Pure.

    Args:
        files: Files of these snapshots and perhaps of others.
        snapshots: The snapshots to show; data files of compactions are not shown.
        overwrites: Also show the files of snapshots that replaced rows.
        changelog: Whether the files are changelog files; those of compactions show what other commits had changed
            (3.6).
    """
    kinds = {SnapshotKind.APPEND}
    if overwrites:
        kinds.add(SnapshotKind.OVERWRITE)
    if changelog:
        kinds.add(SnapshotKind.COMPACT)
    shown = {each.snapshot_id for each in snapshots if each.kind in kinds}
    found = [file for file in files if file.added_snapshot in shown]
    return sorted(found, key=order_of_change)


def order_of_change(file: LiveFile) -> tuple[int, bytes, int, int, int, int]:
    """The sort key for files of changes: their commit, then their bucket and their place in it. Pure.

    Files of the commit itself keep its order; files that a rollback restored keep their old order.
    """
    place = file.order_snapshot, file.order_ordinal, file.file_id
    return file.added_snapshot, file.partition, file.bucket, *place


def find_overwrites(snapshots: Sequence[Snapshot]) -> list[int]:
    """Ids of snapshots that replaced rows, in the given order; not of those whose changes are emitted later. Pure."""
    return [each.snapshot_id for each in snapshots if is_overwrite(each)]


def is_overwrite(snapshot: Snapshot) -> bool:
    """Whether a snapshot replaced rows, which streams show or skip; else full compactions emit the changes. Pure."""
    return snapshot.kind is SnapshotKind.OVERWRITE and not snapshot.is_changelog_deferred


def has_changes(snapshot: Snapshot) -> bool:
    """Whether a snapshot shows changes, by a changelog or by its data files. Pure."""
    return _has_changelog(snapshot) if snapshot.kind is SnapshotKind.COMPACT else not snapshot.is_changelog_deferred


def describe_skipped(table: TableName | str, snapshot_ids: Sequence[int]) -> str:
    """The warning for a reader about skipped snapshots: they replaced rows and show nothing. Pure."""
    return (
        f"{table}: {name_snapshots(snapshot_ids)} overwrote rows; what was replaced, and by what, is not shown. "
        f"'{STREAMING_READ_OVERWRITE.key}' = 'true' shows it."
    )


def name_snapshots(snapshot_ids: Sequence[int]) -> str:
    """Snapshots for a message: by id if they are few. Pure."""
    named = ", ".join(map(str, snapshot_ids[:_NAMED_SNAPSHOTS]))
    more = f" and {len(snapshot_ids) - _NAMED_SNAPSHOTS} more" if len(snapshot_ids) > _NAMED_SNAPSHOTS else ""
    return f"snapshot{'s'[: len(snapshot_ids) - 1]} {named}{more}"


def split_by_changelog(snapshots: Sequence[Snapshot]) -> Iterator[tuple[bool, list[Snapshot]]]:
    """Groups successive snapshots by whether they have a changelog; leaves out those without changes. Pure."""
    changing = [each for each in snapshots if has_changes(each)]
    for has_changelog, group in itertools.groupby(changing, _has_changelog):
        yield has_changelog, list(group)


def find_other_snapshots(snapshots: Sequence[Snapshot], expects: bool) -> list[int]:
    """Ids of the snapshots with changes that, unexpectedly, have a changelog or have none. Pure."""
    return [each.snapshot_id for each in snapshots if has_changes(each) and _has_changelog(each) is not expects]


def has_changelog_producer(table: TableInfo) -> bool:
    """Whether a table's changes are in changelog files now; older changes may not be. Pure."""
    return bool(table.schema.primary_key) and TableOptions(table.options).get(CHANGELOG_PRODUCER) != "none"


def check_raw(table: TableInfo, how: str) -> None:
    """Raises InvalidArgument if the rows as written are not what a table shows (semantics 3.3). Pure.

    Args:
        table: The table.
        how: The argument that requested rows as they were written, by its public name.
    """
    if not table.schema.primary_key:
        return
    engine = TableOptions(table.options).get(MERGE_ENGINE)
    if engine != DEDUPLICATE:
        raise InvalidArgument(
            f"{how} is not possible for {table.name}: with '{MERGE_ENGINE.key}' = '{engine}' rows as they were written "
            "are not what becomes of them. Leave it out, and changes come as they are.",
            reason="RAW_REFUSED",
            metadata={"table": str(table.name), "merge_engine": engine},
        )


def name_change_columns(columns: Sequence[str], table: TableInfo) -> list[str]:
    """The columns of changes when some are requested: `_row_kind` is among them, or last. Pure.

    Raises:
        InvalidArgument: It is not a list of names.
    """
    names = to_names(columns)
    return [*names, ROW_KIND_COLUMN] if table.schema.primary_key and ROW_KIND_COLUMN not in names else names


def to_change_columns(
    names: tuple[str, ...], schema: TableSchema, parsed: Filter | None, without_deletes: bool = False
) -> ScanColumns:
    """What a read of rows as they were written reads from files and returns; see `reading.to_scan_columns`."""
    # The rows may be deletes, which know only their key.
    columns = to_scan_columns(names, schema, parsed, plan_file_schema(schema, with_row_kind=False))
    if without_deletes or ROW_KIND_COLUMN in names:
        columns = dataclasses.replace(columns, read=(*columns.read, pa.field(ROW_KIND_COLUMN, pa.int8())))
    if not without_deletes:
        return columns
    return dataclasses.replace(
        columns,
        filter=_is_addition() if columns.filter is None else columns.filter & _is_addition(),
        filter_columns=(*columns.filter_columns, ROW_KIND_COLUMN),
    )


def resolve_range_mode(options: ScanOptions, table: TableInfo, *, by_tags: bool = False) -> str:
    """Decides which of `delta`, `changelog` and `diff` reads a range of snapshots. Pure.

    Args:
        options: The options of the read.
        table: The table.
        by_tags: Whether tags name the range: snapshots between them may have expired, so the two states are compared.

    Raises:
        InvalidArgument: The table has no primary key, so old and new rows cannot be matched.
    """
    mode = options.get(INCREMENTAL_BETWEEN_SCAN_MODE)
    if mode in ("changelog", "diff") and not table.schema.primary_key:
        raise InvalidArgument(
            f"Option '{INCREMENTAL_BETWEEN_SCAN_MODE.key}' = '{mode}' needs a table with a primary key, and "
            f"{table.name} has none. Give 'delta', which reads the rows that were added.",
            metadata={"option": INCREMENTAL_BETWEEN_SCAN_MODE.key, "table": str(table.name)},
        )
    if (
        by_tags
        and table.schema.primary_key
        and (mode == "auto" or INCREMENTAL_BETWEEN_SCAN_MODE.key not in options.given())
    ):
        return "diff"
    if mode == "auto":
        return "changelog" if has_changelog_producer(table) else "delta"
    return mode


def _has_changelog(snapshot: Snapshot) -> bool:
    return snapshot.changelog is ChangelogState.ATTACHED


def _is_addition() -> pc.Expression:
    kind = pc.field(ROW_KIND_COLUMN)
    return kind.is_null() | (kind == 0) | (kind == 2)


def check_range(after: int | None, until: int | None) -> None:
    """Raises InvalidArgument for values that are no snapshot ids, and for ids in the wrong order; None is not given."""
    if after is not None:
        check_snapshot_id(after, "after")
    if until is not None:
        check_snapshot_id(until, "until")
    if after is not None and until is not None and until < after:
        raise InvalidArgument(
            f"until={until} lies before after={after}, so there is nothing between them: after is excluded and until "
            "included. Swap them, or leave until out for the newest snapshot.",
            metadata={"field": "until", "value": str(until)},
        )
