"""A reader of many snapshots that goes on as it began while the table's columns change."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from lakelog.errors import HistoryDiverged, InvalidArgument
from lakelog.format.filter.condition import parse_filter
from lakelog.format.tables.plan import Plan
from lakelog.format.tables.snapshot import Snapshot
from lakelog.format.tables.table import TableInfo, as_of
from lakelog.format.types.continued_schema import continue_schema, find_breaks
from lakelog.format.types.schema import TableSchema

COLUMNS_CHANGED: Final = "COLUMNS_CHANGED"
"""The reason of the error that ends a stream whose columns were dropped or have other types."""

_MAX_LINES: Final = 20


@dataclass(frozen=True)
class ContinuedColumns:
    """What a reader shows of a table, as it was when it began.

    Args:
        table: The table at that time.
        shown: Names of the columns that it returns or compares with.
        remedy: How a reader of this kind goes on after a change that ends it, as a sentence; `{}` is the first snapshot
            that it has not shown.
    """

    table: TableInfo
    shown: frozenset[str]
    remedy: str
    _compared: set[str] = field(default_factory=set, compare=False, repr=False)
    """Digests of versions in whose history the reader's own one is."""

    def apply(self, plan: Plan, load_versions: Callable[[], Sequence[TableSchema]]) -> Plan:
        """A plan with the columns that the reader began with, and options that name them so.

        Args:
            plan: Of a state with its schema, or of a range with the present one.
            load_versions: Returns all versions of the schema; called once for each present one, and if that
                would end the reader.

        Raises:
            InvalidArgument: A column is not there any more in a snapshot of the plan, or has another type.
            HistoryDiverged: The database was set back to before the version that the reader began with.
        """
        digest = plan.schema.digest
        if digest != self.table.schema.digest and digest not in self._compared:
            self._check_history(load_versions())
            self._compared.add(digest)
        # What was dropped or widened stays so: a version without breaks has none before it.
        if self.find_breaks(plan.schema):
            at = plan.range_snapshots or (() if plan.snapshot is None else (plan.snapshot,))
            self.check(at, {version.schema_id: version for version in load_versions()})
        schema = self.to_schema(plan.schema)
        return dataclasses.replace(plan, schema=schema, table=as_of(plan.table, schema))

    def to_schema(self, later: TableSchema) -> TableSchema:
        """The schema to read with where the table has this one. Pure."""
        began = self.table.schema
        return began if later.schema_id <= began.schema_id else continue_schema(began, later, self.shown)

    def find_breaks(self, later: TableSchema) -> list[str]:
        """What a version of the schema no longer has of the shown columns: a line a column. Pure."""
        began = self.table.schema
        return [] if later.schema_id <= began.schema_id else find_breaks(began, later, self.shown)

    def check(self, snapshots: Sequence[Snapshot], schemas: Mapping[int, TableSchema]) -> None:
        """Raises InvalidArgument for the first of some snapshots whose columns end the reader. Pure."""
        seen = self.table.schema.schema_id
        for snapshot in snapshots:
            if snapshot.schema_id <= seen:
                continue
            seen = snapshot.schema_id
            if breaks := self.find_breaks(schemas[seen]):
                raise self._to_end(snapshot.snapshot_id - 1, breaks)

    def _check_history(self, versions: Sequence[TableSchema]) -> None:
        began = self.table.schema
        if any(each.schema_id == began.schema_id and each.digest == began.digest for each in versions):
            return
        raise HistoryDiverged(
            f"The columns that the stream of {self.table.name} began with, schema {began.schema_id}, are not in the "
            "table's history: the metastore was restored to an earlier state, and numbers of columns may mean other "
            "ones by now. Start the stream anew.",
            metadata={"table": str(self.table.name), "schema_id": str(began.schema_id)},
        )

    def _to_end(self, until: int, breaks: Sequence[str]) -> InvalidArgument:
        lines = [f"  {line}" for line in breaks[:_MAX_LINES]]
        if len(breaks) > _MAX_LINES:
            lines.append(f"  and {len(breaks) - _MAX_LINES} more")
        listed = "\n".join(lines)
        return InvalidArgument(
            f"The stream of {self.table.name} has shown everything up to snapshot {until}, and ends there, because "
            f"columns that it shows or compares with were changed before the next one:\n{listed}\n"
            f"{self.remedy.format(until + 1)}",
            reason=COLUMNS_CHANGED,
            metadata={
                "table": str(self.table.name),
                "snapshot_id": str(until),
                "columns": ", ".join(line.partition(":")[0] for line in breaks)[:500],
            },
        )


def find_shown(table: TableInfo, columns: Sequence[str] | None, condition: str | None) -> frozenset[str]:
    """Names of the table's columns that a reader returns or compares with. Pure.

    Args:
        table: The table.
        columns: Those to return; None: all of the table. Others than the table's do not count.
        condition: The condition of the rows; None: none.
    """
    names = table.schema.arrow.names
    if columns is None:
        return frozenset(names)
    compared = () if condition is None else parse_filter(condition, table.schema.arrow).columns
    return frozenset(names) & {*columns, *compared}
