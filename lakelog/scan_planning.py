"""Planning reads of a table: of a state of it, or of what snapshots changed.

A snapshot that has a changelog is read from it as it stands; of the others the changes are told by looking old rows up
(`changes.py`), or shown as they were written. A range may hold both sorts, since a table's producer may be altered.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.arguments import to_option_texts
from lakelog.changes import NormalizedChanges
from lakelog.errors import InvalidArgument
from lakelog.format.files import FILE_SCHEMA
from lakelog.format.filter import Filter
from lakelog.format.plan import InRange, Plan
from lakelog.format.rowkind import ROW_KIND_COLUMN
from lakelog.format.schema import TableSchema
from lakelog.format.snapshot import ChangelogState, Snapshot, SnapshotKind
from lakelog.options.call_options import INCREMENTAL_BETWEEN
from lakelog.options.table_options import CHANGELOG_PRODUCER
from lakelog.options.values import ScanOptions, TableOptions
from lakelog.reading import check_columns, plan_files, settle_state, to_names, to_scan_columns
from lakelog.row_source import RowSource, SuccessiveRows
from lakelog.scan import Scan, check_limit, find_policy, make_parser
from lakelog.storage.file_scan import SNAPSHOT_ID_COLUMN, FileScan, ScanColumns
from lakelog.storage.live_file import LiveFile, to_live_files
from lakelog.storage.parquet_writer import plan_file_schema

if TYPE_CHECKING:
    from lakelog.catalog import Catalog
    from lakelog.format.table import TableInfo


def plan_scan(
    catalog: Catalog,
    info: TableInfo,
    *,
    columns: Sequence[str] | None,
    filter: str | None,  # noqa: A002
    limit: int | None,
    snapshot_id: int | None,
    timestamp: int | dt.datetime | None,
    options: Mapping[str, Any] | None,
    files_since_ms: int | None = None,
) -> Scan:
    """Plans a read of a table's state; arguments as of `lakelog.table.Table.scan`.

    With `files_since_ms` only of the files that were committed at or after this time, in milliseconds since the epoch.
    """
    given = ScanOptions(to_option_texts({} if options is None else options))
    between = given.get(INCREMENTAL_BETWEEN)
    at = settle_state(snapshot_id, timestamp, given)
    check_limit(limit)
    if between is not None:
        if at is not None:
            raise InvalidArgument(
                f"Option '{INCREMENTAL_BETWEEN.key}' reads what snapshots added, so no snapshot or time may be given "
                "with it. Leave one out.",
                reason="CONTRADICTING_OPTIONS",
            )
        return plan_changes(
            catalog,
            info,
            after=between[0],
            until=between[1],
            columns=to_names(columns) if columns is not None else info.schema.arrow.names,
            filter=filter,
            limit=limit,
            without_deletes=True,
        )
    plan, parsed = plan_files(catalog.metastore, info, at, make_parser(filter))
    schema = plan.schema
    policy = find_policy(plan)
    names = check_columns(columns, schema, str(info.name))
    live = to_live_files(plan.files)
    if files_since_ms is not None:
        # What is left out is older than what stays, so that no row comes back that a newer one had replaced.
        live = [file for file in live if file.order_time_ms >= files_since_ms]
    files = FileScan(
        catalog.open_store(plan.table),
        live,
        schema,
        to_scan_columns(names, schema, parsed),
        policy,
        catalog.caches.positions,
    )
    return Scan(catalog, plan, files, limit)


def plan_changes(
    catalog: Catalog,
    info: TableInfo,
    *,
    after: int,
    until: int,
    columns: Sequence[str] | None,
    filter: str | None,  # noqa: A002
    limit: int | None = None,
    raw: bool = True,
    overwrites: bool = False,
    without_deletes: bool = False,
) -> Scan:
    """Plans a read of what the snapshots behind `after`, up to and with `until`, changed.

    Of an append table that is what they added. Of a table with a primary key it is what the changelog of each snapshot
    says, and where it has none the keyed changes, each with its old row; or, with `raw`, what was written: the last row
    a key of each commit, also where a commit had more rows than a writer's buffer and so wrote several runs
    (SEMANTICS.md 3.3). Snapshots that compacted show nothing, and so do those that overwrote, unless `overwrites` asks
    for their difference, or for their new rows where there is no key (SEMANTICS.md 5.2).
    """
    told = _plan_range(catalog, info, after, until, make_parser(filter), raw)
    plan, policy = told.plan, find_policy(told.plan)
    own = (ROW_KIND_COLUMN, SNAPSHOT_ID_COLUMN)
    names = check_columns(columns, plan.schema, str(info.name), own)
    if columns is None:
        names = (*names, *own)
    as_written = _to_change_columns(names, plan.schema, told.condition, without_deletes)
    store = catalog.open_store(plan.table)
    rows: RowSource
    if policy is not None and not raw:
        columns_read = to_scan_columns(names, plan.schema, told.condition)
        table = dataclasses.replace(plan.table, schema=plan.schema)
        sources: list[RowSource] = []
        for has_changelog, snapshots in list(_split(plan.range_snapshots)) or [(told.expects, [])]:
            if has_changelog:
                files = _files_of(told.changelog, snapshots, overwrites)
                sources.append(FileScan(store, files, plan.schema, as_written, None, catalog.caches.positions))
                continue
            files = _files_of(told.data, snapshots, False)
            breaks = [each.snapshot_id for each in snapshots if each.kind is SnapshotKind.OVERWRITE]
            sources.append(
                NormalizedChanges(
                    catalog.metastore, store, table, files, breaks, columns_read, policy, catalog.caches, overwrites
                )
            )
        if not told.expects and not told.changelog and len(sources) == 1:
            rows = sources[0]
        else:
            # Whatever a range holds, its columns are those of changelog files, where deletes may know only their key.
            schema = FileScan(store, [], plan.schema, as_written).returned_schema
            rows = SuccessiveRows(sources, schema)
    else:
        rows = FileScan(
            store,
            _files_of(told.data, plan.range_snapshots, overwrites),
            plan.schema,
            as_written,
            None if policy is None else dataclasses.replace(policy, keeps_deletes=True),
            catalog.caches.positions,
        )
    return Scan(catalog, plan, rows, limit, with_overwrites=overwrites)


@dataclass(frozen=True)
class _Range:
    """What some snapshots brought.

    Args:
        plan: Of the range; its files are one sort of them.
        condition: Of the read, on the plan's schema.
        expects: Whether the table's option says that snapshots have a changelog.
        data: Data files, of those snapshots at least that have no changelog.
        changelog: Changelog files.
    """

    plan: Plan
    condition: Filter | None
    expects: bool
    data: Sequence[LiveFile] = ()
    changelog: Sequence[LiveFile] = ()


def _plan_range(
    catalog: Catalog,
    info: TableInfo,
    after: int,
    until: int,
    parse: Callable[[TableSchema], Filter | None],
    raw: bool,
) -> _Range:
    """Asks for the files of a range: once where all its snapshots are as the table's option leads to expect."""
    metastore = catalog.metastore
    keyed = bool(info.schema.primary_key) and not raw
    expects = keyed and TableOptions(info.options).get(CHANGELOG_PRODUCER) != "none"
    if after == until:
        return _Range(Plan(info, info.schema, {}, None, FILE_SCHEMA.empty_table()), parse(info.schema), expects)
    plan, condition = plan_files(metastore, info, InRange(after, until), parse, changelog=expects)
    first = to_live_files(plan.files)
    others = [
        each.snapshot_id
        for each in plan.range_snapshots
        if keyed and each.kind is not SnapshotKind.COMPACT and _has_changelog(each) is not expects
    ]
    second: Sequence[LiveFile] = ()
    if others:
        rest, _ = plan_files(metastore, info, InRange(others[0] - 1, others[-1]), parse, changelog=not expects)
        second = to_live_files(rest.files)
    data, changelog = (second, first) if expects else (first, second)
    return _Range(plan, condition, expects, data, changelog)


def _has_changelog(snapshot: Snapshot) -> bool:
    return snapshot.changelog is ChangelogState.ATTACHED


def _split(snapshots: Sequence[Snapshot]) -> Iterator[tuple[bool, list[Snapshot]]]:
    """Snapshots that follow each other and have a changelog, or have none; those that changed no row are left out."""
    changing = [each for each in snapshots if each.kind is not SnapshotKind.COMPACT]
    for has_changelog, group in itertools.groupby(changing, _has_changelog):
        yield has_changelog, list(group)


def _files_of(files: Sequence[LiveFile], snapshots: Sequence[Snapshot], overwrites: bool) -> list[LiveFile]:
    """The files that some snapshots show, in the order in which they are shown."""
    kinds = (SnapshotKind.APPEND, SnapshotKind.OVERWRITE) if overwrites else (SnapshotKind.APPEND,)
    shown = {each.snapshot_id for each in snapshots if each.kind in kinds}
    found = [file for file in files if file.added_snapshot in shown]
    return sorted(found, key=lambda file: (file.added_snapshot, file.partition, file.bucket, file.order_ordinal))


def _to_change_columns(
    names: tuple[str, ...], schema: TableSchema, parsed: Filter | None, without_deletes: bool
) -> ScanColumns:
    # What was written may be deletes, which know no more than their key.
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


def _is_addition() -> pc.Expression:
    kind = pc.field(ROW_KIND_COLUMN)
    return kind.is_null() | (kind == 0) | (kind == 2)
