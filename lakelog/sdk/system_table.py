"""System tables as a user of the SDK holds them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakelog.annotations import Condition, OptionValue, Parameters, TimeLike
from lakelog.context import Context
from lakelog.format.tables.table import TableInfo
from lakelog.frames.html_table import FIRST_ROWS, show_first
from lakelog.reads.reading import resolve_state
from lakelog.sdk.conditions import to_condition
from lakelog.system_tables.registry import SystemName
from lakelog.system_tables.scan import SystemScan, check_past, plan_system_scan
from lakelog.system_tables.states import plan_without_files

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


class SystemTable:
    """What lakelog knows of a table or of the catalog, as a table that can only be read.

    `Table.system_table` and `Catalog.system_table` make it. The page docs/system-tables.md has all with their columns.

    Args:
        context: The metastore, stores, caches and clock.
        name: The system table.
        find: Returns the table that it belongs to, as it is now; None: it belongs to the catalog.
    """

    def __init__(self, context: Context, name: SystemName, find: Callable[[], TableInfo] | None) -> None:
        self._context = context
        self._name = name
        self._find = find

    def __repr__(self) -> str:
        return f"<system table {self.name}>"

    @property
    def name(self) -> str:
        """Its full name: `database.table$files`, or `sys.tables`."""
        return str(self._name)

    @property
    def schema(self) -> pa.Schema:
        """Its columns; asks the metastore if they depend on the table."""
        info = self._load()
        return self._name.declaration.to_schema(None if info is None else info.schema)

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: Condition | None = None,  # noqa: A002
        limit: int | None = None,
        *,
        params: Parameters | None = None,
        snapshot_id: int | None = None,
        timestamp: TimeLike | None = None,
        tag: str | None = None,
        options: Mapping[str, OptionValue] | None = None,
    ) -> SystemScan:
        """Plans a read; the arguments are those of `Table.scan`.

        Only what the columns and the condition need is requested. `$files`, `$partitions`, `$buckets` and `$ro` show an
        earlier state by `snapshot_id`, `timestamp` or `tag`; `$audit_log`, `$changelog` and `$binlog` the changes up to
        it, or those of the option `incremental-between`.

        Raises:
            InvalidArgument: An argument is not possible; named, with the remedy.
            NotFound: There is no such snapshot or tag, or the table was dropped.
            SnapshotExpired: The snapshot is no longer kept.
        """
        return plan_system_scan(
            self._context,
            self._name,
            self._load(),
            columns=columns,
            filter=to_condition(filter, params),
            limit=limit,
            snapshot_id=snapshot_id,
            timestamp=timestamp,
            tag=tag,
            options=options,
        )

    def schema_at(
        self, snapshot_id: int | None = None, timestamp: TimeLike | None = None, tag: str | None = None
    ) -> pa.Schema:
        """Its columns at a state of the table; raises as `scan`."""
        state = resolve_state(snapshot_id, timestamp, None, tag)
        check_past(self._name, state)
        info = self._load()
        if state is None or info is None:
            return self._name.declaration.to_schema(None if info is None else info.schema)
        return self._name.declaration.to_schema(plan_without_files(self._context.metastore, info, state).schema)

    def count(self, filter: Condition | None = None, *, params: Parameters | None = None) -> int:  # noqa: A002
        """Counts its rows; arguments as of `scan`."""
        return self.scan(None if filter is None else [], filter, params=params).count()

    def to_arrow(self) -> pa.Table:
        """All rows as a pyarrow table."""
        return self.scan().to_arrow()

    def to_pandas(self) -> pd.DataFrame:
        """All rows as a pandas data frame; needs pandas."""
        return self.scan().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """All rows as a polars data frame; needs polars."""
        return self.scan().to_polars()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        """All rows as an Arrow stream."""
        return self.scan().__arrow_c_stream__(requested_schema)

    def _repr_html_(self) -> str:
        """The first rows, for notebooks; never fails."""
        return show_first(lambda: self.scan(limit=FIRST_ROWS), repr(self))

    def _load(self) -> TableInfo | None:
        return None if self._find is None else self._find()
