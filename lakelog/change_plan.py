"""What reads of changes have in common: which files of a range they show, which columns they read, which mode. Pure."""

from __future__ import annotations

import dataclasses

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import InvalidArgument
from lakelog.format.filter import Filter
from lakelog.format.plan import Plan
from lakelog.format.rowkind import ROW_KIND_COLUMN
from lakelog.format.schema import TableSchema
from lakelog.format.snapshot import SnapshotKind
from lakelog.format.table import TableInfo
from lakelog.options.call_options import INCREMENTAL_BETWEEN_SCAN_MODE
from lakelog.options.values import ScanOptions
from lakelog.reading import to_scan_columns
from lakelog.storage.file_scan import ScanColumns
from lakelog.storage.live_file import LiveFile, to_live_files
from lakelog.storage.parquet_writer import plan_file_schema


def pick_change_files(plan: Plan, *, raw: bool, overwrites: bool) -> list[LiveFile]:
    """The files of a range that hold what its snapshots show, by commit, then in the order of their buckets. Pure."""
    kinds = {SnapshotKind.APPEND}
    if overwrites and (raw or not plan.schema.primary_key):
        kinds.add(SnapshotKind.OVERWRITE)
    shown = {each.snapshot_id for each in plan.range_snapshots if each.kind in kinds}
    files = [file for file in to_live_files(plan.files) if file.added_snapshot in shown]
    files.sort(key=lambda file: (file.added_snapshot, file.partition, file.bucket, file.order_ordinal))
    return files


def find_overwrites(plan: Plan) -> list[int]:
    """Ids of the snapshots of a range that replaced rows, rising. Pure."""
    return [each.snapshot_id for each in plan.range_snapshots if each.kind is SnapshotKind.OVERWRITE]


def to_change_columns(
    names: tuple[str, ...], schema: TableSchema, parsed: Filter | None, without_deletes: bool = False
) -> ScanColumns:
    """What a read of rows as they were written reads from files and returns; see `lakelog.reading.to_scan_columns`."""
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


def settle_range_mode(options: ScanOptions, table: TableInfo) -> str:
    """Which of `delta`, `changelog` and `diff` a range of snapshots is read by. Pure.

    Raises:
        InvalidArgument: The table has no primary key, by which old and new rows could be told to be one.
    """
    mode = options.get(INCREMENTAL_BETWEEN_SCAN_MODE)
    if mode in ("changelog", "diff") and not table.schema.primary_key:
        raise InvalidArgument(
            f"Option '{INCREMENTAL_BETWEEN_SCAN_MODE.key}' = '{mode}' needs a table with a primary key, and "
            f"{table.name} has none. Give 'delta': rows of such a table are only ever added.",
            metadata={"option": INCREMENTAL_BETWEEN_SCAN_MODE.key, "table": str(table.name)},
        )
    # No table has a changelog producer yet.
    return "delta" if mode == "auto" else mode


def _is_addition() -> pc.Expression:
    kind = pc.field(ROW_KIND_COLUMN)
    return kind.is_null() | (kind == 0) | (kind == 2)


def check_range(after: int, until: int | None) -> None:
    """Raises InvalidArgument for what are no snapshot ids, and for ids in the wrong order."""
    for name, value in (("after", after), ("until", until)):
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
            raise InvalidArgument(f"{name}={value!r:.80} is no snapshot id: give 0 or more.", metadata={"field": name})
    if until is not None and until < after:
        raise InvalidArgument(
            f"until={until} lies before after={after}, so there is nothing between them: after is excluded and until "
            "included. Swap them, or leave until out for the newest snapshot.",
            metadata={"field": "until", "value": str(until)},
        )
