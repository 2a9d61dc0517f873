"""The ways to use lakelog that every conformance case goes through."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.sql.alter_columns import parse_clauses
from tests.conformance.language import KIND_COLUMN, Outcome, Step, TableSpec
from tests.support.tables.attaching import attach_all

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_numbers = itertools.count(1)


class SdkDriver:
    """Everything through the Python SDK."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        catalog.create_database("conformance", if_not_exists=True)

    def create(self, table: TableSpec) -> str:
        name = f"conformance.t{next(_numbers)}"
        self._catalog.create_table(
            name,
            schema=table.schema,
            primary_key=list(table.key),
            partition_by=list(table.partition),
            options=dict(table.options),
        )
        return name

    def apply(self, name: str, table: TableSpec, step: Step) -> Outcome:
        handle = self._catalog.table(name)
        if step.call == "compact":
            return self._compact(handle)
        if step.call in ("rollback", "tag", "delete_where"):
            return self._apply_to_state(handle, step)
        if step.call == "alter":
            handle.alter(columns=parse_clauses(step.clauses, handle.info.schema))
            return Outcome(None, False)
        data = table.rows(step.rows, step.columns)
        arguments: dict[str, Any] = dict(step.arguments)
        if step.call == "overwrite":
            arguments["partition"] = step.partition
        result = getattr(handle, step.call)(data, **arguments)
        return Outcome(result.snapshot_id, result.already_applied)

    def _compact(self, table: Table) -> Outcome:
        table.compact(full=True, wait=False)
        attach_all(self._catalog.metastore, find_tables=lambda: [table.uuid])
        return Outcome(table.snapshots(1).column("id")[0].as_py(), False)

    def _apply_to_state(self, handle: Table, step: Step) -> Outcome:
        arguments: dict[str, Any] = dict(step.arguments)
        if step.call == "tag":
            return Outcome(handle.tags.create(str(step.state), **arguments), False)
        if step.call == "delete_where":
            deleted = handle.delete_where(str(step.state), **arguments)
            return Outcome(deleted.snapshot_id, deleted.already_applied)
        result = handle.rollback_to(step.state, **arguments)
        return Outcome(result.snapshot_id, result.already_applied)

    def read(self, name: str, state: int | str | None = None) -> pa.Table:
        return self._catalog.table(name).scan(**_named(state)).to_arrow()

    def changes(self, name: str, snapshot_id: int, *, raw: bool) -> pa.Table:
        table = self._catalog.table(name)
        if table.options.get("lookup-wait") == "false":
            attach_all(self._catalog.metastore, find_tables=lambda: [table.uuid])
        found = table.changes(snapshot_id - 1, snapshot_id, raw=raw, timeout=0)
        return found.to_arrow().drop_columns(["_snapshot_id"])


class SparkDriver(SdkDriver):
    """Tables are made by the SDK; rows are written and read by Spark."""

    def __init__(self, catalog: Catalog, spark: SparkSession) -> None:
        super().__init__(catalog)
        self._spark = spark
        self._writes = 0

    def apply(self, name: str, table: TableSpec, step: Step) -> Outcome:
        import lakelog.spark
        from tests.support.spark.write_ways import written_by_tasks

        if step.call == "compact":
            return self._compact(self._catalog.table(name))
        if step.call in ("rollback", "tag", "delete_where"):
            return super().apply(name, table, step)
        if step.call == "alter":
            self._catalog.sql(f"ALTER TABLE {name} {', '.join(step.clauses)}")
            return Outcome(None, False)
        data = table.rows(step.rows, step.columns)
        # The default parallelism spreads the rows over tasks, so that the order between tasks is tested as well.
        frame = self._spark.createDataFrame(data)
        arguments: dict[str, Any] = dict(step.arguments)
        if step.call == "overwrite":
            arguments["partition"] = step.partition
        mode: Any = {"append": "append", "upsert": "append", "write": "append"}.get(step.call, step.call)
        # Each other one by tasks, as large writes are, so that each way meets what the other has written.
        self._writes += 1
        with written_by_tasks(self._writes % 2 == 1):
            result = lakelog.spark.write(frame, name, mode=mode, **arguments)
        return Outcome(result.snapshot_id, result.already_applied)

    def read(self, name: str, state: int | str | None = None) -> pa.Table:
        import lakelog.spark

        return lakelog.spark.read_table(self._spark, name, **_named(state)).toArrow()


class FormatDriver(SdkDriver):
    """Tables are made by the SDK; rows are written, each half by a task of its own, and read by `format("lakelog")`."""

    def __init__(self, catalog: Catalog, spark: SparkSession) -> None:
        super().__init__(catalog)
        self._spark = spark

    def apply(self, name: str, table: TableSpec, step: Step) -> Outcome:
        assert step.call in ("upsert", "write", "overwrite"), "no case asks for more"
        frame = self._spark.createDataFrame(table.rows(step.rows, step.columns))
        assert frame.rdd.getNumPartitions() == min(2, len(step.rows))
        mode = "overwrite" if step.call == "overwrite" else "append"
        frame.write.format("lakelog").option("table", name).mode(mode).save()
        return Outcome(self._catalog.table(name).snapshots(1).column("id")[0].as_py(), False)

    def read(self, name: str, state: int | str | None = None) -> pa.Table:
        assert state is None, "no case asks for it"
        return self._spark.read.format("lakelog").option("table", name).load().toArrow()

    def changes(self, name: str, snapshot_id: int, *, raw: bool) -> pa.Table:
        reader = self._spark.read.format("lakelog").option("table", name)
        reader = reader.option("incremental-between", f"{snapshot_id - 1},{snapshot_id}")
        if raw:
            reader = reader.option("lakelog-raw", "true").option("metadata-columns", KIND_COLUMN)
        else:
            reader = reader.option("incremental-between-scan-mode", "changelog")
        return reader.load().toArrow()


def _named(state: int | str | None) -> dict[str, Any]:
    """A state as reads take it."""
    return {"tag": state} if isinstance(state, str) else {"snapshot_id": state}
