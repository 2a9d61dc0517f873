"""All system tables by name, and how their names are read."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lakelog.arguments import parse_table_name
from lakelog.errors import InvalidArgument, NotFound
from lakelog.format.tables.table import TableName
from lakelog.system_tables.declaration import Declaration, OfCatalog
from lakelog.system_tables.metadata.catalog_wide import ALL_CONSUMERS, ALL_TABLES, DATABASES, PIPELINES, SERVICES
from lakelog.system_tables.metadata.definition import OPTIONS, SCHEMAS
from lakelog.system_tables.metadata.files import BUCKETS, FILES, PARTITIONS
from lakelog.system_tables.metadata.job_runs import ALL_JOB_RUNS, JOB_RUNS
from lakelog.system_tables.metadata.jobs import ALL_JOBS, JOBS
from lakelog.system_tables.metadata.listings import SNAPSHOTS
from lakelog.system_tables.metadata.logs import ALL_LOGS, LOG
from lakelog.system_tables.metadata.retention import CONSUMERS, TAGS
from lakelog.system_tables.rows.changes import AUDIT_LOG, BINLOG, CHANGELOG
from lakelog.system_tables.rows.read_optimized import READ_OPTIMIZED

SYSTEM_DATABASE: Final = "sys"
"""The database of the catalog-wide tables; their names mean them even if a database has this name."""

MARK: Final = "$"
"""Between the name of a table and that of its system table; no table has it in its name."""

OF_TABLES: Final[Mapping[str, Declaration]] = {
    each.name: each
    for each in (
        SNAPSHOTS,
        SCHEMAS,
        OPTIONS,
        FILES,
        PARTITIONS,
        BUCKETS,
        TAGS,
        CONSUMERS,
        JOBS,
        JOB_RUNS,
        LOG,
        AUDIT_LOG,
        CHANGELOG,
        BINLOG,
        READ_OPTIMIZED,
    )
}
OF_CATALOGS: Final[Mapping[str, OfCatalog]] = {
    each.name: each
    for each in (DATABASES, ALL_TABLES, ALL_JOBS, ALL_JOB_RUNS, ALL_CONSUMERS, ALL_LOGS, SERVICES, PIPELINES)
}


@dataclass(frozen=True)
class SystemName:
    """The name of a system table.

    Args:
        declaration: Which one.
        table: The table that it belongs to; None: the catalog.
    """

    declaration: Declaration
    table: TableName | None

    def __str__(self) -> str:
        name = self.declaration.name
        return f"{SYSTEM_DATABASE}.{name}" if self.table is None else f"{self.table}{MARK}{name}"


def is_system_name(name: object) -> bool:
    """Whether a name `database.table` means a system table, known or not. Pure."""
    if not isinstance(name, str):
        return False
    return MARK in name or name.partition(".")[0].casefold() == SYSTEM_DATABASE


def parse_system_name(name: str) -> SystemName:
    """Reads `database.table$files` or `sys.tables`. Pure.

    Raises:
        InvalidArgument: It is no such name.
        NotFound: There is no such system table; names the nearest ones.
    """
    if not is_system_name(name):
        raise InvalidArgument(
            f"{name!r:.200} names no system table: write database.table{MARK}name, for instance "
            f"'shop.orders{MARK}files', or {SYSTEM_DATABASE}.name, for instance '{SYSTEM_DATABASE}.tables'.",
            metadata={"field": "name"},
        )
    base, mark, kind = name.partition(MARK)
    if not mark:
        return SystemName(find_catalog_wide(name.partition(".")[2]), None)
    return SystemName(find_of_table(base, kind), parse_table_name(base))


def find_of_table(table: str, kind: str) -> Declaration:
    """A system table of a table.

    Args:
        table: The table's name, for the message.
        kind: The part after the `$`.

    Raises:
        NotFound: There is no such system table; names the nearest ones.
    """
    found = OF_TABLES.get(kind.casefold())
    if found is None:
        raise _unknown(f"{table}{MARK}{kind}", kind, OF_TABLES, MARK)
    return found


def find_catalog_wide(kind: str) -> OfCatalog:
    """A catalog-wide table; raises as `find_of_table`."""
    found = OF_CATALOGS.get(kind.casefold())
    if found is None:
        raise _unknown(f"{SYSTEM_DATABASE}.{kind}", kind, OF_CATALOGS, f"{SYSTEM_DATABASE}.")
    return found


def refuse_write(name: object, how: str) -> None:
    """Refuses to change a system table.

    Args:
        name: The name that was given.
        how: What was tried, as `written`.

    Raises:
        InvalidArgument: It is a system table.
    """
    database, _, table = name.partition(".") if isinstance(name, str) else ("", "", "")
    if MARK in table or (database.casefold() == SYSTEM_DATABASE and table.casefold() in OF_CATALOGS):
        raise InvalidArgument(
            f"'{name!s:.200}' is a system table, which shows what lakelog knows and cannot be {how}. Name the table "
            "itself.",
            reason="SYSTEM_TABLE",
            metadata={"table": f"{name!s:.200}"},
        )


def _unknown(name: str, kind: str, known: Mapping[str, Declaration], prefix: str) -> NotFound:
    nearest = difflib.get_close_matches(kind.casefold()[:200], known, n=3, cutoff=0.5) or list(known)
    return NotFound(
        f"There is no system table '{name[:300]}'. Nearest are {', '.join(prefix + each for each in nearest)}.",
        reason="TABLE_NOT_FOUND",
        metadata={"table": name[:300]},
    )
