"""Planning a read: which state, which columns, and which files may hold rows that are wanted."""

from __future__ import annotations

import datetime as dt
import difflib
from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from lakelog.arguments import to_epoch_ms
from lakelog.client.metastore import Metastore
from lakelog.errors import InvalidArgument
from lakelog.format.filter import Filter, parse_filter
from lakelog.format.plan import AtSnapshot, AtTime, Plan, PlanRequest
from lakelog.format.schema import TableSchema
from lakelog.format.table import TableInfo
from lakelog.options.call_options import INCREMENTAL_BETWEEN, SCAN_SNAPSHOT_ID, SCAN_TIMESTAMP_MILLIS
from lakelog.options.values import ScanOptions, TableOptions
from lakelog.storage.routing import find_buckets, to_routing

State = AtSnapshot | AtTime | None

_UTC_NAMES: Final = frozenset({"UTC", "Etc/UTC", "GMT", "Z", "+00:00", "UTC+00:00", "Etc/GMT", "Universal", "Zulu"})


def settle_state(snapshot_id: int | None, timestamp: int | dt.datetime | None, options: ScanOptions) -> State:
    """Which state is meant by arguments and options together. Pure.

    Raises:
        InvalidArgument: More than one says so, or one is no snapshot or time.
    """
    if options.get(INCREMENTAL_BETWEEN) is not None:
        raise InvalidArgument(
            f"Spark does not read '{INCREMENTAL_BETWEEN.key}' in this version. Use the SDK: table.changes(...).",
            metadata={"option": INCREMENTAL_BETWEEN.key},
        )
    by_option = options.get(SCAN_SNAPSHOT_ID), options.get(SCAN_TIMESTAMP_MILLIS)
    said = {
        "snapshot_id=": snapshot_id,
        "timestamp=": timestamp,
        f"option '{SCAN_SNAPSHOT_ID.key}'": by_option[0],
        f"option '{SCAN_TIMESTAMP_MILLIS.key}'": by_option[1],
    }
    given = [key for key, value in said.items() if value is not None]
    if len(given) > 1:
        raise InvalidArgument(
            f"{given[0]} and {given[1]} both say which state to read. Give one of them.",
            reason="CONTRADICTING_OPTIONS",
            metadata={"option": given[0], "other_option": given[1]},
        )
    wanted = snapshot_id if snapshot_id is not None else by_option[0]
    if wanted is not None:
        if not isinstance(wanted, int) or isinstance(wanted, bool) or wanted < 1:
            raise InvalidArgument(
                f"snapshot_id={wanted!r:.80} is no snapshot: these are numbered from 1.",
                metadata={"field": "snapshot_id"},
            )
        return AtSnapshot(wanted)
    moment = timestamp if timestamp is not None else by_option[1]
    return None if moment is None else AtTime(to_epoch_ms(moment, "timestamp"))


def plan_read(
    metastore: Metastore, info: TableInfo, state: State, condition: str | None, *, time_zone: str, strict: bool = False
) -> tuple[Plan, Filter | None]:
    """Asks for the files to read.

    Args:
        metastore: Who plans.
        info: The table.
        state: What to read; None: the newest snapshot.
        condition: Of the rows wanted.
        time_zone: The session's, in which Spark understands the condition.
        strict: A condition that lakelog does not understand is an error; else it leaves out no files.

    Returns:
        The plan, and the condition as lakelog understands it on the plan's schema; None: not at all.
    """
    schema = info.schema
    while True:
        parsed = _parse(condition, schema, time_zone, strict)
        plan = metastore.plan(_to_request(info, state, parsed, schema))
        # Asked again in the rare case that the state has another schema than the table has now.
        if plan.schema.schema_id == schema.schema_id:
            return plan, parsed
        schema = plan.schema


def check_columns(columns: Sequence[str] | None, schema: TableSchema, table_name: str) -> tuple[str, ...]:
    """The columns that are asked for; InvalidArgument for what is no list of the table's columns. Pure."""
    known = schema.arrow.names
    if columns is None:
        return tuple(known)
    if isinstance(columns, str) or not all(isinstance(each, str) for each in columns):
        raise InvalidArgument(f"columns={columns!r:.80} is no list of column names.", metadata={"field": "columns"})
    for place, each in enumerate(columns):
        if each not in known:
            near = difflib.get_close_matches(each, known, n=3, cutoff=0.5) or known[:20]
            raise InvalidArgument(
                f"Table {table_name} has no column '{each[:200]}'; near it are {', '.join(near)}. Upper and lower case "
                "count.",
                reason="UNKNOWN_COLUMN",
                metadata={"column": each},
            )
        if each in columns[:place]:
            raise InvalidArgument(
                f"Column '{each}' is asked for twice. Name each column once.", metadata={"column": each}
            )
    if not columns:
        raise InvalidArgument("columns=[] names no column. Leave it out to read all.", metadata={"field": "columns"})
    return tuple(columns)


def _parse(condition: str | None, schema: TableSchema, time_zone: str, strict: bool) -> Filter | None:
    if condition is None:
        return None
    try:
        parsed = parse_filter(condition, schema.arrow)
    except InvalidArgument:
        if strict:
            raise
        return None
    return parsed if strict or time_zone in _UTC_NAMES or not _depends_on_zone(condition, parsed) else None


def _depends_on_zone(condition: str, parsed: Filter) -> bool:
    """Whether a condition may mean something else in Spark's time zone than in UTC, which is lakelog's."""
    types = [parsed.schema.field(name).type for name in parsed.columns]
    return "timestamp" in condition.lower() or any(_holds_instant(each) for each in types)


def _holds_instant(data_type: pa.DataType) -> bool:
    if pa.types.is_timestamp(data_type):
        return True
    return any(_holds_instant(data_type.field(place).type) for place in range(data_type.num_fields))


def _to_request(info: TableInfo, at: State, parsed: Filter | None, schema: TableSchema) -> PlanRequest:
    if parsed is None:
        return PlanRequest(info.table_uuid, at)
    ids = schema.field_ids
    predicate = parsed.to_predicate(ids)
    # Buckets and bucket keys never change, so those of the table as it is now are right.
    buckets = find_buckets(predicate, to_routing(schema, TableOptions(info.options)))
    if not schema.primary_key:
        return PlanRequest(info.table_uuid, at, predicate, buckets)
    # SUBTLE: a file may be left out for its key only. Left out for another column, its rows would no longer hide the
    # older ones of their keys, which then would come back.
    predicate = parsed.to_predicate({name: ids[name] for name in schema.primary_key})
    first_key, last_key = parsed.key_bounds(schema.trimmed_key)
    return PlanRequest(info.table_uuid, at, predicate, buckets, first_key=first_key, last_key=last_key)
