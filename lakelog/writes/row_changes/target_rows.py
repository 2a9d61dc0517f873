"""Reads the rows of a table that a change may concern, in portions of bounded memory.

Rows of an append table come with their positions in files, by which they are removed. Rows of a table with a primary
key are looked up by the keys of a source, if these are few for the files; otherwise they are scanned like the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from lakelog.context import Context
from lakelog.format.commit.request import TableGuard
from lakelog.format.filter.condition import parse_filter
from lakelog.format.filter.parameters import to_constant
from lakelog.format.keys.ordering import single_array
from lakelog.format.tables.plan import Plan
from lakelog.format.tables.table import TableInfo
from lakelog.format.types.rowkind import ROW_KIND_COLUMN, is_retract
from lakelog.options.declared.tables import SEQUENCE_FIELD
from lakelog.options.values import TableOptions
from lakelog.reads.reading import make_guard, make_parser, plan_files, to_scan_columns
from lakelog.reads.scan import find_policy
from lakelog.reads.state_lookup import StateLookup
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.parquet.live_file import LiveFile, to_live_files
from lakelog.storage.scan.file_scan import ROW_POSITION_COLUMN, FileScan
from lakelog.writes.row_changes.key_join import Indices
from lakelog.writes.row_changes.merging import MergeRun
from lakelog.writes.row_changes.unaltered import check_unaltered

_ROWS_FOR_A_KEY: Final = 64
"""From so many rows in files for each key on, looking keys up reads less than a scan of their columns."""

_PORTION_BYTES: Final = 64 << 20
_PORTION_ROWS: Final = 1 << 20
_MOST_IN_LIST: Final = 500
_WHAT: Final = "the source's key"


@dataclass(frozen=True)
class Portion:
    """Some rows of a table.

    Args:
        rows: The requested columns.
        places: In an append table: the files of the rows in order, each with their positions in it, rising.
    """

    rows: pa.Table
    places: tuple[tuple[LiveFile, Indices], ...] = ()

    def take(self, indices: Indices) -> Portion:
        """The portion of some of the rows, which are given by rising indices."""
        return Portion(self.rows.take(pa.array(indices)), tuple(self.find_places(indices)))

    def find_places(self, indices: Indices) -> Iterator[tuple[LiveFile, Indices]]:
        """The files of some rows, each with the positions in it; the rows are given by rising indices."""
        start = 0
        for file, positions in self.places:
            first, last = np.searchsorted(indices, (start, start + len(positions)))
            if last > first:
                yield file, positions[indices[first:last] - start]
            start += len(positions)


class TargetRows:
    """The rows of a table's newest snapshot that fulfil a condition. Plans when it is made; blocks on the metastore.

    Args:
        context: The metastore, stores and caches.
        store: Where the files are.
        info: The table as the transaction knows it.
        columns: Names of the columns to read.
        condition: An SQL condition; None: all rows.

    Raises:
        CommitConflict: The table has another schema by now; nothing of it happened.
    """

    def __init__(
        self, context: Context, store: ObjectStore, info: TableInfo, columns: Sequence[str], condition: str | None
    ) -> None:
        self._context = context
        self._store = store
        self._info = info
        self._columns = tuple(columns)
        self._plan, self._parsed = plan_files(context.metastore, info, None, make_parser(condition))
        check_unaltered(info, info.table_uuid, self._plan.schema)

    @property
    def snapshot_id(self) -> int:
        """The snapshot that is read; 0: there is none."""
        return _snapshot_of(self._plan)

    @property
    def guard(self) -> TableGuard:
        """What must be unchanged for a commit that relies on no further row fulfilling the condition."""
        return make_guard(self._plan, self._parsed)

    def read(self) -> Iterator[Portion]:
        """Reads the rows; each row is in one portion."""
        if self._plan.snapshot is None:
            return
        policy = find_policy(self._plan)
        names = self._columns if policy is not None else (*self._columns, ROW_POSITION_COLUMN)
        columns = to_scan_columns(names, self._plan.schema, self._parsed)
        files = to_live_files(self._plan.files)
        scan = FileScan(self._store, files, self._plan.schema, columns, policy, self._context.caches.deletion_vectors)
        with self._context.leased_reads.reading(self._plan.table, self.snapshot_id):
            yield from to_portions(scan.read_located_batches())

    def read_for(self, run: MergeRun) -> Iterator[Portion]:
        """Reads the rows that a merge compares: as `read`, or only those of the source's keys."""
        plan = run.plan
        rows = sum(file.row_count for file in to_live_files(self._plan.files))
        if plan.matches_by_key and not plan.reads_all and rows > _ROWS_FOR_A_KEY * run.source.num_rows:
            yield Portion(self._look_up(run))
        else:
            yield from self.read()

    def _look_up(self, run: MergeRun) -> pa.Table:
        plan, info = run.plan, self._info
        names = [each.target for each in plan.on.equal]
        keys = _to_table_types(pa.table(run.source_keys(), names=names).drop_null(), info.schema.arrow)
        key = list(info.schema.primary_key)
        keys = keys.select(key).group_by(key, use_threads=False).aggregate([])
        # A lookup decides by the sequence columns, so it reads them as well.
        columns = dict.fromkeys((*plan.target_columns, *TableOptions(info.options).get(SEQUENCE_FIELD)))
        lookup = StateLookup(self._context.metastore, self._store, info, list(columns), self._context.caches)
        # A lookup of many keys may take long, so their snapshot is leased as for a read.
        with self._context.leased_reads.reading(info, max(self.snapshot_id, 1)):
            found = lookup.find(keys, self.snapshot_id)
        live = np.logical_not(is_retract(single_array(found.column(ROW_KIND_COLUMN))))
        rows = found.filter(pa.array(live)).select(list(plan.target_columns))
        if plan.on.filter is not None:
            rows = rows.filter(parse_filter(plan.on.filter, info.schema.arrow).to_arrow())
        return rows


def to_portions(batches: Iterable[tuple[LiveFile, pa.RecordBatch]]) -> Iterator[Portion]:
    """Joins batches to portions, since each portion costs a little whatever its size."""
    held: list[tuple[LiveFile, pa.RecordBatch]] = []
    rows = size_bytes = 0
    for file, batch in batches:
        held.append((file, batch))
        rows += batch.num_rows
        size_bytes += batch.nbytes
        if rows >= _PORTION_ROWS or size_bytes >= _PORTION_BYTES:
            yield _to_portion(held)
            held, rows, size_bytes = [], 0, 0
    if held:
        yield _to_portion(held)


def find_filter(run: MergeRun) -> str | None:
    """A filter that every row of the table fulfils that a row of the source can match; None: there is none. Pure."""
    if run.plan.reads_all:
        return None
    parts = [] if run.plan.on.filter is None else [f"({run.plan.on.filter})"]
    for equal, keys in zip(run.plan.on.equal, run.source_keys() if run.plan.on.equal else [], strict=True):
        condition = _bound_values("`" + equal.target.replace("`", "``") + "`", keys)
        if condition is not None:
            parts.append(condition)
    return " AND ".join(parts) or None


def _snapshot_of(plan: Plan) -> int:
    return 0 if plan.snapshot is None else plan.snapshot.snapshot_id


def _to_portion(held: Sequence[tuple[LiveFile, pa.RecordBatch]]) -> Portion:
    rows = pa.Table.from_batches([batch for _, batch in held])
    if ROW_POSITION_COLUMN not in rows.schema.names:
        return Portion(rows)
    places = tuple((file, batch.column(ROW_POSITION_COLUMN).to_numpy()) for file, batch in held)
    return Portion(rows.drop_columns([ROW_POSITION_COLUMN]), places)


def _bound_values(name: str, keys: pa.ChunkedArray) -> str | None:
    if not (pt.is_integer(keys.type) or pt.is_date(keys.type) or pt.is_string(keys.type) or pt.is_timestamp(keys.type)):
        return None
    few = keys.unique().drop_null() if len(keys) <= _MOST_IN_LIST else None
    if few is not None:
        return f"{name} IN ({','.join(to_constant(each, _WHAT) for each in few)})" if len(few) else "FALSE"
    bounds = pc.min_max(keys).as_py()
    if bounds["min"] is None:
        return "FALSE"
    low, high = (to_constant(bounds[each], _WHAT) for each in ("min", "max"))
    return f"{name} BETWEEN {low} AND {high}"


def _to_table_types(keys: pa.Table, schema: pa.Schema) -> pa.Table:
    """The keys that the table's types can hold, with these types; no row can have the others."""
    for place, name in enumerate(keys.schema.names):
        own, given = schema.field(name).type, keys.column(place)
        if own == given.type:
            continue
        cast = given.cast(own, safe=False)
        keys = keys.set_column(place, name, cast).filter(pc.equal(cast.cast(given.type), given))
    return keys
