"""What a plan's request demands of files: a part becomes a query, the rest is judged on the loaded entries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.format.commit.facts import TableHead
from lakelog.format.keys.encoding import MAX_PARTITION_BYTES
from lakelog.format.keys.parts import split_key
from lakelog.format.tables.packed_statistics import decode_column
from lakelog.format.tables.plan import PlanRequest
from lakelog.format.tables.prune import NULL, ColumnBounds, PreparedPredicate
from lakelog.format.types.schema import TableSchema, field_id

from ..heavy_work import LIGHT, WorkThreads
from ..store.records import FileQuery
from ..store.transaction import Transaction
from ..tables.partitions import partition_types
from .older_files import adapt_bounds

_COMPARISON_COST: Final = 40
"""A comparison, even of few files, costs as much as handling this many files."""


_PARTITION_COST: Final = 5
"""Splitting an encoded partition costs as much as handling this many files."""


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
        statistic_columns: The columns, by id, whose statistics may leave out single files.
        levels: Only files of these; None: of all.
        with_statistics: The plan lists the statistics of its files.
    """

    table_id: int
    partitions: frozenset[bytes] | None
    buckets: frozenset[int] | None
    first_key: bytes | None
    last_key: bytes | None
    predicate: PreparedPredicate | None
    partition_types: tuple[pa.DataType, ...]
    partition_ids: tuple[int, ...]
    statistic_columns: Mapping[int, pa.Field]
    levels: frozenset[int] | None = None
    with_statistics: bool = False

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
            and self.levels is None
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
            levels=self.levels,
            first_key=self.first_key,
            last_key=self.last_key,
            with_statistics=self.needs_statistics,
            baseline_at=baseline_at,
        )

    @property
    def needs_statistics(self) -> bool:
        """Whether statistics of files can leave any out, or the plan lists them."""
        return self.with_statistics or bool(self.statistic_columns)

    def weigh(self, entries: int) -> int:
        """How many items the test of some entries counts as (`WorkThreads.run`)."""
        comparisons = 0 if self.predicate is None else self.predicate.comparison_count
        return max(entries, comparisons * _COMPARISON_COST)

    def select(self, entries: pa.Table) -> pa.Table:
        """The entries, in their order, that the predicate does not rule out.

        Args:
            entries: Columns of FILE_SCHEMA and, if `needs_statistics`, `statistics`.
        """
        if self.predicate is None or not entries.num_rows:
            return entries
        columns = self._partition_bounds(entries)
        row_count = entries.column("row_count").combine_chunks()
        if self.statistic_columns:
            statistics = entries.column("statistics").combine_chunks()
            schema_ids = entries.column("schema_id").combine_chunks()
            for column_id, column in self.statistic_columns.items():
                columns[column_id] = adapt_bounds(decode_column(statistics, column_id), column, schema_ids, row_count)
        mask = self.predicate.may_match(columns, row_count)
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
        if self.levels is not None:
            wanted = pa.array(sorted(self.levels), pa.int32())
            conditions.append(pc.is_in(entries.column("level"), value_set=wanted))
        if self.first_key is not None:
            conditions.append(pc.fill_null(pc.greater_equal(entries.column("max_key"), self.first_key), True))
        if self.last_key is not None:
            conditions.append(pc.fill_null(pc.less_equal(entries.column("min_key"), self.last_key), True))
        for condition in conditions[1:]:
            conditions[0] = pc.and_(conditions[0], condition)
        return self.select(entries.filter(conditions[0]) if conditions else entries)

    def _partition_bounds(self, entries: pa.Table) -> dict[int, ColumnBounds]:
        if self.predicate is None or self.predicate.field_ids.isdisjoint(self.partition_ids):
            return {}
        encoded = entries.column("partition").combine_chunks().dictionary_encode()
        bounds = partition_bounds(encoded.dictionary.to_pylist(), self.partition_types, self.partition_ids)
        rows = entries.column("row_count").combine_chunks()
        result = {}
        for column_id, of_partition in bounds.items():
            low = of_partition.min_value.take(encoded.indices)
            is_null = of_partition.null_count.take(encoded.indices)
            result[column_id] = ColumnBounds(low, low, pc.multiply(is_null, rows))
        return result


@dataclass
class PartitionMatches:
    """Which partitions may hold rows that match the predicate of one plan, as far as known.

    Args:
        predicate: The plan's predicate.
        may_match: The answer, by partition that was tested.
        unjudged: Partitions that are to be tested before the plan goes on.
    """

    predicate: PreparedPredicate
    may_match: dict[bytes, bool] = field(default_factory=dict)
    unjudged: tuple[bytes, ...] = ()
    _types: tuple[pa.DataType, ...] = ()
    _ids: tuple[int, ...] = ()

    def find(self, known: Sequence[bytes], types: tuple[pa.DataType, ...], ids: tuple[int, ...]) -> list[bytes] | None:
        """Returns the partitions that may match; None: many of them must be tested first.

        Args:
            known: Encoded partitions.
            types: The types of the partition columns.
            ids: Field ids of the partition columns.
        """
        self._types, self._ids = types, ids
        self.unjudged = tuple([each for each in known if each not in self.may_match])
        if len(self.unjudged) > LIGHT:
            return None
        self._judge()
        return [each for each in known if self.may_match[each]]

    async def judge_all(self, threads: WorkThreads) -> None:
        """Tests the partitions that `find` has not tested."""
        await threads.run(len(self.unjudged) * _PARTITION_COST, self._judge)

    def _judge(self) -> None:
        bounds = partition_bounds(self.unjudged, self._types, self._ids)
        mask = self.predicate.may_match(bounds, pa.array(np.ones(len(self.unjudged), np.int64)))
        self.may_match.update(zip(self.unjudged, mask.tolist(), strict=True))
        self.unjudged = ()


async def make_filter(
    tx: Transaction, head: TableHead, schema: TableSchema, request: PlanRequest, matches: PartitionMatches | None
) -> FileFilter | None:
    """The filter of a request, its predicate on partition columns resolved to partitions.

    Args:
        tx: A transaction.
        head: The table's head.
        schema: The schema of the plan: the predicate's values are encoded with its types.
        request: The request.
        matches: The known results for partitions; None: the request has no predicate.

    Returns:
        None: so many partitions must be tested first that no transaction should wait for it.
    """
    partition_ids = tuple(schema.field_ids[name] for name in schema.partition_by)
    types = partition_types(schema)
    partitions = frozenset(request.partitions) if request.partitions else None
    statistic_ids: frozenset[int] = frozenset()
    if matches is not None:
        used = matches.predicate.field_ids
        if not used.isdisjoint(partition_ids):
            known = sorted(partitions) if partitions is not None else await tx.list_partitions(head.table_id)
            named = None if partitions is not None else name_partitions(matches.predicate, partition_ids)
            # The few that it names need not be found among all by a test of each.
            possible = known if named is None else sorted(named.intersection(known))
            matching = matches.find(possible, types, partition_ids)
            if matching is None:
                return None
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
        predicate=None if matches is None else matches.predicate,
        partition_types=types,
        partition_ids=partition_ids,
        statistic_columns={field_id(field): field for field in schema.arrow if field_id(field) in statistic_ids},
        levels=frozenset(request.levels) or None,
        with_statistics=request.with_statistics,
    )


def name_partitions(predicate: PreparedPredicate, column_ids: Sequence[int]) -> frozenset[bytes] | None:
    """Encoded partitions in which alone rows can match; None: the predicate does not name all parts, or too many. Pure.

    Args:
        predicate: It may exclude some of them by other comparisons, and names some that do not exist.
        column_ids: Field ids of the partition columns.
    """
    named = [b""]
    for column_id in column_ids:
        values = predicate.find_named_values(column_id)
        if values is None or len(named) * len(values) > LIGHT:
            return None
        named = [start + value for start in named for value in values if len(start) + len(value) <= MAX_PARTITION_BYTES]
    return frozenset(named)


def partition_bounds(
    partitions: Sequence[bytes], types: Sequence[pa.DataType], column_ids: Sequence[int]
) -> dict[int, ColumnBounds]:
    """Each partition column's only value, by field id, for partitions taken as files of one row."""
    parts = [split_key(partition, types) for partition in partitions]
    bounds = {}
    for place, column_id in enumerate(column_ids):
        values = [None if part[place] == NULL else part[place] for part in parts]
        value = pa.array(values, pa.binary())
        bounds[column_id] = ColumnBounds(value, value, pc.cast(value.is_null(), pa.int64()))
    return bounds
