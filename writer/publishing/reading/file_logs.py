"""The rows of snapshots' logs, read from files and encoded.

The order is a function of the files alone (R4, `lakelog.reads.log.plan`). A row's index counts in this order through
the whole snapshot.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.client.metastore.metastore import Metastore
from lakelog.format.log.state import LogInfo
from lakelog.format.tables.snapshot import LogContent, Snapshot
from lakelog.format.tables.table import TableInfo, as_of
from lakelog.format.types.rowkind import ROW_KIND_COLUMN
from lakelog.format.types.schema import TableSchema
from lakelog.log.codecs import LogCodec
from lakelog.log.records import Kinds
from lakelog.log.table_codec import make_codec
from lakelog.reads.log.plan import has_topic_buckets, plan_log, to_topic_partition
from lakelog.storage.objects.stores import Stores
from lakelog.storage.parquet.data_files import DataFiles
from lakelog.storage.parquet.live_file import LiveFile
from lakelog.storage.parquet.own_columns import KIND_FIELD
from lakelog.storage.parquet.writer import plan_file_schema

from .snapshot_log import RecordChunk, SnapshotLog


@dataclass(frozen=True)
class _Codec:
    """How files are read and encoded in the records of snapshots with one schema."""

    fields: tuple[pa.Field, ...]
    key_fields: tuple[pa.Field, ...]
    encoder: LogCodec


class FileLogs:
    """Implements `SnapshotLogs`."""

    def __init__(self, metastore: Metastore, stores: Stores) -> None:
        self._metastore = metastore
        self._stores = stores

    def plan(self, info: LogInfo, snapshots: Sequence[Snapshot], partitions: int) -> Sequence[SnapshotLog]:
        """Implements `SnapshotLogs.plan`."""
        bringing = [snapshot.snapshot_id for snapshot in snapshots if _brings_rows(snapshot)]
        if not bringing:
            return [FileLog(snapshot, (), None) for snapshot in snapshots]
        found = plan_log(self._metastore, info.table_uuid, min(bringing) - 1, max(bringing))
        source = LogSource(
            found.table, found.file_schemas, DataFiles(self._stores.open(found.table.location)), partitions
        )
        files: dict[int, list[LiveFile]] = {}
        for chunk in found.chunks:
            files.setdefault(chunk.snapshot.snapshot_id, []).extend(chunk.files)
        wanted = set(bringing)
        return [
            FileLog(each, tuple(files.get(each.snapshot_id, ())) if each.snapshot_id in wanted else (), source)
            for each in snapshots
        ]


@dataclass(frozen=True)
class LogSource:
    """What the files of one plan have in common.

    Args:
        table: The table.
        schemas: The schemas of the snapshots, by id.
        files: Opens the files.
        partitions: The number of partitions of the topic.
    """

    table: TableInfo
    schemas: Mapping[int, TableSchema]
    files: DataFiles
    partitions: int

    @cached_property
    def has_buckets(self) -> bool:
        """Whether a bucket is a partition of the topic; otherwise any partition will do."""
        return has_topic_buckets(self.table)

    @cached_property
    def codecs(self) -> Mapping[int, _Codec]:
        """The codecs by the id of a snapshot's schema: a file may have been written with an earlier one."""
        return {schema_id: self._plan(schema) for schema_id, schema in self.schemas.items()}

    def _plan(self, schema: TableSchema) -> _Codec:
        stored = plan_file_schema(schema, with_row_kind=False)
        fields = (*stored, KIND_FIELD)
        key = set(schema.primary_key)
        key_fields = tuple(field for field in fields if field.name in key or field.name == ROW_KIND_COLUMN)
        return _Codec(fields, key_fields, make_codec(as_of(self.table, schema), schema))

    def partition_of(self, file: LiveFile) -> int:
        """The topic's partition that a file's rows go to."""
        return to_topic_partition(file, self.partitions, has_buckets=self.has_buckets)

    def read(self, file: LiveFile, fields: Sequence[pa.Field], first_row: int) -> Iterator[pa.Table]:
        """A file's rows from `first_row` on, in chunks; the row kinds are the last column."""
        with self.files.open(file) as reader:
            mapping = reader.map_columns(fields)
            starts = reader.row_group_starts
            first_group = int(np.searchsorted(starts, first_row, side="right")) - 1
            passed = int(starts[first_group])
            for batch in reader.read_batches(range(first_group, len(starts) - 1), mapping):
                skipped = max(0, min(batch.num_rows, first_row - passed))
                passed += batch.num_rows
                if skipped < batch.num_rows:
                    yield pa.Table.from_batches([batch.slice(skipped)])


@dataclass(frozen=True)
class FileLog:
    """Implements `SnapshotLog`.

    Args:
        snapshot: The snapshot.
        files: The files of its log, in the order of the log.
        source: What they have in common; None only without files.
    """

    snapshot: Snapshot
    files: tuple[LiveFile, ...]
    source: LogSource | None

    @property
    def row_count(self) -> int:
        """How many rows there are."""
        return sum(file.row_count for file in self.files)

    @property
    def size_bytes(self) -> int:
        """The stored size of its files."""
        return sum(file.size_bytes for file in self.files)

    def read(self, first_index: int) -> Iterator[RecordChunk]:
        """Implements `SnapshotLog.read`."""
        index = 0
        for _, group in itertools.groupby(self.files, lambda file: (file.bucket, file.partition)):
            files = list(group)
            count = sum(file.row_count for file in files)
            if index + count > first_index:
                yield from self._read_bucket(files, index, first_index)
            index += count

    def _read_bucket(self, files: Sequence[LiveFile], index: int, first_index: int) -> Iterator[RecordChunk]:
        """The records of one bucket of a partition, whose first row has the index `index`."""
        assert self.source is not None, "there are files"
        source = self.source
        codec = source.codecs[self.snapshot.schema_id]
        end = index + sum(file.row_count for file in files)
        followed = self._find_followed(files)
        held: pa.Table | None = None
        at = max(index, first_index)
        for file in files:
            for rows in source.read(file, codec.fields, max(0, first_index - index)):
                waiting = rows if held is None else pa.concat_tables([held, rows])
                has_all = at + waiting.num_rows == end
                held = None
                while waiting.num_rows:
                    chunk = codec.encoder.encode(
                        waiting.drop_columns([ROW_KIND_COLUMN]),
                        _to_kinds(waiting),
                        at,
                        partition=source.partition_of(file),
                        snapshot_id=self.snapshot.snapshot_id,
                        ts_ms=self.snapshot.committed_at_ms,
                        bucket=file.bucket if source.has_buckets else None,
                        is_last=has_all,
                        followed=None
                        if followed is None
                        else followed[at - (end - len(followed)) :][: waiting.num_rows],
                    )
                    if chunk.consumed == 0:
                        held = waiting
                        break
                    at += chunk.consumed
                    waiting = waiting.slice(chunk.consumed)
                    yield RecordChunk(chunk.records, at, _count_bytes(chunk.records.keys, chunk.records.values))
            index += file.row_count
        assert held is None, "the last piece leaves nothing"

    def _find_followed(self, files: Sequence[LiveFile]) -> npt.NDArray[np.bool_] | None:
        """For each row of a bucket whether a later one has its key, if that matters and neighbours cannot show it."""
        assert self.source is not None, "there are files"
        codec = self.source.codecs[self.snapshot.schema_id]
        if len(files) == 1 or not codec.encoder.needs_followed:
            return None
        keys = [
            rows.drop_columns([ROW_KIND_COLUMN])
            for file in files
            for rows in self.source.read(file, codec.key_fields, 0)
        ]
        return codec.encoder.find_followed(pa.concat_tables(keys))


def _brings_rows(snapshot: Snapshot) -> bool:
    """Whether there is anything to publish: rows that the writer sent before the commit are in the log (eventual)."""
    return snapshot.log is not LogContent.NONE and snapshot.sent_offsets is None


def _to_kinds(rows: pa.Table) -> Kinds:
    """The codes of rows' kinds; files with only +I rows have none."""
    return np.asarray(rows.column(ROW_KIND_COLUMN).combine_chunks().fill_null(0), np.int8)


def _count_bytes(*columns: pa.Array | None) -> int:
    return sum(column.nbytes for column in columns if column is not None)
