"""Filters: the condition of a scan, written in SQL with Spark's meaning.

One text has three uses: Arrow decides row by row (`to_arrow`), the metastore excludes files (`to_predicate`), and plans
use the primary key (`key_bounds`). The work is done in the files beside this one: words (`tokens.py`), grammar
(`syntax.py`), meaning (`binding.py`, `domain.py`, `functions.py`, `types.py`, `literals.py`, the tree in `tree.py`),
Arrow (`arrow.py`), pruning (`pruning.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import InvalidArgument
from lakelog.format.filter import arrow as filter_arrow
from lakelog.format.filter import pruning as filter_pruning
from lakelog.format.filter.binding import bind_condition
from lakelog.format.filter.tree import AllOf, AnyOf, Call, Column, Compare, InSet, IsNull, Matches, Node, Not
from lakelog.format.tables.predicate import Predicate


@dataclass(frozen=True)
class Filter:
    """A condition on rows of a schema. Immutable, picklable.

    Args:
        sql: As it was written.
        schema: The columns it was resolved against.
        tree: Its meaning.
    """

    sql: str
    schema: pa.Schema
    tree: Node

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of the top-level columns that it uses, in the schema's order."""
        used = _columns_of(self.tree)
        return tuple(name for name in self.schema.names if name in used)

    def to_arrow(self) -> pc.Expression:
        """The condition for `pyarrow.Table.filter` and dataset scans: true, false or NULL for each row.

        SUBTLE: this is right for datasets of Parquet files only if these have no statistics of floating-point columns,
        which ignore NaN (`filter_arrow`).
        """
        return filter_arrow.to_expression(self.tree)

    def to_predicate(self, field_ids: Mapping[str, int]) -> Predicate | None:
        """A weaker condition that excludes files; None: it cannot be expressed by single columns.

        Args:
            field_ids: Ids of the top-level columns by name, as `TableSchema.field_ids`; others are not used.
        """
        return filter_pruning.to_predicate(self.tree, field_ids)

    def key_bounds(self, key: Sequence[str]) -> tuple[bytes | None, bytes | None]:
        """The least and the greatest encoded key that matching rows can have, both inclusive; None: unbounded.

        Args:
            key: Names of the trimmed primary key's columns in order, as `TableSchema.trimmed_key`.
        """
        return filter_pruning.key_bounds(self.tree, key)


def parse_filter(sql: str, schema: pa.Schema) -> Filter:
    """Reads an SQL condition, as Spark does with UTC as its time zone. Pure.

    It may contain comparisons (also `<=>`), AND, OR, NOT, IN, BETWEEN, LIKE, IS [NOT] NULL, TRUE, FALSE and DISTINCT
    FROM, arithmetic, casts that cannot fail, fields of structs and some functions. Names of columns are matched without
    regard to case.

    Args:
        sql: For instance `dt = '2024-05-01' AND (price > 9.5 OR price IS NULL)`.
        schema: Columns of canonical types (`lakelog.format.types.types`).

    Raises:
        InvalidArgument: The condition is not possible; shows the place, and names the column, type and constant if
            types do not fit.
    """
    if not isinstance(sql, str):
        raise InvalidArgument(
            f'A filter is an SQL condition given as text, such as "id > 5", or an expression of pyarrow, not a '
            f"{type(sql).__name__}.",
            reason="FILTER_INVALID",
        )
    try:
        return Filter(sql, schema, bind_condition(sql, schema))
    except RecursionError:
        # Nesting is bounded, so this also works for a caller that is deep in a recursion already.
        raise InvalidArgument(
            "The filter is nested too deep for the place that it is used in. Flatten it.", reason="FILTER_TOO_LARGE"
        ) from None


def _columns_of(node: Node) -> set[str]:
    match node:
        case Column():
            return {node.path[0]}
        case AllOf() | AnyOf():
            children = node.operands
        case Compare():
            children = (node.left, node.right)
        case Call():
            children = node.arguments
        case InSet() | IsNull() | Matches() | Not():
            children = (node.operand,)
        case _:
            children = ()
    return {name for child in children for name in _columns_of(child)}
