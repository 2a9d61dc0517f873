"""One change of rows by Spark: what is read, computed, checked and committed, again where another commit came first.

1. The rows that a clause applies to are computed once (`localCheckpoint`), since a source may give other rows when it
   is computed again. If an executor with some of them is lost, the statement fails, and nothing of it is visible.
2. What is written relies on the rows that were read. In a table with a primary key the commit guards the buckets that
   it writes to, since the snapshot before the read; in an append table the files whose rows it removes must be live.
   Where an insert relies on no row being anywhere, the whole table must be unchanged.
"""

from __future__ import annotations

import contextlib
import functools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from lakelog.arguments import parse_table_name
from lakelog.client.leased_reads import LeasedReads
from lakelog.clock import SystemClock
from lakelog.errors import InvalidArgument
from lakelog.format.tables.table import TableInfo
from lakelog.results import WriteResult
from lakelog.spark.batch.commit import CommitParameters
from lakelog.spark.batch.table_read import read_table
from lakelog.spark.batch.table_write import write_to
from lakelog.spark.installation import installation_of
from lakelog.spark.planning import plan_read
from lakelog.spark.row_changes.joined_rows import find_equal_columns
from lakelog.spark.row_changes.outputs import ACTION_COLUMN, Outputs
from lakelog.spark.row_changes.removal import check_removed_rows, collect_places, read_places, replace_rows
from lakelog.spark.session.remote import check_not_remote
from lakelog.spark.task_errors import lakelog_errors
from lakelog.storage.parquet.live_file import LiveFile, to_live_files
from lakelog.writes.commit_options import CommitOptions, read_commit_options
from lakelog.writes.row_changes.clauses import Action, Clause
from lakelog.writes.row_changes.plan import SOURCE_NAME, TARGET_NAME, check_table
from lakelog.writes.row_changes.unaltered import check_unaltered
from lakelog.writes.run_again import Pauses, run_again

ReadTarget: TypeAlias = Callable[[str | None], DataFrame]
"""Reads the table's rows that fulfil a condition."""

Join: TypeAlias = Callable[[TableInfo, ReadTarget], DataFrame]
"""Makes the rows of which clauses take some; see `joined_rows`."""

Counts: TypeAlias = Mapping[Action, int] | None
"""How many rows each action has had; None: the change was applied before."""


def change_rows(
    spark: SparkSession,
    name: str,
    call: str,
    clauses: Sequence[Clause],
    join: Join,
    commit: CommitOptions,
    source: DataFrame | None = None,
    on: str | Sequence[str] = (),
) -> tuple[WriteResult, Counts]:
    """Changes rows by one commit, again where another one came first. Blocks.

    Args:
        spark: The session.
        name: `database.table`.
        call: The function that was called, for messages.
        clauses: What happens to the rows.
        join: Makes the rows.
        commit: As of all writes.
        source: The rows of a merge; None: it is none.
        on: The condition of a merge.

    Raises:
        InvalidArgument: The change is not possible; nothing was written.
        CommitConflict: As for all writes; also if others came first 20 times.
    """
    check_not_remote(spark, f"lakelog.spark.{call}", f"table.{call} of the SDK")
    read_commit_options(call, commit)
    change = _Change(spark, name, call, tuple(clauses), join, commit, source, on)
    return run_again(Pauses(SystemClock(), random.random), commit, change.run)


class _Change:
    """A change that may be tried several times; arguments as of `change_rows`."""

    def __init__(
        self,
        spark: SparkSession,
        name: str,
        call: str,
        clauses: tuple[Clause, ...],
        join: Join,
        commit: CommitOptions,
        source: DataFrame | None,
        on: str | Sequence[str],
    ) -> None:
        self._spark = spark
        self._metastore = installation_of(spark).metastore
        self._name = name
        self._call = call
        self._clauses = clauses
        self._join = join
        self._commit = commit
        self._source = source
        self._on = on
        self._files: Sequence[LiveFile] = ()

    def run(self) -> tuple[WriteResult, Counts]:
        """Reads, computes and commits."""
        info = self._metastore.get_table(parse_table_name(self._name))
        check_table(info, {clause.action for clause in self._clauses})
        applied = self._find_applied(info)
        if applied is not None:
            return applied, None
        with _explaining(self._call):
            joined = self._join(info, functools.partial(self._read, info))
            source = self._source
            names = () if source is None else find_equal_columns(info, self._on, source)[0]
            outputs = Outputs(info, self._clauses, None if source is None else tuple(source.columns), names)
            # Wrong names and types are found before anything is computed.
            outputs.to_rows(joined)
            chosen = self._compute(info, joined)
            outputs.check_once(chosen)
            relies_on_all = self._relies_on_all(info)
            if relies_on_all and info.schema.primary_key:
                key = list(info.schema.primary_key)
                outputs.check_keys_are_new(chosen, read_table(self._spark, self._name, columns=key))
            counts = outputs.count(chosen)
            if not info.schema.primary_key:
                check_removed_rows(info.name, counts.get(Action.UPDATE, 0) + counts.get(Action.DELETE, 0))
            result = self._write(info, outputs, chosen, relies_on_all)
        return result, None if result.already_applied else counts

    def _find_applied(self, info: TableInfo) -> WriteResult | None:
        """The result of this commit if it was the writer's last one: its rows may not be as they were before it."""
        writer = self._commit.get("writer")
        if writer is None:
            return None
        progress = self._metastore.get_writer_progress(writer, info.table_uuid)
        same = progress.last_identifier is not None and progress.last_identifier == self._commit.get("identifier")
        return WriteResult(progress.snapshot_id, True) if same else None

    def _read(self, info: TableInfo, condition: str | None) -> DataFrame:
        if info.schema.primary_key:
            return read_table(self._spark, self._name, filter=condition)
        time_zone = self._spark.conf.get("spark.sql.session.timeZone") or "UTC"
        plan, _ = plan_read(self._metastore, info, None, condition, time_zone=time_zone)
        self._files = to_live_files(plan.files)
        rows = read_places(self._spark, plan)
        return rows if condition is None else rows.where(condition)

    def _compute(self, info: TableInfo, joined: DataFrame) -> DataFrame:
        lease = (
            LeasedReads(self._metastore).reading(info, info.latest_snapshot_id)
            if info.latest_snapshot_id
            else contextlib.nullcontext()
        )
        with lease, lakelog_errors():
            return joined.where(f"`{ACTION_COLUMN}` IS NOT NULL").localCheckpoint()

    def _relies_on_all(self, info: TableInfo) -> bool:
        """Whether a row is inserted because no row of the table is like it, wherever that would be."""
        inserts = any(clause.action is Action.INSERT for clause in self._clauses)
        if not inserts or self._source is None:
            return False
        names, is_all = find_equal_columns(info, self._on, self._source)
        return not is_all or set(names) != set(info.schema.primary_key)

    def _write(self, info: TableInfo, outputs: Outputs, chosen: DataFrame, relies_on_all: bool) -> WriteResult:
        guarded: dict[str, Any] = dict(self._commit)
        names = (["if_snapshot"] if relies_on_all else []) + (["if_unchanged"] if info.schema.primary_key else [])
        for guard in names:
            given = guarded.get(guard)
            guarded[guard] = info.latest_snapshot_id if given is None else min(info.latest_snapshot_id, given)
        changed = functools.reduce(DataFrame.unionAll, outputs.to_rows(chosen))
        if not info.schema.primary_key:
            places = collect_places(chosen)
            if places.num_rows:
                now = self._metastore.get_table_by_uuid(info.table_uuid)
                check_unaltered(info, now.table_uuid, now.schema)
                identity, commit_metadata, guards = read_commit_options(self._call, guarded)  # type: ignore[arg-type]
                parameters = CommitParameters(
                    identity.writer,
                    identity.identifier,
                    identity.previous_identifier,
                    commit_metadata.watermark_ms,
                    commit_metadata.properties,
                    commit_metadata.allow_empty,
                    guards=guards,
                )
                return replace_rows(self._spark, self._metastore, info, changed, places, self._files, parameters)
        return write_to(changed, self._name, info, **guarded)


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
