"""Updates, deletes and merges of tables with a primary key by Spark: the join runs in the JVM, one commit writes all.

1. The rows that a clause applies to are computed once (`localCheckpoint`), since a source may give other rows when it
   is computed again. If an executor with some of them is lost, the statement fails, and nothing of it is visible.
2. What is written relies on the rows that were read: the commit guards the buckets that it writes to since the snapshot
   before the read, and all is done again if another commit came first.
"""

from __future__ import annotations

import contextlib
import functools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Unpack

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from lakelog.arguments import parse_table_name
from lakelog.clock import SystemClock
from lakelog.errors import InvalidArgument
from lakelog.format.tables.table import TableInfo
from lakelog.results import DeleteResult, MergeResult, UpdateResult, WriteResult
from lakelog.spark.batch.table_read import read_table
from lakelog.spark.batch.table_write import write
from lakelog.spark.installation import installation_of
from lakelog.spark.row_changes.outputs import ACTION_COLUMN, Outputs, quote, quoted, with_bare_names
from lakelog.spark.session.remote import check_not_remote
from lakelog.spark.task_errors import lakelog_errors
from lakelog.writes.commit_options import CommitOptions, read_commit_options
from lakelog.writes.row_changes.clauses import (
    Action,
    Assignments,
    Clause,
    Rows,
    check_assignments,
    check_clauses,
)
from lakelog.writes.row_changes.on_condition import check_on
from lakelog.writes.row_changes.plan import SOURCE_NAME, TARGET_NAME, check_table
from lakelog.writes.run_again import Pauses, run_again


def update(
    spark: SparkSession,
    name: str,
    set: Assignments,  # noqa: A002
    where: str | None = None,
    **commit: Unpack[CommitOptions],
) -> UpdateResult:
    """Gives columns of some rows of a table with a primary key new values, by one commit; see `lakelog.Table.update`.

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
    result, counts = _change(spark, name, "update", (clause,), lambda _, read: _all_rows(read(where)), commit)
    return UpdateResult(result.snapshot_id, result.already_applied, counts.get(Action.UPDATE, 0) if counts else None)


def delete_where(
    spark: SparkSession,
    name: str,
    filter: str,  # noqa: A002
    **commit: Unpack[CommitOptions],
) -> DeleteResult:
    """Deletes the rows of a table with a primary key that fulfil a condition of Spark's; see `Table.delete_where`.

    Arguments and errors as of `update`.
    """
    clause = Clause(Rows.MATCHED, Action.DELETE)
    result, counts = _change(spark, name, "delete_where", (clause,), lambda _, read: _all_rows(read(filter)), commit)
    return DeleteResult(result.snapshot_id, result.already_applied, counts.get(Action.DELETE, 0) if counts else None)


def merge(
    spark: SparkSession,
    name: str,
    source: DataFrame,
    on: str | Sequence[str],
    *clauses: Clause,
    **commit: Unpack[CommitOptions],
) -> MergeResult:
    """Merges rows into a table with a primary key, by one commit; see `lakelog.Table.merge`.

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

    def join(info: TableInfo, read: Callable[[str | None], DataFrame]) -> DataFrame:
        _check_whole_rows(info, checked, matched_by)
        return _join(source, read(None), _to_condition(matched_by), checked)

    result, counts = _change(spark, name, "merge", checked, join, commit, source, matched_by)
    if counts is None:
        return MergeResult(result.snapshot_id, result.already_applied, None, None, None, None)
    updated, deleted, inserted = (counts.get(each, 0) for each in (Action.UPDATE, Action.DELETE, Action.INSERT))
    return MergeResult(result.snapshot_id, result.already_applied, updated, deleted, inserted, 0)


_Join = Callable[[TableInfo, Callable[[str | None], DataFrame]], DataFrame]
_Counts = Mapping[Action, int] | None


def _change(
    spark: SparkSession,
    name: str,
    call: str,
    clauses: Sequence[Clause],
    join: _Join,
    commit: CommitOptions,
    source: DataFrame | None = None,
    on: str | Sequence[str] = (),
) -> tuple[WriteResult, _Counts]:
    """Changes rows by one commit, again where another one came first."""
    check_not_remote(spark, f"lakelog.spark.{call}", f"table.{call} of the SDK")
    metastore = installation_of(spark).metastore
    identity, _, _ = read_commit_options(call, commit)

    def change_once() -> tuple[WriteResult, _Counts]:
        info = metastore.get_table(parse_table_name(name))
        _check_has_key(info, call)
        check_table(info, {clause.action for clause in clauses})
        if identity.writer is not None:
            progress = metastore.get_writer_progress(identity.writer, info.table_uuid)
            if progress.last_identifier == identity.identifier:
                return WriteResult(progress.snapshot_id, True), None
        with _explaining(call):
            joined = join(info, lambda condition: read_table(spark, name, filter=condition))
            outputs = Outputs(info, tuple(clauses), None if source is None else tuple(source.columns))
            # Wrong names and types are found before anything is computed.
            outputs.to_rows(joined)
            with lakelog_errors():
                chosen = joined.where(f"`{ACTION_COLUMN}` IS NOT NULL").localCheckpoint()
            outputs.check_once(chosen)
            if any(clause.action is Action.INSERT for clause in clauses) and not _matches_by_key_alone(info, on):
                outputs.check_keys_are_new(chosen, read_table(spark, name, columns=list(info.schema.primary_key)))
            counts = outputs.count(chosen)
            changed = functools.reduce(DataFrame.unionAll, outputs.to_rows(chosen))
        guarded: dict[str, Any] = dict(commit)
        base = info.latest_snapshot_id
        given = commit.get("if_unchanged")
        guarded["if_unchanged"] = base if given is None else min(base, given)
        result = write(changed, name, **guarded)
        return result, None if result.already_applied else counts

    return run_again(Pauses(SystemClock(), random.random), commit, change_once)


def _all_rows(target: DataFrame) -> DataFrame:
    return _as_struct(target, TARGET_NAME).withColumn(ACTION_COLUMN, sf.lit(0))


def _as_struct(rows: DataFrame, name: str) -> DataFrame:
    return rows.select(sf.struct(*[quoted(each) for each in rows.columns]).alias(name))


def _join(source: DataFrame, target: DataFrame, condition: Column, clauses: Sequence[Clause]) -> DataFrame:
    """The pairs of rows, and rows without another one where clauses ask for them; with the number of their clause."""
    kinds = {clause.rows for clause in clauses}
    new, left = Rows.NOT_MATCHED in kinds, Rows.NOT_MATCHED_BY_SOURCE in kinds
    how = "full" if new and left else "left" if new else "right" if left else "inner"
    joined = _as_struct(source, SOURCE_NAME).join(_as_struct(target, TARGET_NAME), condition, how)
    holds = {
        Rows.MATCHED: f"{SOURCE_NAME} IS NOT NULL AND {TARGET_NAME} IS NOT NULL",
        Rows.NOT_MATCHED: f"{TARGET_NAME} IS NULL",
        Rows.NOT_MATCHED_BY_SOURCE: f"{SOURCE_NAME} IS NULL",
    }
    branches = []
    for number, clause in enumerate(clauses):
        condition_text = "" if clause.condition is None else f" AND ({clause.condition})"
        branches.append(f"WHEN {holds[clause.rows]}{condition_text} THEN {number}")
    columns = joined.columns
    named = with_bare_names(joined)
    return named.withColumn(ACTION_COLUMN, sf.expr(f"CASE {' '.join(branches)} END")).select(*columns, ACTION_COLUMN)


def _to_condition(on: str | Sequence[str]) -> Column:
    if isinstance(on, str):
        return sf.expr(on)
    pairs = [sf.col(f"{TARGET_NAME}.{quote(name)}") == sf.col(f"{SOURCE_NAME}.{quote(name)}") for name in on]
    return functools.reduce(Column.__and__, pairs)


def _matches_by_key_alone(info: TableInfo, on: str | Sequence[str]) -> bool:
    return not isinstance(on, str) and set(on) == set(info.schema.primary_key)


def _check_whole_rows(info: TableInfo, clauses: Sequence[Clause], on: str | Sequence[str]) -> None:
    """Checks that a row that takes over all columns of the source keeps its key."""
    if not isinstance(on, str) and set(info.schema.primary_key) <= set(on):
        return
    clause = next((each for each in clauses if each.action is Action.UPDATE and each.values is None), None)
    if clause is not None:
        raise InvalidArgument(
            f"'{clause}' could update the key of {info.name}: rows are not matched by it. Give on= the columns of the "
            f"key, {list(info.schema.primary_key)}, or name the columns to update.",
            reason="KEY_UPDATED",
            metadata={"table": str(info.name)},
        )


def _check_has_key(info: TableInfo, call: str) -> None:
    if not info.schema.primary_key:
        raise InvalidArgument(
            f"Table {info.name} has no primary key, and Spark changes rows by their keys. Use the SDK, which does it "
            f"by their positions: catalog.table('{info.name}').{call}(...).",
            metadata={"table": str(info.name)},
        )


@contextlib.contextmanager
def _explaining(call: str) -> Iterator[None]:
    """Raises Spark's complaint about an expression as InvalidArgument."""
    try:
        yield
    except AnalysisException as error:
        first = str(error).strip().partition("\n")[0].rstrip(";.")
        raise InvalidArgument(
            f"{call}() is not possible: {first[:500]}. The columns of both sides are {SOURCE_NAME}.name and "
            f"{TARGET_NAME}.name.",
            reason="EXPRESSION_INVALID",
            metadata={"field": call},
        ) from error
