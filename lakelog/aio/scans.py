"""Reads of tables and of system tables, for asyncio."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

import pyarrow as pa

from lakelog.aio.workers import Workers
from lakelog.errors import InvalidArgument
from lakelog.reads.scan import Scan as BlockingScan
from lakelog.storage.parquet.read_counts import ReadMetrics
from lakelog.system_tables.scan import SystemScan as BlockingSystemScan

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


class BlockingRows(Protocol):
    """What both kinds of scans of the blocking SDK have in common."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result."""

    @property
    def snapshot_id(self) -> int:
        """The snapshot that is read."""

    @property
    def table_name(self) -> str:
        """The table that is read."""

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Reads the rows batch by batch; a generator."""

    def to_arrow(self) -> pa.Table:
        """Reads all rows."""

    def to_pandas(self) -> pd.DataFrame:
        """Reads all rows."""

    def to_polars(self) -> pl.DataFrame:
        """Reads all rows."""

    def count(self) -> int:
        """Counts the rows."""


R = TypeVar("R", bound=BlockingRows)


class PlannedRows(Generic[R]):
    """A read that is planned when it is awaited, or when it is first read; from then on its snapshot is fixed.

    `rows = await table.scan().to_arrow()` needs no plan of its own; `scan = await table.scan()` plans now, for its
    properties or to read it several times.

    Args:
        workers: The threads of the catalog.
        plan: Plans the read; blocks.
    """

    def __init__(self, workers: Workers, plan: Callable[[], R]) -> None:
        self._workers = workers
        self._plan = plan
        self._planning = threading.Lock()
        self._planned: R | None = None

    def __repr__(self) -> str:
        return "<a scan that is not planned yet: await it>" if self._planned is None else repr(self._planned)

    def __await__(self) -> Generator[Any, Any, Self]:
        return self._plan_now().__await__()

    async def _plan_now(self) -> Self:
        await self._workers.read(self._load)
        return self

    def _load(self) -> R:
        with self._planning:
            if self._planned is None:
                self._planned = self._plan()
            return self._planned

    @property
    def blocking(self) -> R:
        """The planned read of the blocking SDK.

        Raises:
            InvalidArgument: It is not planned yet.
        """
        if self._planned is None:
            raise InvalidArgument(
                "This scan is not planned yet, so its snapshot and columns are not known. Await it: "
                "scan = await table.scan(...)."
            )
        return self._planned

    @property
    def table_name(self) -> str:
        """The table that is read, `database.table`."""
        return self.blocking.table_name

    @property
    def snapshot_id(self) -> int:
        """The snapshot that is read, or the last of the range; 0 if there is none."""
        return self.blocking.snapshot_id

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result."""
        return self.blocking.schema

    async def to_batches(self) -> AsyncGenerator[pa.RecordBatch]:
        """Reads the rows batch by batch: `async for batch in scan.to_batches()`. Errors as of `lakelog.Scan`.

        No thread is held between two batches. Leave the loop early inside of `contextlib.aclosing`, so that the read
        ends at once.
        """
        in_turn = self._workers.in_turn()
        batches = await in_turn.read(lambda: iter(self._load().to_batches()))
        try:
            while (batch := await in_turn.read(lambda: next(batches, None))) is not None:
                yield batch
        finally:
            in_turn.forget(lambda: batches.close())  # type: ignore[attr-defined]

    async def to_arrow(self) -> pa.Table:
        """Reads all rows into one pyarrow table."""
        return await self._workers.read(lambda: self._load().to_arrow())

    async def to_pandas(self) -> pd.DataFrame:
        """Reads all rows into a pandas data frame; needs pandas."""
        return await self._workers.read(lambda: self._load().to_pandas())

    async def to_polars(self) -> pl.DataFrame:
        """Reads all rows into a polars data frame; needs polars."""
        return await self._workers.read(lambda: self._load().to_polars())

    async def count(self) -> int:
        """Counts the rows; opens no file if the metastore knows enough."""
        return await self._workers.read(lambda: self._load().count())


class Scan(PlannedRows[BlockingScan]):
    """The rows of a table at one snapshot, or what some snapshots changed; `Table.scan` and `Table.changes` make it."""

    @property
    def snapshot_uuid(self) -> str:
        """The uuid of that snapshot; empty if there is none."""
        return self.blocking.snapshot_uuid

    @property
    def watermark_ms(self) -> int | None:
        """The watermark of that snapshot, in milliseconds since the epoch; None if there is none."""
        return self.blocking.watermark_ms

    @property
    def skipped_snapshots(self) -> tuple[int, ...]:
        """Ids of the snapshots that overwrote rows, which the changes do not show; rising (semantics 5.2)."""
        return self.blocking.skipped_snapshots

    @property
    def metrics(self) -> ReadMetrics:
        """What was read so far, and what was skipped: files, row groups, bytes."""
        return self.blocking.metrics


class SystemScan(PlannedRows[BlockingSystemScan]):
    """The rows of a system table; `SystemTable.scan` makes it."""
