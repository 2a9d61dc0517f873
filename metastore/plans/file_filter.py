"""What a plan's request demands of files: a part becomes a query, the rest is judged on the loaded entries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.format.commit.facts import TableHead
from lakelog.format.keys.parts import split_key
from lakelog.format.tables.plan import PlanRequest
from lakelog.format.tables.predicate import AllOf, AnyOf, Comparison, Operator, Predicate
from lakelog.format.tables.prune import ColumnBounds, may_match
from lakelog.format.types.schema import TableSchema

from ..store.limits import MAX_INT32
from ..store.records import FileQuery
from ..store.transaction import Transaction
from ..store.validation import invalid
from ..tables.partitions import partition_types
from .statistics import decode_column

_MAX_DEPTH = 64
_MAX_VALUES = 100_000
_NULL_PART = b"\x00"


@dataclass(frozen=True)
class FileFilter:
    """Which files of a table a plan wants.

    Args:
        table_id: The table.
        partitions: Only files of these; None: of all.
        buckets: Only files of these; None: of all.
        first_key: Lowest wanted key; None: unbounded.
        last_key: Highest wanted key; None: unbounded.
        predicate: A row must possibly match this; None: no condition.
        partition_types: Types of the partition columns.
        partition_ids: Field ids of the partition columns.
        statistic_ids: Field ids of the columns whose statistics may leave out single files.
    """

    table_id: int
    partitions: frozenset[bytes] | None
    buckets: frozenset[int] | None
    first_key: bytes | None
    last_key: bytes | None
    predicate: Predicate | None
    partition_types: tuple[pa.DataType, ...]
    partition_ids: tuple[int, ...]
    statistic_ids: frozenset[int]

    @property
    def surely_empty(self) -> bool:
        """Whether no file can be wanted."""
        return self.partitions is not None and not self.partitions

    @property
    def wants_all(self) -> bool:
        """Whether no file can be left out."""
        return (
            self.partitions is None
            and self.buckets is None
            and self.first_key is None
            and self.last_key is None
            and self.predicate is None
        )

    def query(
        self,
        *,
        live_at: int | None = None,
        added_after: int = 0,
        added_until: int | None = None,
        removed_after: int | None = None,
        removed_until: int | None = None,
        baseline_at: int | None = None,
    ) -> FileQuery:
        """A query for the conditions that the store can judge."""
        return FileQuery(
            table_id=self.table_id,
            live_at=live_at,
            added_after=added_after,
            added_until=added_until,
            removed_after=removed_after,
            removed_until=removed_until,
            partitions=self.partitions,
            buckets=self.buckets,
            first_key=self.first_key,
            last_key=self.last_key,
            with_statistics=self.needs_statistics,
            baseline_at=baseline_at,
        )

    @property
    def needs_statistics(self) -> bool:
        """Whether statistics of files can leave any out."""
        return bool(self.statistic_ids)

    def select(self, entries: pa.Table) -> pa.Table:
        """The entries, in their order, that the predicate does not rule out.

        Args:
            entries: Columns of FILE_SCHEMA and, if `needs_statistics`, `statistics`.
        """
        if self.predicate is None or not entries.num_rows:
            return entries
        columns = self._partition_bounds(entries)
        if self.needs_statistics:
            statistics = entries.column("statistics").combine_chunks()
            columns |= {field_id: decode_column(statistics, field_id) for field_id in self.statistic_ids}
        row_count = entries.column("row_count").combine_chunks()
        mask = may_match(self.predicate, columns, row_count)
        return entries if mask.all() else entries.filter(pa.array(mask))

    def select_packed(self, entries: pa.Table) -> pa.Table:
        """As `select`, for entries that no query has narrowed before."""
        conditions = []
        if self.partitions is not None:
            wanted = pa.array(sorted(self.partitions), pa.binary())
            conditions.append(pc.is_in(entries.column("partition"), value_set=wanted))
        if self.buckets is not None:
            wanted = pa.array(sorted(self.buckets), pa.int32())
            conditions.append(pc.is_in(entries.column("bucket"), value_set=wanted))
        if self.first_key is not None:
            conditions.append(pc.fill_null(pc.greater_equal(entries.column("max_key"), self.first_key), True))
        if self.last_key is not None:
            conditions.append(pc.fill_null(pc.less_equal(entries.column("min_key"), self.last_key), True))
        for condition in conditions[1:]:
            conditions[0] = pc.and_(conditions[0], condition)
        return self.select(entries.filter(conditions[0]) if conditions else entries)

    def _partition_bounds(self, entries: pa.Table) -> dict[int, ColumnBounds]:
        used = set(_field_ids(self.predicate)) if self.predicate is not None else set()
        if not used.intersection(self.partition_ids):
            return {}
        encoded = entries.column("partition").combine_chunks().dictionary_encode()
        bounds = partition_bounds(encoded.dictionary.to_pylist(), self.partition_types, self.partition_ids)
        rows = entries.column("row_count").combine_chunks()
        result = {}
        for field_id, of_partition in bounds.items():
            low = of_partition.min_value.take(encoded.indices)
            is_null = of_partition.null_count.take(encoded.indices)
            result[field_id] = ColumnBounds(low, low, pc.multiply(is_null, rows))
        return result


async def make_filter(tx: Transaction, head: TableHead, schema: TableSchema, request: PlanRequest) -> FileFilter:
    """The filter of a request, its predicate on partition columns resolved to partitions.

    Raises:
        InvalidArgument: The predicate is malformed.
    """
    partition_ids = tuple(schema.field_ids[name] for name in schema.partition_by)
    types = partition_types(schema)
    partitions = frozenset(request.partitions) if request.partitions else None
    statistic_ids: frozenset[int] = frozenset()
    if request.predicate is not None:
        _check_predicate(request.predicate, 0)
        used = frozenset(_field_ids(request.predicate))
        if used.intersection(partition_ids):
            known = sorted(partitions) if partitions is not None else await tx.list_partitions(head.table_id)
            matching = _matching_partitions(request.predicate, known, types, partition_ids)
            if len(matching) < len(known):
                partitions = frozenset(matching)
        statistic_ids = used.difference(partition_ids)
        if schema.primary_key and not request.changelog:
            # SUBTLE: a file without a matching row may still hide the older, matching row of a key in another file.
            # Only a predicate on what all rows of a key share, the key itself, may leave out single files (semantics
            # 5.4).
            statistic_ids &= {schema.field_ids[name] for name in schema.trimmed_key}
    return FileFilter(
        table_id=head.table_id,
        partitions=partitions,
        buckets=frozenset(request.buckets) or None,
        first_key=request.first_key,
        last_key=request.last_key,
        predicate=request.predicate,
        partition_types=types,
        partition_ids=partition_ids,
        statistic_ids=statistic_ids,
    )


def partition_bounds(
    partitions: Sequence[bytes], types: Sequence[pa.DataType], field_ids: Sequence[int]
) -> dict[int, ColumnBounds]:
    """Each partition column's only value, by field id, for partitions taken as files of one row."""
    parts = [split_key(partition, types) for partition in partitions]
    bounds = {}
    for place, field_id in enumerate(field_ids):
        values = [None if part[place] == _NULL_PART else part[place] for part in parts]
        value = pa.array(values, pa.binary())
        bounds[field_id] = ColumnBounds(value, value, pc.cast(value.is_null(), pa.int64()))
    return bounds


def _matching_partitions(
    predicate: Predicate, known: Sequence[bytes], types: Sequence[pa.DataType], field_ids: Sequence[int]
) -> list[bytes]:
    bounds = partition_bounds(known, types, field_ids)
    mask = may_match(predicate, bounds, pa.array(np.ones(len(known), np.int64)))
    return [partition for partition, matches in zip(known, mask, strict=True) if matches]


def _field_ids(predicate: Predicate) -> Iterator[int]:
    if isinstance(predicate, Comparison):
        yield predicate.field_id
        return
    for operand in predicate.operands:
        yield from _field_ids(operand)


def _check_predicate(predicate: Predicate, depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise invalid(
            "predicate", f"nested {depth} levels deep", f"At most {_MAX_DEPTH} levels are possible; flatten it."
        )
    if isinstance(predicate, AllOf | AnyOf):
        if not 1 <= len(predicate.operands) <= _MAX_VALUES:
            raise invalid("predicate.operands", f"{len(predicate.operands)} operands", f"Give 1 to {_MAX_VALUES}.")
        for operand in predicate.operands:
            _check_predicate(operand, depth + 1)
        return
    if not 1 <= predicate.field_id <= MAX_INT32:
        raise invalid("predicate.field_id", predicate.field_id, "Give the id of a column, from 1.")
    count = len(predicate.values)
    match predicate.operator:
        case Operator.IS_NULL | Operator.IS_NOT_NULL:
            if count:
                raise invalid("predicate.values", f"{count} values", f"{predicate.operator.value} takes none.")
        case Operator.IN:
            if not 1 <= count <= _MAX_VALUES:
                raise invalid("predicate.values", f"{count} values", f"IN takes 1 to {_MAX_VALUES}.")
        case _:
            if count != 1:
                raise invalid("predicate.values", f"{count} values", f"'{predicate.operator.value}' takes exactly one.")
