"""The rows that a merge writes, portion by portion of the table, in columns.

Each row of the table is in exactly one portion, so a portion is enough to see that two rows of the source would change
it. Which rows of the source were matched is known when all portions are done; then the others are inserted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.errors import InvalidArgument
from lakelog.format.keys.ordering import single_array
from lakelog.format.tables.table import TableInfo
from lakelog.format.types.cast import cast_batch, show_value
from lakelog.writes.row_changes.clauses import Action, Rows
from lakelog.writes.row_changes.evaluation import Evaluator
from lakelog.writes.row_changes.expressions import Column, Expression, columns_of
from lakelog.writes.row_changes.key_join import Indices, KeyJoin, find_repeated
from lakelog.writes.row_changes.plan import BoundClause, MergePlan, to_output_table

MATCHED_TWICE: Final = "MATCHED_TWICE"
"""The reason of an error about a row that several rows of the source would change or make."""

_SHOWN: Final = 5


@dataclass(frozen=True)
class ChangedRows:
    """What a clause does to some rows.

    Args:
        action: What happens.
        rows: The values to write, by column; of a delete what it needs.
        places: The positions of the rows in the portion, rising; empty for an insert.
    """

    action: Action
    rows: pa.Table
    places: Indices


@dataclass
class MergeRun:
    """One run of a merge. For one thread.

    Args:
        plan: What to do.
        source: The rows of the source.
        evaluator: Computes expressions.
    """

    plan: MergePlan
    source: pa.Table
    evaluator: Evaluator
    _matched: npt.NDArray[np.bool_] = field(init=False)
    _join: KeyJoin | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._matched = np.zeros(self.source.num_rows, bool)
        if self.plan.on.equal:
            self._join = KeyJoin(self.source_keys())

    def source_keys(self) -> list[pa.ChunkedArray]:
        """The columns of the source that are compared, with the type in which they are."""
        schema = pa.schema([pa.field(each.source, each.type) for each in self.plan.on.equal])
        keys = pa.table([self.source.column(each.source) for each in self.plan.on.equal], names=schema.names)
        return cast_batch(keys, schema).columns

    def check_source_keys(self) -> None:
        """Checks that no two rows of the source have one key.

        Raises:
            InvalidArgument: Two have; names some keys.
        """
        if self._join is not None and not self._join.is_unique:
            names = [each.source for each in self.plan.on.equal]
            counted = pa.table(self.source_keys(), names=names).group_by(names).aggregate([([], "count_all")])
            repeated = counted.filter(np.asarray(counted.column("count_all")) > 1).select(names)
            if repeated.drop_null().num_rows:
                raise _matched_twice(self.plan.info, repeated.drop_null())

    def take(self, target: pa.Table) -> Iterator[ChangedRows]:
        """Returns what happens to the rows of a portion of the table.

        Args:
            target: The rows, with the plan's target columns.

        Raises:
            InvalidArgument: Several rows of the source would change one of them; names some. Or a value is not
                possible.
        """
        places, others = self._pair(target)
        self._matched[others] = True
        yield from self._apply(Rows.MATCHED, target, places, others)
        if self.plan.reads_all:
            left = np.ones(target.num_rows, bool)
            left[places] = False
            yield from self._apply(Rows.NOT_MATCHED_BY_SOURCE, target, np.flatnonzero(left), None)

    def finish(self) -> Iterator[ChangedRows]:
        """Returns what happens with the rows of the source that no portion had a row for."""
        if self.plan.clauses_of(Rows.NOT_MATCHED):
            yield from self._apply(Rows.NOT_MATCHED, None, None, np.flatnonzero(~self._matched))

    def _pair(self, target: pa.Table) -> tuple[Indices, Indices]:
        """The pairs of rows that belong together, as positions on both sides, those of the table rising."""
        rest = self.plan.on.rest
        if self._join is None:
            assert rest is not None, "a condition has a part"
            own, other = (_label(rows, side, [rest]) for rows, side in ((target, "t"), (self.source, "s")))
            return self.evaluator.join(own, other, rest)
        keys = [target.column(each.target).cast(each.type) for each in self.plan.on.equal]
        places, others = self._join.find(keys)
        if rest is not None and len(places):
            kept = self.evaluator.test(self._gather([rest], target, places, others), rest)
            return places[kept], others[kept]
        return places, others

    def _apply(
        self, rows: Rows, target: pa.Table | None, places: Indices | None, others: Indices | None
    ) -> Iterator[ChangedRows]:
        clauses = self.plan.clauses_of(rows)
        chosen = self._choose(clauses, target, places, others)
        if rows is Rows.MATCHED and places is not None and target is not None:
            twice = find_repeated(places[chosen >= 0])
            if len(twice):
                names = self.plan.info.schema.primary_key or [each.target for each in self.plan.on.equal]
                raise _matched_twice(self.plan.info, target.select(list(names) or target.schema.names).take(twice))
        for number, clause in enumerate(clauses):
            own = np.flatnonzero(chosen == number)
            if not len(own):
                continue
            mine, theirs = (None if each is None else each[own] for each in (places, others))
            gathered = self._gather(list(clause.outputs.values()), target, mine, theirs)
            output = to_output_table(clause, gathered, self.evaluator, self.plan.info.schema.arrow)
            yield ChangedRows(clause.action, output, np.empty(0, np.int64) if mine is None else mine)

    def _choose(
        self, clauses: Sequence[BoundClause], target: pa.Table | None, places: Indices | None, others: Indices | None
    ) -> npt.NDArray[np.int64]:
        """The number of the first clause that holds for each row; -1: none does."""
        count = len(places) if places is not None else len(others) if others is not None else 0
        chosen = np.full(count, -1, np.int64)
        conditions = [each.condition for each in clauses if each.condition is not None]
        gathered = self._gather(conditions, target, places, others) if conditions and count else None
        for number, clause in enumerate(clauses):
            holds = np.ones(count, bool)
            if clause.condition is not None and gathered is not None:
                holds = self.evaluator.test(gathered, clause.condition)
            chosen[(chosen < 0) & holds] = number
        return chosen

    def _gather(
        self,
        expressions: Sequence[Expression],
        target: pa.Table | None,
        places: Indices | None,
        others: Indices | None,
    ) -> pa.Table:
        """The columns that expressions use, by their labels, for some rows."""
        parts: list[tuple[str, pa.ChunkedArray]] = []
        count = 0
        for rows, side, indices in ((target, "t", places), (self.source, "s", others)):
            if rows is None or indices is None:
                continue
            count = len(indices)
            labelled = _label(rows, side, expressions)
            whole = count == rows.num_rows and bool((indices == np.arange(count)).all())
            taken = labelled if whole else labelled.take(pa.array(indices))
            parts += zip(taken.schema.names, taken.columns, strict=True)
        if not parts:
            # A relation needs a column, so that it can have rows.
            return pa.table({"rows": np.zeros(count, np.int8)})
        return pa.table([column for _, column in parts], names=[name for name, _ in parts])


def check_new_keys(info: TableInfo, inserted: Iterable[pa.Table]) -> None:
    """Checks that no key is inserted twice.

    Raises:
        InvalidArgument: One is; names some.
    """
    key = list(info.schema.primary_key)
    keys = [rows.select(key) for rows in inserted]
    if not key or not keys:
        return
    together = pa.concat_tables(keys, promote_options="permissive")
    if not KeyJoin(together.columns).is_unique:
        counted = together.group_by(key).aggregate([([], "count_all")])
        raise _matched_twice(info, counted.filter(np.asarray(counted.column("count_all")) > 1).select(key))


def show_rows(rows: pa.Table) -> str:
    """Some rows for messages: `(id=1, dt='2024-05-01'), ...`. Pure."""
    shown = [
        "(" + ", ".join(f"{name}={show_value(single_array(rows.column(name))[n])}" for name in rows.schema.names) + ")"
        for n in range(min(rows.num_rows, _SHOWN))
    ]
    return ", ".join(shown) + (f" and {rows.num_rows - _SHOWN} more" if rows.num_rows > _SHOWN else "")


def _label(rows: pa.Table, side: str, expressions: Sequence[Expression]) -> pa.Table:
    used = dict.fromkeys(column.name for each in expressions for column in columns_of(each) if column.side == side)
    return rows.select(list(used)).rename_columns([Column(side, name).label for name in used])


def _matched_twice(info: TableInfo, rows: pa.Table) -> InvalidArgument:
    return InvalidArgument(
        f"Several rows of the source would change or make one row of {info.name}, so its new values are not clear: "
        f"{show_rows(rows)}. Give the source one row for each, or clauses with conditions that hold for one of them.",
        reason=MATCHED_TWICE,
        metadata={"table": str(info.name), "rows": show_rows(rows)},
    )
