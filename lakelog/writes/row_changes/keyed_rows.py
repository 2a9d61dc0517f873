"""Reads the rows of a keyed table that a merge compares: those of the source's keys, or a scan of what can match."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from lakelog.context import Context
from lakelog.format.filter.condition import parse_filter
from lakelog.format.filter.parameters import to_constant
from lakelog.format.keys.ordering import single_array
from lakelog.format.types.rowkind import ROW_KIND_COLUMN, is_retract
from lakelog.options.declared.tables import SEQUENCE_FIELD
from lakelog.options.values import TableOptions
from lakelog.reads.scan import Scan
from lakelog.reads.scan_planning import plan_scan
from lakelog.reads.state_lookup import StateLookup
from lakelog.storage.objects.store import ObjectStore
from lakelog.writes.row_changes.merging import MergeRun

_ROWS_FOR_A_KEY: Final = 64
"""From so many rows in files for each key on, looking keys up reads less than a scan of their columns."""

_PORTION_BYTES: Final = 64 << 20
_PORTION_ROWS: Final = 1 << 20
_MOST_IN_LIST: Final = 500
_WHAT: Final = "the source's key"


def plan_target(context: Context, run: MergeRun) -> Scan:
    """Plans the scan of a table's rows that can matter to a merge, in its newest snapshot as the plan knows it."""
    plan = run.plan
    return plan_scan(
        context,
        plan.info,
        columns=plan.target_columns,
        filter=find_filter(run),
        limit=None,
        snapshot_id=plan.info.latest_snapshot_id or None,
        timestamp=None,
        options=None,
    )


def read_target(context: Context, store: ObjectStore, run: MergeRun, scan: Scan) -> Iterator[pa.Table]:
    """Reads a keyed table's rows, in portions of bounded memory. Blocks.

    Args:
        context: The metastore and caches.
        store: Where the files are.
        run: The merge.
        scan: As `plan_target` returns it.

    Yields:
        The plan's target columns; each row of the table once.
    """
    rows = sum(file.row_count for file in scan.files)
    plan = run.plan
    if plan.matches_by_key and not plan.reads_all and rows > _ROWS_FOR_A_KEY * run.source.num_rows:
        yield _look_up(context, store, run)
        return
    yield from to_portions(scan.to_batches())


def to_portions(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Joins batches to portions, since each portion costs a little whatever its size."""
    held: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        size_bytes += batch.nbytes
        if rows >= _PORTION_ROWS or size_bytes >= _PORTION_BYTES:
            yield pa.Table.from_batches(held)
            held, rows, size_bytes = [], 0, 0
    if held:
        yield pa.Table.from_batches(held)


def find_filter(run: MergeRun) -> str | None:
    """A filter that every row of the table fulfils that a row of the source can match; None: there is none."""
    if run.plan.reads_all:
        return None
    parts = [] if run.plan.on.filter is None else [f"({run.plan.on.filter})"]
    for equal, keys in zip(run.plan.on.equal, run.source_keys() if run.plan.on.equal else [], strict=True):
        condition = _bound_values("`" + equal.target.replace("`", "``") + "`", keys)
        if condition is not None:
            parts.append(condition)
    return " AND ".join(parts) or None


def _bound_values(name: str, keys: pa.ChunkedArray) -> str | None:
    if not (pt.is_integer(keys.type) or pt.is_date(keys.type) or pt.is_string(keys.type) or pt.is_timestamp(keys.type)):
        return None
    few = keys.unique().drop_null() if len(keys) <= _MOST_IN_LIST else None
    if few is None:
        bounds = pc.min_max(keys).as_py()
        if bounds["min"] is None:
            return "FALSE"
        low, high = (to_constant(bounds[each], _WHAT) for each in ("min", "max"))
        return f"{name} BETWEEN {low} AND {high}"
    if not len(few):
        return "FALSE"
    return f"{name} IN ({','.join(to_constant(each, _WHAT) for each in few)})"


def _look_up(context: Context, store: ObjectStore, run: MergeRun) -> pa.Table:
    """The table's rows of the source's keys."""
    plan = run.plan
    info = plan.info
    names = [each.target for each in plan.on.equal]
    keys = _to_table_types(pa.table(run.source_keys(), names=names).drop_null(), info.schema.arrow)
    key = list(info.schema.primary_key)
    keys = keys.select(key).group_by(key, use_threads=False).aggregate([])
    # A lookup decides by the sequence columns, so it reads them as well.
    columns = dict.fromkeys((*plan.target_columns, *TableOptions(info.options).get(SEQUENCE_FIELD)))
    lookup = StateLookup(context.metastore, store, info, list(columns), context.caches)
    # A lookup of many keys may take long, so their snapshot is leased as for a read.
    with context.leased_reads.reading(info, max(info.latest_snapshot_id, 1)):
        found = lookup.find(keys, info.latest_snapshot_id)
    live = np.logical_not(is_retract(single_array(found.column(ROW_KIND_COLUMN))))
    rows = found.filter(pa.array(live)).select(list(plan.target_columns))
    if plan.on.filter is not None:
        rows = rows.filter(parse_filter(plan.on.filter, info.schema.arrow).to_arrow())
    return rows


def _to_table_types(keys: pa.Table, schema: pa.Schema) -> pa.Table:
    """The keys that the table's types can hold, with these types; no row can have the others."""
    for place, name in enumerate(keys.schema.names):
        own, given = schema.field(name).type, keys.column(place)
        if own == given.type:
            continue
        cast = given.cast(own, safe=False)
        keys = keys.set_column(place, name, cast).filter(pc.equal(cast.cast(given.type), given))
    return keys
