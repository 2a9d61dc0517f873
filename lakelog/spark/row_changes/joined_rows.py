"""The rows of a table and of a source, side by side, with the number of the clause that each of them is for."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from lakelog.errors import InvalidArgument
from lakelog.format.tables.table import TableInfo
from lakelog.spark.batch.row_layout import to_arrow
from lakelog.spark.row_changes.outputs import ACTION_COLUMN, quote, quoted, with_bare_names
from lakelog.spark.row_changes.removal import PLACE_COLUMNS
from lakelog.writes.row_changes.clauses import Action, Clause, Rows
from lakelog.writes.row_changes.expressions import Side
from lakelog.writes.row_changes.on_condition import bind_on
from lakelog.writes.row_changes.plan import SOURCE_NAME, TARGET_NAME


def take_all_rows(target: DataFrame) -> DataFrame:
    """All rows of the table, for the only clause."""
    return _as_struct(target, TARGET_NAME).withColumn(ACTION_COLUMN, sf.lit(0))


def _as_struct(rows: DataFrame, name: str) -> DataFrame:
    places = [each for each in PLACE_COLUMNS if each in rows.columns]
    columns = [quoted(each) for each in rows.columns if each not in places]
    return rows.select(sf.struct(*columns).alias(name), *map(quoted, places))


def join_rows(source: DataFrame, target: DataFrame, on: Column, clauses: Sequence[Clause]) -> DataFrame:
    """The pairs of rows, and rows without another one where clauses ask for them; with the number of their clause."""
    kinds = {clause.rows for clause in clauses}
    new, left = Rows.NOT_MATCHED in kinds, Rows.NOT_MATCHED_BY_SOURCE in kinds
    how = "full" if new and left else "left" if new else "right" if left else "inner"
    joined = _as_struct(source, SOURCE_NAME).join(_as_struct(target, TARGET_NAME), on, how)
    holds = {
        Rows.MATCHED: f"{SOURCE_NAME} IS NOT NULL AND {TARGET_NAME} IS NOT NULL",
        Rows.NOT_MATCHED: f"{TARGET_NAME} IS NULL",
        Rows.NOT_MATCHED_BY_SOURCE: f"{SOURCE_NAME} IS NULL",
    }
    columns = joined.columns
    for number, clause in enumerate(clauses):
        condition = sf.expr(f"{holds[clause.rows]} AND ({'true' if clause.condition is None else clause.condition})")
        tested = with_bare_names(joined, clause).withColumn(f"lakelog_clause_{number}", condition)
        joined = tested.select(*joined.columns, f"lakelog_clause_{number}")
    branches = [f"WHEN lakelog_clause_{number} THEN {number}" for number in range(len(clauses))]
    return joined.withColumn(ACTION_COLUMN, sf.expr(f"CASE {' '.join(branches)} END")).select(*columns, ACTION_COLUMN)


def to_condition(on: str | Sequence[str]) -> Column:
    """The condition of a merge for Spark's join."""
    if isinstance(on, str):
        return sf.expr(on)
    pairs = [sf.col(f"{TARGET_NAME}.{quote(name)}") == sf.col(f"{SOURCE_NAME}.{quote(name)}") for name in on]
    return functools.reduce(Column.__and__, pairs)


def find_equal_columns(info: TableInfo, on: str | Sequence[str], source: DataFrame) -> tuple[tuple[str, ...], bool]:
    """The table's columns that must equal one of the source, and whether that is all of `on`."""
    sides = Side("t", (TARGET_NAME,), info.schema.arrow), Side("s", (SOURCE_NAME,), to_arrow(source))
    try:
        found = bind_on(on, *sides, reads_all=True)
    except InvalidArgument:
        # Spark knows more than what is understood here.
        return (), False
    return tuple(each.target for each in found.equal), found.rest is None


def check_whole_rows(info: TableInfo, clauses: Sequence[Clause], on: str | Sequence[str], source: DataFrame) -> None:
    """Checks that a row that takes over all columns of the source keeps its key.

    Raises:
        InvalidArgument: It may get another one.
    """
    clause = next((each for each in clauses if each.action is Action.UPDATE and each.values is None), None)
    if (
        clause is not None
        and info.schema.primary_key
        and not set(info.schema.primary_key) <= set(find_equal_columns(info, on, source)[0])
    ):
        raise InvalidArgument(
            f"'{clause}' could update the key of {info.name}: rows are not matched by it. Give on= the columns of the "
            f"key, {list(info.schema.primary_key)}, or name the columns to update.",
            reason="KEY_UPDATED",
            metadata={"table": str(info.name)},
        )
