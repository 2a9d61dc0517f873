"""The use cases as the server calls them: the methods of `lakelog.client.metastore.Metastore`, asynchronous."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from lakelog.client.metastore import SnapshotPage, WatchEvent, WatchPosition
from lakelog.format.commit import CommitRequest, CommitResult, WriterProgress
from lakelog.format.plan import PlanRequest
from lakelog.format.schema import TableSchema
from lakelog.format.snapshot import Snapshot
from lakelog.format.table import DatabaseInfo, TableInfo, TableName
from lakelog.format.work import LeaseGrant, Pipeline


class PlanChunk(Protocol):
    """A part of a plan's files: an Arrow IPC stream, and ids of files that the plan does not hold."""

    @property
    def entries(self) -> bytes:
        """Entries with the columns of `lakelog.format.files.FILE_SCHEMA`."""
        ...

    @property
    def without_file_ids(self) -> tuple[int, ...]:
        """Files of this or other chunks that the plan does not hold."""
        ...


class PlanStream(Protocol):
    """A plan: what it is of, and its chunks one after the other."""

    @property
    def table(self) -> TableInfo:
        """The table, as it is now."""
        ...

    @property
    def schema(self) -> TableSchema:
        """What to read with."""
        ...

    @property
    def file_schemas(self) -> Mapping[int, TableSchema]:
        """Every schema that a file was written with, by id."""
        ...

    @property
    def snapshot(self) -> Snapshot | None:
        """What is read; None for a table without snapshots."""
        ...

    @property
    def range_snapshots(self) -> tuple[Snapshot, ...]:
        """With a range: its snapshots in rising order."""
        ...

    @property
    def chunks(self) -> AsyncIterator[PlanChunk]:
        """The files; may be iterated once."""
        ...


class UseCases(Protocol):
    """All that the metastore does. Methods raise only errors of `lakelog.errors`.

    A commit takes its place in the order before `commit` first waits for anything, and goes on when its caller is
    cancelled.
    """

    async def create_database(self, name: str, *, if_not_exists: bool = False, comment: str = "") -> bool: ...  # noqa: D102
    async def list_databases(self) -> list[DatabaseInfo]: ...  # noqa: D102
    async def drop_database(self, name: str, *, if_exists: bool = False, cascade: bool = False) -> bool: ...  # noqa: D102
    async def create_table(  # noqa: D102
        self,
        name: TableName,
        schema: pa.Schema,
        *,
        primary_key: Sequence[str] = (),
        partition_by: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        if_not_exists: bool = False,
        comment: str = "",
    ) -> tuple[TableInfo, bool]: ...
    async def get_table(self, name: TableName) -> TableInfo: ...  # noqa: D102
    async def get_table_by_uuid(self, table_uuid: str) -> TableInfo: ...  # noqa: D102
    async def list_tables(self, database: str) -> list[str]: ...  # noqa: D102
    async def alter_table(  # noqa: D102
        self, table_uuid: str, *, set_options: Mapping[str, str], unset_options: Sequence[str]
    ) -> TableInfo: ...
    async def drop_table(self, name: TableName, *, if_exists: bool = False) -> bool: ...  # noqa: D102
    async def list_schemas(self, table_uuid: str) -> list[TableSchema]: ...  # noqa: D102
    async def stage_attempt(self, table_uuids: Sequence[str], writer: str) -> str: ...  # noqa: D102
    async def abandon_attempt(self, attempt_id: str) -> None: ...  # noqa: D102
    async def register_writer(self, writer: str) -> int: ...  # noqa: D102
    async def get_writer_progress(self, writer: str, table_uuid: str) -> WriterProgress: ...  # noqa: D102
    async def commit(self, request: CommitRequest) -> CommitResult: ...  # noqa: D102
    async def list_snapshots(  # noqa: D102
        self, table_uuid: str, *, after: int = 0, until: int = 0, limit: int = 0, newest: bool = False
    ) -> SnapshotPage: ...
    async def plan(self, request: PlanRequest) -> PlanStream: ...  # noqa: D102
    def watch(self, positions: Sequence[WatchPosition]) -> AsyncIterator[WatchEvent]: ...  # noqa: D102
    async def acquire_lease(self, name: str, holder: str, duration_ms: int) -> LeaseGrant: ...  # noqa: D102
    async def renew_lease(self, name: str, epoch: int, duration_ms: int) -> int: ...  # noqa: D102
    async def release_lease(self, name: str, epoch: int) -> None: ...  # noqa: D102
    async def report_pipeline(self, pipeline: Pipeline, epoch: int) -> None: ...  # noqa: D102
    async def list_pipelines(self) -> list[Pipeline]: ...  # noqa: D102
