"""Shared parts of reads in the SDK and Spark: which state, which columns, which files can matter."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from lakelog.annotations import TimeLike
from lakelog.arguments import check_snapshot, check_tag, to_epoch_ms
from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import InvalidArgument
from lakelog.format.commit.guards import Places, guard_places
from lakelog.format.commit.request import TableGuard
from lakelog.format.filter.condition import Filter, parse_filter
from lakelog.format.tables.plan import AtSnapshot, AtTag, AtTime, InRange, Plan, PlanRequest
from lakelog.format.tables.table import TableInfo
from lakelog.format.types.rowkind import ROW_KIND_COLUMN
from lakelog.format.types.schema import TableSchema
from lakelog.options.declared.reads_and_writes import SCAN_SNAPSHOT_ID, SCAN_TAG_NAME, SCAN_TIMESTAMP_MILLIS
from lakelog.options.values import ScanOptions, TableOptions
from lakelog.reads.continued_columns import ContinuedColumns
from lakelog.storage.scan.file_scan import ScanColumns
from lakelog.storage.write.routing import find_buckets, find_places, to_routing

State = AtSnapshot | AtTime | AtTag | None


def resolve_state(
    snapshot_id: int | None,
    timestamp: TimeLike | None = None,
    options: ScanOptions | None = None,
    tag: str | None = None,
) -> State:
    """Returns the state that arguments and options name together; None: the newest. Pure.

    Raises:
        InvalidArgument: More than one names a state, or one is no snapshot, time or tag.
    """
    options = options or ScanOptions({})
    by_option = options.get(SCAN_SNAPSHOT_ID), options.get(SCAN_TIMESTAMP_MILLIS), options.get(SCAN_TAG_NAME)
    said = {
        "snapshot_id=": snapshot_id,
        "timestamp=": timestamp,
        "tag=": tag,
        f"option '{SCAN_SNAPSHOT_ID.key}'": by_option[0],
        f"option '{SCAN_TIMESTAMP_MILLIS.key}'": by_option[1],
        f"option '{SCAN_TAG_NAME.key}'": by_option[2],
    }
    given = [name for name, value in said.items() if value is not None]
    if len(given) > 1:
        raise InvalidArgument(
            f"{given[0]} and {given[1]} both say which state to read. Give one of them.",
            reason="CONTRADICTING_OPTIONS",
            metadata={"option": given[0], "other_option": given[1]},
        )
    wanted = snapshot_id if snapshot_id is not None else by_option[0]
    if wanted is not None:
        check_snapshot(wanted, "snapshot_id")
        return AtSnapshot(wanted)
    name = tag if tag is not None else by_option[2]
    if name is not None:
        check_tag(name, "tag")
        return AtTag(name)
    moment = timestamp if timestamp is not None else by_option[1]
    return None if moment is None else AtTime(to_epoch_ms(moment, "timestamp"))


def find_snapshot_at(metastore: Metastore, table_uuid: str, moment: TimeLike, name: str) -> int:
    """Finds the newest snapshot that was committed at or before a time; expired ones do not count.

    Args:
        metastore: Knows the snapshots.
        table_uuid: The table.
        moment: The time; see `to_epoch_ms`.
        name: The argument, for messages.

    Raises:
        InvalidArgument: It is no point in time.
        NotFound: There is no such snapshot.
    """
    # One bucket is enough, since no file is needed.
    plan = metastore.plan(PlanRequest(table_uuid, AtTime(to_epoch_ms(moment, name)), buckets=(0,)))
    assert plan.snapshot is not None, "a time before the first snapshot is an error"
    return plan.snapshot.snapshot_id


def plan_files(
    metastore: Metastore,
    info: TableInfo,
    at: State | InRange,
    parse: Callable[[TableSchema], Filter | None],
    *,
    changelog: bool = False,
    baseline: bool = False,
    continued: ContinuedColumns | None = None,
    levels: tuple[int, ...] = (),
) -> tuple[Plan, Filter | None]:
    """Requests the files to read; blocks on the metastore.

    Args:
        metastore: Plans the read.
        info: The table.
        at: What to read; None: the newest snapshot.
        parse: Resolves the condition of the read on a schema; None: no condition, or one that excludes no files.
        changelog: For a range: its changelog files instead of its data files.
        baseline: For a state: what streams have shown by then (`lakelog.format.tables.plan.PlanRequest`).
        continued: The columns of a reader that goes on over changes of them; None: those of the plan.
        levels: For a state: only files of these levels; none: of all.

    Returns:
        The plan, and the condition on the plan's schema.

    Raises:
        InvalidArgument: As `ContinuedColumns.apply`.
    """
    if continued is not None:
        # Columns of the condition are as they were, so what it says of files is the same by any version.
        request = _to_request(info, at, parse(info.schema), changelog)
        found = metastore.plan(dataclasses.replace(request, baseline=baseline, levels=levels))
        plan = continued.apply(found, lambda: metastore.list_schemas(info.table_uuid))
        return plan, parse(plan.schema)
    while True:
        try:
            parsed = parse(info.schema)
        except InvalidArgument:
            # The state may have other columns than the table has now, or has had when the caller looked.
            found = metastore.plan(PlanRequest(info.table_uuid, at, buckets=(0,)))
            if found.schema.schema_id == info.schema.schema_id:
                raise
            info = found.table
            continue
        request = _to_request(info, at, parsed, changelog)
        plan = metastore.plan(dataclasses.replace(request, baseline=baseline, levels=levels))
        # Plans again in the rare case that the state has another schema.
        if plan.schema.schema_id == info.schema.schema_id:
            return plan, parsed
        info = plan.table


def make_parser(condition: str | None) -> Callable[[TableSchema], Filter | None]:
    """Returns a function that resolves a condition on a schema."""
    return lambda schema: None if condition is None else parse_filter(condition, schema.arrow)


def to_names(columns: Any) -> list[str]:
    """Names of columns as a user gave them; raises InvalidArgument if they are not a list of texts. Pure."""
    if isinstance(columns, str) or not isinstance(columns, Sequence) or not all(isinstance(c, str) for c in columns):
        hint = f", here perhaps ['{columns}']" if isinstance(columns, str) else ""
        raise InvalidArgument(
            f"columns={columns!r:.80} is no list of column names: give one{hint}.", metadata={"field": "columns"}
        )
    return list(columns)


def without_kind(columns: Sequence[str] | None, schema: TableSchema) -> Sequence[str] | None:
    """The requested columns of a stream; without `_row_kind` of a keyed table, which always comes last. Pure.

    Raises:
        InvalidArgument: It is not a list of names.
    """
    if columns is None or not schema.primary_key:
        return columns
    return [name for name in to_names(columns) if name != ROW_KIND_COLUMN]


def check_columns(
    columns: Sequence[str] | None, schema: TableSchema, table_name: str, own: Sequence[str] = ()
) -> tuple[str, ...]:
    """Returns the requested columns. Pure.

    Args:
        columns: As the user gave them; None: all of the table's.
        schema: The schema to read with.
        table_name: The table's name, for messages.
        own: Names of further columns, which lakelog makes itself.

    Raises:
        InvalidArgument: It is not a list of names; or a name is missing, with the nearest ones; or is repeated.
    """
    return check_names(columns, schema.arrow.names, table_name, own)


def check_names(
    columns: Sequence[str] | None, known: Sequence[str], table_name: str, own: Sequence[str] = ()
) -> tuple[str, ...]:
    """As `check_columns`, for a table with the columns `known`. Pure."""
    if columns is None:
        return tuple(known)
    names = to_names(columns)
    for place, name in enumerate(names):
        if name not in known and name not in own:
            near = difflib.get_close_matches(name[:200], known, n=3, cutoff=0.5) or known[:20]
            raise InvalidArgument(
                f"Table {table_name} has no column '{name[:200]}'; near it are {', '.join(near)}. Upper and lower case "
                "count.",
                reason="UNKNOWN_COLUMN",
                metadata={"column": name},
            )
        if name in names[:place]:
            raise InvalidArgument(
                f"Column '{name}' is asked for twice. Name each column once.", metadata={"column": name}
            )
    return tuple(names)


def to_scan_columns(
    names: tuple[str, ...], schema: TableSchema, parsed: Filter | None, stored: pa.Schema | None = None
) -> ScanColumns:
    """What a read of some columns under a condition reads from files and returns. Pure.

    Args:
        names: Columns to return; the caller adds names that are not the table's.
        schema: The schema to read with.
        parsed: The condition; None: none.
        stored: The columns as they are in the files; None: as the table says.
    """
    used = set(names) | set(parsed.columns if parsed is not None else ())
    read = tuple(field for field in (schema.arrow if stored is None else stored) if field.name in used)
    if parsed is None:
        return ScanColumns(read, names)
    ids = schema.field_ids
    return ScanColumns(
        read,
        names,
        parsed.to_arrow(),
        parsed.columns,
        parsed.to_predicate(ids),
        parsed.to_predicate({name: ids[name] for name in schema.trimmed_key}) if schema.primary_key else None,
    )


def make_guard(plan: Plan, parsed: Filter | None) -> TableGuard:
    """What must be unchanged for a commit that relies on which rows of a state fulfil a condition. Pure."""
    predicate = None if parsed is None else parsed.to_predicate(plan.schema.field_ids)
    places = find_places(predicate, to_routing(plan.schema, TableOptions(plan.table.options))) or Places()
    at = plan.snapshot
    guard = (
        TableGuard(plan.table.table_uuid, 0)
        if at is None
        else TableGuard(plan.table.table_uuid, at.snapshot_id, snapshot_uuid=at.snapshot_uuid)
    )
    return guard_places(guard, places)


def _to_request(info: TableInfo, at: State | InRange, parsed: Filter | None, changelog: bool) -> PlanRequest:
    if parsed is None:
        return PlanRequest(info.table_uuid, at, changelog=changelog)
    schema = info.schema
    ids = schema.field_ids
    predicate = parsed.to_predicate(ids)
    # Buckets and bucket keys never change, whatever they are called.
    buckets = find_buckets(predicate, to_routing(schema, TableOptions(info.options)))
    if not schema.primary_key:
        return PlanRequest(info.table_uuid, at, predicate, buckets)
    first_key, last_key = parsed.key_bounds(schema.trimmed_key)
    if changelog:
        # Change rows are independent, so any column can exclude a file.
        return PlanRequest(
            info.table_uuid, at, predicate, buckets, first_key=first_key, last_key=last_key, changelog=True
        )
    # SUBTLE: only the key can exclude a file. If another column excluded it, its rows would no longer hide the older
    # rows of their keys, which would appear again.
    predicate = parsed.to_predicate({name: ids[name] for name in schema.primary_key})
    return PlanRequest(info.table_uuid, at, predicate, buckets, first_key=first_key, last_key=last_key)
