"""Answers the calls of `DefaultSource.java` and `Catalog.java`, in the driver program.

A call is a JSON object with `call`, one of those of `catalog_calls.py`, or:

- `describe` with the `options` of a read, and the schema `given` by its user if there is one: answer `schema`, or
  nothing, if Python has to read the rows.
- `scan` with `options`, the `filters` of the query and, where another read of the query has seen it, the `snapshot`:
  the rows are given to the target; answer the `table`'s name, `snapshot`, `bytes` and `rows`.

An answer with `error` ends the query.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Mapping
from typing import Any, ClassVar

import pyarrow.compute as pc
from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from lakelog.errors import LakelogError
from lakelog.format.tables.plan import AtSnapshot
from lakelog.options.values import ScanOptions
from lakelog.spark.batch.table_read import read_plan, read_time_zone
from lakelog.spark.installation import Installation
from lakelog.spark.java.catalog_calls import Call, CatalogCalls
from lakelog.spark.java.pushed_filters import to_condition
from lakelog.spark.parquet_files import can_read
from lakelog.spark.planning import (
    check_spark_columns,
    find_table_and_levels,
    means_the_same,
    plan_pushed,
    plan_read,
    resolve_spark_state,
)
from lakelog.spark.source.options import SourceOptions
from lakelog.spark.source.reader import pick_columns, pick_given_columns
from lakelog.spark.source.system_reader import is_planned_as_system_table
from lakelog.spark.stream.batch import RangeReadOptions
from lakelog.spark.types import to_spark_schema


class BatchCalls:
    """Reads of the sessions of one installation. Threads of Java call it.

    Args:
        spark: The session in which lakelog was installed.
        installation: Its installation.
    """

    class Java:
        """The interface by which Java calls it."""

        implements: ClassVar = ["java.util.function.BiFunction"]

    def __init__(self, spark: SparkSession, installation: Installation) -> None:
        self._spark = spark
        self._installation = installation
        self._calls: Mapping[str, Call] = {
            "describe": lambda _, arguments: self._describe(arguments),
            "scan": self._scan,
            **CatalogCalls(installation, self._session).calls,
        }

    def apply(self, target: JavaObject | None, text: str) -> str:
        """Answers a call; both are JSON objects."""
        arguments = json.loads(text)
        try:
            return json.dumps(self._calls[arguments["call"]](target, arguments))
        except LakelogError as error:
            return json.dumps({"error": f"lakelog.errors.{type(error).__name__}: {error}"})
        except Exception:
            # The traceback would otherwise stay in this process, and the query end with a text of py4j.
            return json.dumps({"error": traceback.format_exc()})

    def _describe(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        options = SourceOptions.of(arguments["options"])
        if options.is_stream or is_planned_as_system_table(options.table) or RangeReadOptions.is_asked_for(options):
            return {}
        metastore = self._installation.metastore
        info, levels = find_table_and_levels(metastore, options.table)
        state = resolve_spark_state(None, None, ScanOptions(options.others))
        schema = info.schema
        if state is not None or not info.location.startswith("file:"):
            plan, _ = plan_read(metastore, info, state, options.filter, time_zone="UTC", strict=True, levels=levels)
            schema = plan.schema
            paths = plan.files.column("path")
            if len(paths) and not can_read(self._spark, info.location, paths[0].as_py()):
                return {}
        if not means_the_same(options.filter, schema, read_time_zone(self._spark)):
            return {}
        columns = pick_columns(schema, check_spark_columns(options.columns, schema, options.table))
        known = to_spark_schema(columns, nullable=True)
        if "given" in arguments:
            never_null = {each.name for each in columns if not each.nullable}
            pick_given_columns(StructType.fromJson(json.loads(arguments["given"])), known, never_null, options.table)
        return {"schema": known.json()}

    def _scan(self, target: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
        spark = self._session(target.session())
        options = SourceOptions.of(arguments["options"])
        info, levels = find_table_and_levels(self._installation.metastore, options.table)
        state = resolve_spark_state(None, None, ScanOptions(options.others))
        if arguments.get("snapshot"):
            state = AtSnapshot(arguments["snapshot"])
        pushed = to_condition(arguments["filters"])
        plan, parsed = plan_pushed(self._installation.metastore, info, state, options.filter, pushed, levels)
        rows = read_plan(spark, self._installation, plan, parsed)
        if options.filter is not None:
            rows = rows.where(options.filter)
        target.answer(rows._jdf)
        return {
            "table": str(info.name),
            "snapshot": 0 if plan.snapshot is None else plan.snapshot.snapshot_id,
            "bytes": pc.sum(plan.files.column("size_bytes")).as_py() or 0,
            "rows": pc.sum(plan.files.column("row_count")).as_py() or 0,
        }

    def _session(self, java_session: JavaObject) -> SparkSession:
        """The session of a query, which may have been cloned from that of the installation."""
        if self._spark._jsparkSession.equals(java_session):
            return self._spark
        return SparkSession(self._spark.sparkContext, java_session)
