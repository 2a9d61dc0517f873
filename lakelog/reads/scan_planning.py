"""Plans reads of a table: of a state, or of what snapshots changed.

A snapshot with a changelog is read from it as it was written. For the others old rows are looked up (`changes.py`), or
rows are shown as they were written. A range can have both kinds, since a table's producer can be altered.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from lakelog.annotations import OptionValue, TimeLike
from lakelog.arguments import to_option_texts
from lakelog.context import Context
from lakelog.errors import InvalidArgument
from lakelog.format.tables.plan import AtSnapshot, PlanRequest
from lakelog.format.types.rowkind import ROW_KIND_COLUMN
from lakelog.options.declared.reads_and_writes import INCREMENTAL_BETWEEN
from lakelog.options.declared.tables import STREAMING_READ_OVERWRITE
from lakelog.options.values import ScanOptions, TableOptions
from lakelog.reads.change_plan import (
    find_overwrites,
    pick_shown_files,
    resolve_range_mode,
    split_by_changelog,
    to_change_columns,
)
from lakelog.reads.change_range import BEGIN_BETWEEN, naming_what_is_kept, plan_range
from lakelog.reads.changes import ComparedStates, MetastoreStates, NormalizedChanges
from lakelog.reads.complete_changes import DEFAULT_TIMEOUT_S, plan_when_complete
from lakelog.reads.continued_columns import ContinuedColumns
from lakelog.reads.overwritten_rows import pick_new_rows
from lakelog.reads.reading import (
    check_columns,
    make_guard,
    make_parser,
    plan_files,
    resolve_state,
    to_names,
    to_scan_columns,
)
from lakelog.reads.row_source import RowSource, SuccessiveRows
from lakelog.reads.scan import Scan, check_limit, find_policy
from lakelog.reads.tag_range import ResolvedRange, resolve_range
from lakelog.storage.parquet.live_file import to_live_files
from lakelog.storage.parquet.read_counts import ReadCounts
from lakelog.storage.scan.file_scan import SNAPSHOT_ID_COLUMN, FileScan

if TYPE_CHECKING:
    from lakelog.format.filter.condition import Filter
    from lakelog.format.tables.table import TableInfo
    from lakelog.format.types.schema import TableSchema


def plan_scan(
    context: Context,
    info: TableInfo,
    *,
    columns: Sequence[str] | None,
    filter: str | None,  # noqa: A002
    limit: int | None,
    snapshot_id: int | None,
    timestamp: TimeLike | None,
    options: Mapping[str, OptionValue] | None,
    tag: str | None = None,
    files_since_ms: int | None = None,
    baseline: bool = False,
    continued: ContinuedColumns | None = None,
    levels: tuple[int, ...] = (),
    counts: ReadCounts | None = None,
) -> Scan:
    """Plans a read of a table's state; arguments as of `lakelog.Table.scan`.

    With `files_since_ms` it reads only files committed at or after this time, in milliseconds since the epoch; with
    `baseline` what streams have shown by then (`lakelog.format.tables.plan.PlanRequest`); with `levels` only files of
    these levels; with `continued` the columns that a stream began with.
    """
    given = ScanOptions(to_option_texts({} if options is None else options))
    between = given.get(INCREMENTAL_BETWEEN)
    at = resolve_state(snapshot_id, timestamp, given, tag)
    check_limit(limit)
    if between is not None:
        if at is not None:
            raise InvalidArgument(
                f"Option '{INCREMENTAL_BETWEEN.key}' reads what snapshots added, so no snapshot, time or tag may be "
                "given with it. Leave one out.",
                reason="CONTRADICTING_OPTIONS",
            )
        resolved = resolve_range(context.metastore, info, between)
        mode = resolve_range_mode(given, info, by_tags=resolved.by_tags)
        if mode == "diff":
            return _plan_between(context, info, resolved, mode, columns, filter, limit)
        with naming_what_is_kept(context.metastore, info, resolved.after, BEGIN_BETWEEN):
            return _plan_between(context, info, resolved, mode, columns, filter, limit)
    plan, parsed = plan_files(
        context.metastore, info, at, make_parser(filter), baseline=baseline, levels=levels, continued=continued
    )
    schema = plan.schema
    policy = find_policy(plan)
    names = check_columns(columns, schema, str(info.name))
    live = to_live_files(plan.files)
    if files_since_ms is not None:
        # Excluded files are older than the others, so no row reappears that a newer one had replaced.
        live = [file for file in live if file.order_time_ms >= files_since_ms]
    files = FileScan(
        context.open_store(plan.table),
        live,
        schema,
        to_scan_columns(names, schema, parsed),
        policy,
        context.caches.deletion_vectors,
    )
    return Scan(context, plan, files, limit, counts=counts, guard=make_guard(plan, parsed))


def _plan_between(
    context: Context,
    info: TableInfo,
    between: ResolvedRange,
    mode: str,
    columns: Sequence[str] | None,
    condition: str | None,
    limit: int | None,
) -> Scan:
    after, until = between.after, between.until
    # A range is read with the columns of now, whatever the caller knows, so that all of its rows have the same ones.
    info = context.metastore.get_table_by_uuid(info.table_uuid)
    names = to_names(columns) if columns is not None else info.schema.arrow.names
    if mode == "delta":
        return plan_changes(
            context,
            info,
            after=after,
            until=until,
            columns=names,
            filter=condition,
            limit=limit,
            without_deletes=True,
        )
    names = [*(name for name in names if name != ROW_KIND_COLUMN), ROW_KIND_COLUMN]
    if mode == "changelog" or after == until:
        overwrites = TableOptions(info.options).get(STREAMING_READ_OVERWRITE)
        return plan_when_complete(
            context.metastore,
            info,
            until,
            DEFAULT_TIMEOUT_S,
            lambda: plan_changes(
                context,
                info,
                after=after,
                until=until,
                columns=names,
                filter=condition,
                limit=limit,
                raw=False,
                overwrites=overwrites,
            ),
        )
    parsed = make_parser(condition)(info.schema)
    # Report an expired state now, not with the first row. One bucket is enough, since no file is needed.
    *_, state = (
        context.metastore.plan(PlanRequest(info.table_uuid, AtSnapshot(each), buckets=(0,)))
        for each in (after, until)
        if each
    )
    plan = dataclasses.replace(state, schema=info.schema, table=info)
    policy = find_policy(plan)
    assert policy is not None, "the table has a key"
    rows = NormalizedChanges(
        ComparedStates(MetastoreStates(context.metastore), after, until),
        context.open_store(plan.table),
        info,
        (),
        (until,),
        to_scan_columns(check_columns(names, plan.schema, str(info.name), (ROW_KIND_COLUMN,)), plan.schema, parsed),
        policy,
        context.caches,
        overwrites=True,
    )
    return Scan(context, plan, rows, limit, with_overwrites=True, reads_from=after)


def plan_changes(
    context: Context,
    info: TableInfo,
    *,
    after: int,
    until: int,
    columns: Sequence[str] | None,
    filter: str | None = None,  # noqa: A002
    parse: Callable[[TableSchema], Filter | None] | None = None,
    limit: int | None = None,
    raw: bool = True,
    overwrites: bool = False,
    without_deletes: bool = False,
    continued: ContinuedColumns | None = None,
    counts: ReadCounts | None = None,
) -> Scan:
    """Plans a read of what the snapshots after `after`, up to and including `until`, changed.

    For an append table these are the added rows. For a table with a primary key they are the changelog of each
    snapshot; for a snapshot without one the keyed changes, each with its old row; or, with `raw`, the rows as written:
    the last row per key of each commit, also if a commit had more rows than a writer's buffer and so wrote several runs
    (semantics 3.3). Compactions show nothing. Overwrites show nothing either, unless `overwrites` requests their
    difference, or their new rows if there is no key (semantics 5.2). `parse` is given instead of `filter` if the
    condition is not one text. With `continued` the columns are those that a stream began with.
    """
    parse = parse or make_parser(filter)
    changes = plan_range(context.metastore, info, after, until, parse, raw=raw, continued=continued)
    plan, policy = changes.plan, find_policy(changes.plan)
    own = (ROW_KIND_COLUMN, SNAPSHOT_ID_COLUMN)
    names = check_columns(columns, plan.schema, str(info.name), own)
    if columns is None:
        names = (*names, *own)
    as_written = to_change_columns(names, plan.schema, changes.condition, without_deletes)
    store = context.open_store(plan.table)
    rows: RowSource
    of_changelogs = False
    if policy is not None and not raw:
        of_changelogs = not changes.data
        columns_read = to_scan_columns(names, plan.schema, changes.condition)
        table = plan.table
        states = MetastoreStates(context.metastore)
        sources: list[RowSource] = []
        for has_changelog, snapshots in list(split_by_changelog(plan.range_snapshots)) or [(changes.expects, [])]:
            if has_changelog:
                files = pick_shown_files(changes.changelog, snapshots, overwrites=overwrites, changelog=True)
                sources.append(FileScan(store, files, plan.schema, as_written, None, context.caches.deletion_vectors))
                continue
            files = pick_shown_files(changes.data, snapshots)
            breaks = find_overwrites(snapshots)
            sources.append(
                NormalizedChanges(states, store, table, files, breaks, columns_read, policy, context.caches, overwrites)
            )
        if not changes.expects and not changes.changelog and len(sources) == 1:
            rows = sources[0]
        else:
            # Whatever a range holds, its columns are those of changelog files, where deletes may know only their key.
            schema = FileScan(store, [], plan.schema, as_written).returned_schema
            rows = SuccessiveRows(sources, schema)
    else:
        shown = pick_shown_files(changes.data, plan.range_snapshots, overwrites=overwrites)
        rows = FileScan(
            store,
            pick_new_rows(context.metastore, info, shown) if overwrites and policy is None else shown,
            plan.schema,
            as_written,
            None if policy is None else dataclasses.replace(policy, keeps_deletes=True),
            context.caches.deletion_vectors,
        )
    return Scan(context, plan, rows, limit, with_overwrites=overwrites, counts=counts, of_changelogs=of_changelogs)
