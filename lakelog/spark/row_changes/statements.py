"""Updates, deletes and merges by Spark: conditions, expressions and joins are Spark's, and one commit writes all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from pyspark.sql import DataFrame, SparkSession

from lakelog.format.tables.table import TableInfo
from lakelog.results import DeleteResult, MergeResult, UpdateResult
from lakelog.spark.row_changes.change import ReadTarget, change_rows
from lakelog.spark.row_changes.joined_rows import check_whole_rows, join_rows, take_all_rows, to_condition
from lakelog.writes.commit_options import CommitOptions
from lakelog.writes.row_changes.clauses import Action, Assignments, Clause, Rows, check_assignments, check_clauses
from lakelog.writes.row_changes.on_condition import check_on


def update(
    spark: SparkSession,
    name: str,
    set: Assignments,  # noqa: A002
    where: str | None = None,
    **commit: Unpack[CommitOptions],
) -> UpdateResult:
    """Gives columns of some rows of a table new values, by one commit; see `lakelog.Table.update`.

    Args:
        spark: A session in which lakelog is installed.
        name: `database.table`.
        set: New values by column. A text is an expression of Spark's SQL, every other value is itself.
        where: Spark's condition on the table's columns; None: all rows.
        **commit: Writer, watermark and so on: see `CommitOptions`.

    Raises:
        InvalidArgument: A column, an expression or a value is not possible; nothing was written.
        CommitConflict: As for all writes; also if others came first 20 times.
    """
    clause = Clause(Rows.MATCHED, Action.UPDATE, None, check_assignments("update", set))
    result, counts = change_rows(spark, name, "update", (clause,), lambda _, read: take_all_rows(read(where)), commit)
    return UpdateResult(
        result.snapshot_id, result.already_applied, None if counts is None else counts.get(Action.UPDATE, 0)
    )


def delete_where(
    spark: SparkSession,
    name: str,
    filter: str,  # noqa: A002
    **commit: Unpack[CommitOptions],
) -> DeleteResult:
    """Deletes the rows of a table that fulfil a condition of Spark's; see `lakelog.Table.delete_where`.

    Arguments and errors as of `update`.
    """
    clause = Clause(Rows.MATCHED, Action.DELETE)
    result, counts = change_rows(
        spark, name, "delete_where", (clause,), lambda _, read: take_all_rows(read(filter)), commit
    )
    return DeleteResult(
        result.snapshot_id, result.already_applied, None if counts is None else counts.get(Action.DELETE, 0)
    )


def merge(
    spark: SparkSession,
    name: str,
    source: DataFrame,
    on: str | Sequence[str],
    *clauses: Clause,
    **commit: Unpack[CommitOptions],
) -> MergeResult:
    """Merges rows into a table, by one commit; see `lakelog.Table.merge`.

    Spark joins the source with the table. Conditions and expressions are Spark's, over `source.` and `target.`.

    Args:
        spark: A session in which lakelog is installed.
        name: `database.table`.
        source: The rows.
        on: Columns that both have and that must be equal, or a condition of Spark's SQL.
        *clauses: What happens; as of `lakelog.Table.merge`.
        **commit: Writer, watermark and so on: see `CommitOptions`.

    Raises:
        InvalidArgument: A clause, a column, an expression or a value is not possible; or several rows of the source
            would change or make one row of the table. Nothing was written.
        CommitConflict: As for all writes; also if others came first 20 times.
    """
    checked, matched_by = check_clauses(clauses), check_on(on)

    def join(info: TableInfo, read: ReadTarget) -> DataFrame:
        check_whole_rows(info, checked, matched_by, source)
        return join_rows(source, read(None), to_condition(matched_by), checked)

    result, counts = change_rows(spark, name, "merge", checked, join, commit, source, matched_by)
    if counts is None:
        return MergeResult(result.snapshot_id, result.already_applied, None, None, None, None)
    updated, deleted, inserted = (counts.get(each, 0) for each in (Action.UPDATE, Action.DELETE, Action.INSERT))
    return MergeResult(result.snapshot_id, result.already_applied, updated, deleted, inserted, 0)
