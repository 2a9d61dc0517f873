"""Plans a read: which state, which columns, and which files may contain wanted rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from lakelog.annotations import TimeLike
from lakelog.arguments import parse_table_name
from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import InvalidArgument
from lakelog.format.filter.condition import Filter, parse_filter
from lakelog.format.tables.plan import Plan
from lakelog.format.tables.table import TableInfo
from lakelog.format.types.schema import TableSchema
from lakelog.options.declared.reads_and_writes import INCREMENTAL_BETWEEN
from lakelog.options.values import ScanOptions
from lakelog.reads.reading import State, check_columns, plan_files, resolve_state
from lakelog.system_tables.registry import MARK
from lakelog.system_tables.rows.read_optimized import READ_OPTIMIZED, list_top_levels

_UTC_NAMES: Final = frozenset({"UTC", "Etc/UTC", "GMT", "Z", "+00:00", "UTC+00:00", "Etc/GMT", "Universal", "Zulu"})


def resolve_spark_state(
    snapshot_id: int | None, timestamp: TimeLike | None, options: ScanOptions, tag: str | None = None
) -> State:
    """As `lakelog.reads.reading.resolve_state`; InvalidArgument also for ranges of snapshots."""
    if options.get(INCREMENTAL_BETWEEN) is not None:
        raise InvalidArgument(
            f"read_table reads a state, not what changed, which '{INCREMENTAL_BETWEEN.key}' asks for. Use "
            "lakelog.spark.changes(spark, table, after, until), or give the option to format('lakelog').",
            metadata={"option": INCREMENTAL_BETWEEN.key},
        )
    return resolve_state(snapshot_id, timestamp, options, tag)


def find_table_and_levels(metastore: Metastore, name: str) -> tuple[TableInfo, tuple[int, ...]]:
    """The table of a name, and for `database.table$ro` the levels that are read; none: all.

    Raises:
        InvalidArgument: It is no table's name.
        NotFound: There is no such table.
    """
    base, mark, kind = name.partition(MARK)
    if not mark or kind.casefold() != READ_OPTIMIZED.name:
        return metastore.get_table(parse_table_name(name)), ()
    info = metastore.get_table(parse_table_name(base))
    return info, list_top_levels(info)


def plan_read(
    metastore: Metastore,
    info: TableInfo,
    state: State,
    condition: str | None,
    *,
    time_zone: str,
    strict: bool = False,
    levels: tuple[int, ...] = (),
) -> tuple[Plan, Filter | None]:
    """Requests the files to read.

    Args:
        metastore: Plans the read.
        info: The table.
        state: What to read; None: the newest snapshot.
        condition: The condition of the wanted rows.
        time_zone: The session's time zone, in which Spark evaluates the condition.
        strict: A condition that lakelog does not understand is an error; else it excludes no files.
        levels: Only files of these levels; none: of all.

    Returns:
        The plan, and the condition as lakelog resolves it on the plan's schema; None: it does not understand it.
    """
    return plan_files(
        metastore, info, state, lambda schema: _parse(condition, schema.arrow, time_zone, strict), levels=levels
    )


def plan_pushed(
    metastore: Metastore,
    info: TableInfo,
    state: State,
    condition: str | None,
    pushed: str | None,
    levels: tuple[int, ...] = (),
) -> tuple[Plan, Filter | None]:
    """As `plan_read` with `strict`, for rows that Spark's own conditions also exclude files of.

    Args:
        metastore: Plans the read.
        info: The table.
        state: What to read; None: the newest snapshot.
        condition: The user's condition, with lakelog's meaning.
        pushed: What Spark pushed down; if lakelog does not understand it, it excludes no files.
        levels: As of `plan_read`.
    """

    def parse(schema: TableSchema) -> Filter | None:
        both = pushed if condition is None else None if pushed is None else f"({condition}) AND {pushed}"
        found = _parse(both, schema.arrow, "UTC", strict=False)
        return _parse(condition, schema.arrow, "UTC", strict=True) if found is None else found

    return plan_files(metastore, info, state, parse, levels=levels)


def means_the_same(condition: str | None, schema: TableSchema, time_zone: str) -> bool:
    """Whether a condition means in Spark's time zone what it means in UTC, as lakelog understands it.

    Raises:
        InvalidArgument: lakelog does not understand it.
    """
    parsed = _parse(condition, schema.arrow, "UTC", strict=True)
    return parsed is None or time_zone in _UTC_NAMES or not _depends_on_zone(condition or "", parsed)


def check_spark_columns(columns: Sequence[str] | None, schema: TableSchema, table_name: str) -> tuple[str, ...]:
    """As `reading.check_columns`, but at least one column: Spark counts rows without requesting any."""
    if columns is not None and not columns:
        raise InvalidArgument("columns=[] names no column. Leave it out to read all.", metadata={"field": "columns"})
    return check_columns(columns, schema, table_name)


def understand_condition(condition: str | None, schema: pa.Schema, time_zone: str) -> str | None:
    """The condition, if lakelog certainly means by it what Spark does in this time zone; None: no, or there is none."""
    return None if _parse(condition, schema, time_zone, strict=False) is None else condition


def _parse(condition: str | None, schema: pa.Schema, time_zone: str, strict: bool) -> Filter | None:
    if condition is None:
        return None
    try:
        parsed = parse_filter(condition, schema)
    except InvalidArgument:
        if strict:
            raise
        return None
    return parsed if strict or time_zone in _UTC_NAMES or not _depends_on_zone(condition, parsed) else None


def _depends_on_zone(condition: str, parsed: Filter) -> bool:
    """Whether a condition may have another meaning in Spark's time zone than in UTC, which lakelog uses."""
    types = [parsed.schema.field(name).type for name in parsed.columns]
    return "timestamp" in condition.lower() or any(_holds_instant(each) for each in types)


def _holds_instant(data_type: pa.DataType) -> bool:
    if pa.types.is_timestamp(data_type):
        return True
    return any(_holds_instant(data_type.field(place).type) for place in range(data_type.num_fields))
