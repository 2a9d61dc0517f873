"""The options of `format("lakelog")`: those of the source itself, and those of the table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lakelog.errors import InvalidArgument
from lakelog.options.declared.reads_and_writes import MERGE_SCHEMA
from lakelog.options.declared.spark_streams import METADATA_COLUMNS
from lakelog.options.values import WriteOptions
from lakelog.system_tables.registry import is_system_name, parse_system_name
from lakelog.system_tables.rows.changes import AUDIT_LOG, CHANGELOG

_OWN_OPTIONS: Final = frozenset(
    {"table", "columns", "filter", "partition", "mode", "checkpointlocation", "path", "queryname"}
)

_SPARKS_NAMES: Final = {"mergeschema": MERGE_SCHEMA.key}
"""Options that Spark's other sources know by another name."""

STREAM_MARK: Final = "lakelog-stream"
"""The option that marks a read of a stream, which Spark does not do when it asks for the columns."""


@dataclass(frozen=True)
class SourceOptions:
    """The options of a read or write, by purpose. Keys arrive in lower case, like lakelog's own."""

    table: str
    columns: tuple[str, ...] | None
    filter: str | None
    partition: str | None
    checkpoint: str | None
    is_stream: bool
    others: Mapping[str, str]
    leading: tuple[str, ...] = ()
    """For a stream of a system table: the columns that come before those of the table."""

    @staticmethod
    def of(given: Mapping[str, str]) -> SourceOptions:
        """Sorts the options of a query; raises InvalidArgument if the table is missing."""
        options = {_SPARKS_NAMES.get(key.lower(), key.lower()): value for key, value in given.items()}
        table = options.get("table")
        if table is None:
            hint = f" (in load() and save() stood '{options['path'][:200]}')" if options.get("path") else ""
            raise InvalidArgument(
                f"The option 'table' is missing{hint}: .option('table', 'database.table').",
                metadata={"option": "table"},
            )
        columns = _read_columns(options.get("columns"))
        leading: tuple[str, ...] = ()
        if STREAM_MARK in options and is_system_name(table):
            table, leading = _take_stream(table)
            options[METADATA_COLUMNS.key] = ",".join(leading)
            columns = None if columns is None else tuple(name for name in columns if name not in leading)
        return SourceOptions(
            table,
            columns,
            options.get("filter"),
            options.get("partition"),
            options.get("checkpointlocation"),
            STREAM_MARK in options,
            {key: value for key, value in options.items() if key not in {*_OWN_OPTIONS, STREAM_MARK}},
            leading,
        )

    @property
    def write(self) -> WriteOptions:
        """The options of a write, checked on access."""
        return WriteOptions(self.others)


def _take_stream(name: str) -> tuple[str, tuple[str, ...]]:
    """The table whose stream a system table shows, and the columns that it adds.

    Raises:
        InvalidArgument: The system table is no stream.
    """
    found = parse_system_name(name)
    if found.declaration not in (AUDIT_LOG, CHANGELOG):
        raise InvalidArgument(
            f"'{found}' cannot be read as a stream: only ${AUDIT_LOG.name} and ${CHANGELOG.name} can. Read it with "
            "spark.read, or stream one of them.",
            reason="SYSTEM_TABLE",
            metadata={"table": str(found)},
        )
    return str(found.table), tuple(column.name for column in found.declaration.columns)


def _read_columns(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    if not text.lstrip().startswith("["):
        return tuple(part.strip() for part in text.split(","))
    try:
        return tuple(json.loads(text))
    except ValueError as error:
        raise InvalidArgument(
            f'Option \'columns\' is no JSON list: {error}. Write names with commas, or a list such as ["id", "a,b"].',
            metadata={"option": "columns"},
        ) from error
