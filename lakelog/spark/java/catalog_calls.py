"""Answers the calls of `Catalog.java`, in the driver program.

- `databases`, and `tables` of a `database`: answer `names`.
- `table` with the `options` of a read: answer its `schema`, `partition_by` and `properties`, or nothing, if there is no
  such table.
- `create database` with `name` and `comment`, `drop database` with `name` and `cascade`, `drop table` with `name`:
  answer `done`, or nothing, if it was there already, or was not there.
- `create table` with `name`, `columns`, `partition_by`, `properties` and perhaps `primary_key`: answer `refused`, a
  list of one text: empty, or what prevents it (`table`, `database`).
- `alter table` with `name` and `changes`, as `Catalog.java` describes those of Spark.
- `delete` with `table` and the `filters` of the rows.
- `write` with `table`, `options` and, if it replaces rows, the filters of those that are `overwritten`: the target has
  the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st

from lakelog.errors import AlreadyExists, InvalidArgument, NotFound
from lakelog.format.tables.table import TableInfo
from lakelog.options.values import ScanOptions
from lakelog.sdk.catalog import Catalog
from lakelog.spark.batch.table_write import write
from lakelog.spark.installation import Installation
from lakelog.spark.java.column_changes import to_column_change
from lakelog.spark.java.pushed_filters import to_exact_condition, to_value
from lakelog.spark.names.column_defaults import default_metadata
from lakelog.spark.names.new_tables import to_table_schema
from lakelog.spark.planning import find_table_and_levels, plan_read, resolve_spark_state
from lakelog.spark.source.options import SourceOptions
from lakelog.spark.source.system_reader import is_planned_as_system_table, plan_system_source
from lakelog.spark.types import to_spark_schema

PRIMARY_KEY: Final = "primary-key"
"""The property of a table of Spark that names its key, columns with commas."""

_RESERVED: Final = frozenset({"comment", "owner", "is_managed_location", "external", "table_type", "collation"})
"""Properties that Spark adds to those of a statement."""

Answer = dict[str, Any]
Call = Callable[[Any, Mapping[str, Any]], Answer]


class CatalogCalls:
    """Databases and tables of one installation.

    Args:
        installation: The installation.
        session_of: The session of Python for one of Java.
    """

    def __init__(self, installation: Installation, session_of: Callable[[Any], SparkSession]) -> None:
        self._installation = installation
        self._session_of = session_of
        self.calls: Final[Mapping[str, Call]] = {
            "databases": lambda _, given: {"names": self._catalog.databases()},
            "tables": lambda _, given: {"names": self._catalog.tables(given["database"])},
            "table": lambda _, given: self._describe(given["options"]),
            "create database": self._create_database,
            "drop database": self._drop_database,
            "create table": self._create_table,
            "alter table": self._alter_table,
            "drop table": lambda _, given: _done(self._catalog.drop_table(given["name"], if_exists=True)),
            "write": self._write,
            "delete": self._delete,
        }

    @property
    def _catalog(self) -> Catalog:
        return self._installation.catalog

    def _create_database(self, _: Any, given: Mapping[str, Any]) -> Answer:
        comment = given["comment"] or ""
        return _done(self._catalog.create_database(given["name"], if_not_exists=True, comment=comment))

    def _drop_database(self, _: Any, given: Mapping[str, Any]) -> Answer:
        return _done(self._catalog.drop_database(given["name"], if_exists=True, cascade=given["cascade"]))

    def _describe(self, given: Mapping[str, str]) -> Answer:
        options = SourceOptions.of(given)
        metastore = self._installation.metastore
        try:
            if is_planned_as_system_table(options.table):
                return self._describe_system_table(options)
            info, _ = find_table_and_levels(metastore, options.table)
        except NotFound:
            return {}
        state = resolve_spark_state(None, None, ScanOptions(options.others))
        schema = info.schema
        if state is not None:
            plan, _ = plan_read(metastore, info, state, None, time_zone="UTC")
            schema = plan.schema
        return {
            "schema": _with_comments_and_defaults(schema.arrow).json(),
            "partition_by": schema.partition_by,
            "properties": _to_properties(info),
        }

    def _describe_system_table(self, options: SourceOptions) -> Answer:
        returned = plan_system_source(self._installation.connection, options).returned
        return {"schema": to_spark_schema(returned, nullable=True).json(), "partition_by": [], "properties": {}}

    def _create_table(self, _: Any, given: Mapping[str, Any]) -> Answer:
        properties = dict(given["properties"])
        _check_provider(properties.pop("provider", None))
        if "location" in properties:
            raise InvalidArgument(
                f"The metastore chooses the place of a table's files. Leave LOCATION '{properties['location'][:200]}' "
                "out.",
                metadata={"field": "location"},
            )
        named = properties.pop(PRIMARY_KEY, None)
        primary_key = given.get("primary_key", [] if named is None else [part.strip() for part in named.split(",")])
        columns = st.StructType([_to_field(column) for column in given["columns"]])
        try:
            self._catalog.create_table(
                given["name"],
                to_table_schema(columns, primary_key),
                primary_key=primary_key,
                partition_by=given["partition_by"],
                options={key: value for key, value in properties.items() if key not in _RESERVED},
                comment=properties.get("comment") or "",
            )
        except AlreadyExists as error:
            if error.reason == "TABLE_EXISTS":
                return {"refused": ["table"]}
            raise
        except NotFound:
            return {"refused": ["database"]}
        return {"refused": [""]}

    def _alter_table(self, _: Any, given: Mapping[str, Any]) -> Answer:
        table = self._catalog.table(given["name"])
        columns = [to_column_change(each) for each in given["changes"] if "column" in each]
        options = {each["property"]: each.get("value") for each in given["changes"] if "property" in each}
        comment = options.pop("comment", None)
        if columns or comment is not None:
            table.alter(columns=columns, comment=comment)
        if options:
            table.alter(
                set={key: value for key, value in options.items() if value is not None},
                unset=[key for key, value in options.items() if value is None],
            )
        return {}

    def _write(self, target: Any, given: Mapping[str, Any]) -> Answer:
        rows = DataFrame(target.frame(), self._session_of(target.session()))
        replaced = given.get("overwritten")
        mode: Literal["append", "overwrite"] = "append" if replaced is None else "overwrite"
        partition = _to_partition(replaced or (), given["table"]) or None
        # Spark gives the rows of a static partition with its values as columns.
        if partition is not None:
            rows = rows.drop(*partition)
        write(rows, given["table"], mode=mode, partition=partition, options=given["options"])
        return {}

    def _delete(self, _: Any, given: Mapping[str, Any]) -> Answer:
        condition = to_exact_condition(given["filters"])
        if condition is None:
            raise InvalidArgument(
                f"A part of the condition for the rows to delete from {given['table']} has no certain meaning for "
                "lakelog. Give the statement to lakelog.spark.sql(spark, ...).",
                metadata={"table": given["table"]},
            )
        self._catalog.table(given["table"]).delete_where(condition)
        return {}


def _done(is_done: bool) -> Answer:
    return {"done": True} if is_done else {}


def _with_comments_and_defaults(schema: pa.Schema) -> st.StructType:
    plain = to_spark_schema(pa.schema([field.remove_metadata() for field in schema]), nullable=True)
    comments = [(field.metadata or {}).get(b"comment", b"").decode() for field in schema]
    return st.StructType(
        [
            st.StructField(
                each.name, each.dataType, True, ({"comment": comment} if comment else {}) | default_metadata(field)
            )
            for each, comment, field in zip(plain, comments, schema, strict=True)
        ]
    )


def _to_properties(info: TableInfo) -> dict[str, str]:
    found = dict(info.options) | {"provider": "lakelog", "location": info.location}
    if info.schema.primary_key:
        found[PRIMARY_KEY] = ",".join(info.schema.primary_key)
    if info.comment:
        found["comment"] = info.comment
    return found


def _check_provider(provider: str | None) -> None:
    # `saveAsTable` gives Spark's own default.
    if provider is not None and provider.lower() not in ("lakelog", "parquet"):
        raise InvalidArgument(
            f"A table of lakelog is not one of '{provider[:80]}'. Leave USING out, or write USING lakelog.",
            metadata={"field": "provider"},
        )


def _to_field(column: Mapping[str, Any]) -> st.StructField:
    metadata = {} if column["comment"] is None else {"comment": column["comment"]}
    data_type = st._parse_datatype_json_string(column["type"])
    return st.StructField(column["name"], data_type, column["nullable"], metadata)


def _to_partition(filters: Sequence[Any], table: str) -> dict[str, Any]:
    """The values of an overwritten partition; none: the whole table."""
    found: dict[str, Any] = {}
    for kind, *arguments in filters:
        if kind == "AlwaysTrue":
            continue
        if kind not in ("EqualTo", "EqualNullSafe"):
            raise InvalidArgument(
                f"An overwrite of {table} replaces partitions, by values of their columns; {kind} is no such "
                "condition.",
                metadata={"table": table},
            )
        found[arguments[0]["text"].strip("`")] = to_value(arguments[1])
    return found
