"""Tables of many files that exist in the metastore only, and plans of them: for W10 and W13."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bench.measure import WrongAnswerError
from lakelog.format.commit.request import Change, CommitRequest
from lakelog.format.keys.encoding import encode_key, encode_partition
from lakelog.format.tables.files import DataFile
from lakelog.format.tables.plan import PlanRequest
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.format.tables.table import TableName
from metastore.ownership import EVERYONE
from metastore.plans.entries import read_entries
from metastore.use_cases import UseCases

DATABASE: Final = "bench"
BUCKETS: Final = 16
FILES_PER_DAY: Final = 1000
"""A partition is as large in a large table as in a small one."""
FILES_PER_COMMIT: Final = 2000
_SCHEMA = pa.schema([("day", pa.int32()), ("id", pa.int64()), ("v", pa.string())])
_IN_FLIGHT: Final = 200


@dataclass
class PlannedTable:
    """A table without data, partitioned by day, of 16 buckets; its commits come from one writer, one after the other.

    Args:
        use_cases: What is measured.
        table_uuid: The table.
        files: How many files were added, all of which are live.
        snapshots: How many snapshots there are.
        writer: The writer's name.
        files_per_day: Files of a partition.
    """

    use_cases: UseCases
    table_uuid: str
    files: int = 0
    snapshots: int = 0
    writer: str = "w"
    files_per_day: int = FILES_PER_DAY

    async def add_files(self, count: int) -> None:
        """Commits new files, none of them in a partition that is full.

        Raises:
            WrongAnswerError: The commit did not make the next snapshot.
        """
        attempt = (await self.use_cases.staging.stage_attempt([self.table_uuid], self.writer, by=EVERYONE)).attempt_id
        files = tuple(_file(attempt, self.files + number, self.files_per_day) for number in range(count))
        change = Change(self.table_uuid, SnapshotKind.APPEND, 0, BUCKETS, files)
        result = await self.use_cases.gate.commit(
            CommitRequest(self.writer, self.snapshots, (change,), attempt), by=EVERYONE
        )
        self.files += count
        self.snapshots += 1
        found = [change.snapshot_id for change in result.results]
        if found != [self.snapshots]:
            raise WrongAnswerError(f"a commit made the snapshots {found}, not {self.snapshots}")

    async def add_empty_snapshots(self, count: int) -> None:
        """Commits snapshots without files, many at a time."""
        for first in range(self.snapshots, self.snapshots + count, _IN_FLIGHT):
            identifiers = range(first, min(first + _IN_FLIGHT, self.snapshots + count))
            await asyncio.gather(*[self._add_empty_snapshot(identifier) for identifier in identifiers])
        self.snapshots += count

    async def _add_empty_snapshot(self, identifier: int) -> None:
        change = Change(self.table_uuid, SnapshotKind.APPEND, 0, BUCKETS, allow_empty=True)
        # Of as many writers as there are commits: those of one writer would have to wait for each other.
        await self.use_cases.gate.commit(
            CommitRequest(f"{self.writer}-{identifier}", identifier, (change,)), by=EVERYONE
        )

    async def fill(self, count: int) -> None:
        """Adds files in large commits, and packs them as the metastore does by itself."""
        while count > 0:
            await self.add_files(min(FILES_PER_COMMIT, count))
            count -= FILES_PER_COMMIT
            while await self.use_cases.packer.step():
                pass


async def create_planned_table(use_cases: UseCases, name: str) -> PlannedTable:
    """A new table in the database `bench`, which must be there."""
    info, _ = await use_cases.catalog.create_table(
        TableName(DATABASE, name),
        _SCHEMA,
        primary_key=["day", "id"],
        partition_by=["day"],
        options={"bucket": str(BUCKETS)},
        by=EVERYONE,
    )
    return PlannedTable(use_cases, info.table_uuid)


def encode_day(day: int) -> bytes:
    """A partition."""
    return encode_partition([pa.scalar(day, pa.int32())])


async def plan_file_ids(use_cases: UseCases, request: PlanRequest) -> npt.NDArray[np.int64]:
    """Ids of the files of a plan, in rising order."""
    plan = await use_cases.planner.plan(request)
    found, without = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    async for chunk in plan.chunks:
        found.append(read_entries(chunk.entries).column("file_id").to_numpy())
        without.append(np.array(chunk.without_file_ids, np.int64))
    return np.setdiff1d(np.concatenate(found), np.concatenate(without))


async def send_plan(use_cases: UseCases, request: PlanRequest) -> None:
    """A plan until its last part could be sent."""
    plan = await use_cases.planner.plan(request)
    async for _ in plan.chunks:
        pass


def _file(attempt: str, number: int, files_per_day: int) -> DataFile:
    return DataFile(
        path=f"data/{attempt}/{uuid.uuid4().hex}.parquet",
        partition=encode_day(number // files_per_day),
        bucket=number % BUCKETS,
        level=0,
        row_count=1000,
        delete_count=0,
        size_bytes=100_000,
        min_key=encode_key([pa.scalar(number * 10)]),
        max_key=encode_key([pa.scalar(number * 10 + 9)]),
        schema_id=0,
    )
