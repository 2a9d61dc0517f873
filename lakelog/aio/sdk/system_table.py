"""What lakelog knows of a table or of the catalog, as a table that can only be read.

`dev/aio_classes.py` writes this file from `lakelog.sdk.system_table`; change that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from lakelog.aio.scans import SystemScan
from lakelog.aio.wrapped import Wrapped
from lakelog.annotations import Condition, OptionValue, Parameters, TimeLike
from lakelog.sdk.system_table import SystemTable as BlockingSystemTable

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


class SystemTable(Wrapped[BlockingSystemTable]):
    """What lakelog knows of a table or of the catalog, as a table that can only be read."""

    @property
    def name(self) -> str:
        """Its full name: `database.table$files`, or `sys.tables`."""
        return self._blocking.name

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: Condition | None = None,
        limit: int | None = None,
        *,
        params: Parameters | None = None,
        snapshot_id: int | None = None,
        timestamp: TimeLike | None = None,
        tag: str | None = None,
        options: Mapping[str, OptionValue] | None = None,
    ) -> SystemScan:
        """Plans a read; the arguments are those of `Table.scan`.

        See `lakelog.SystemTable.scan`. It is planned when it is awaited, or first read.
        """
        return SystemScan(
            self._workers,
            lambda: self._blocking.scan(
                columns,
                filter,
                limit,
                params=params,
                snapshot_id=snapshot_id,
                timestamp=timestamp,
                tag=tag,
                options=options,
            ),
        )

    async def schema_at(
        self, snapshot_id: int | None = None, timestamp: TimeLike | None = None, tag: str | None = None
    ) -> pa.Schema:
        """Its columns at a state of the table; raises as `scan`.

        See `lakelog.SystemTable.schema_at`.
        """
        return await self._workers.read(lambda: self._blocking.schema_at(snapshot_id, timestamp, tag))

    async def count(self, filter: Condition | None = None, *, params: Parameters | None = None) -> int:
        """Counts its rows; arguments as of `scan`.

        See `lakelog.SystemTable.count`.
        """
        return await self._workers.read(lambda: self._blocking.count(filter, params=params))

    async def to_arrow(self) -> pa.Table:
        """All rows as a pyarrow table.

        See `lakelog.SystemTable.to_arrow`.
        """
        return await self._workers.read(lambda: self._blocking.to_arrow())

    async def to_pandas(self) -> pd.DataFrame:
        """All rows as a pandas data frame; needs pandas.

        See `lakelog.SystemTable.to_pandas`.
        """
        return await self._workers.read(lambda: self._blocking.to_pandas())

    async def to_polars(self) -> pl.DataFrame:
        """All rows as a polars data frame; needs polars.

        See `lakelog.SystemTable.to_polars`.
        """
        return await self._workers.read(lambda: self._blocking.to_polars())
