"""The rows that snapshots bring to a table's log, with just enough detail to check that they are there."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.client.metastore.metastore import Metastore
from lakelog.format.keys.codes import find_key_codes
from lakelog.format.log.state import LogInfo
from lakelog.format.tables.snapshot import LogContent
from lakelog.format.types.rowkind import RowKind
from lakelog.log.tally import SnapshotRows
from lakelog.reads.log.plan import LogChunk, has_topic_buckets, plan_log
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.parquet.data_files import DataFiles
from lakelog.storage.parquet.live_file import LiveFile
from lakelog.storage.parquet.own_columns import KIND_FIELD

_SNAPSHOTS_A_PLAN: Final = 1000

Kinds = npt.NDArray[np.int8]
Codes = npt.NDArray[np.int64]


def load_rows(
    metastore: Metastore, info: LogInfo, store: ObjectStore, after: int, until: int, *, keeps_last: bool
) -> dict[int, SnapshotRows]:
    """Returns the log rows of the snapshots after `after` up to and including `until`, by snapshot; blocks.

    Args:
        metastore: Knows the snapshots.
        info: The log.
        store: Has their files. Row kinds are read if not all rows are +I.
        after: A snapshot; 0: none.
        until: The last one.
        keeps_last: Find out which rows are the last of their keys; this also reads the keys.
    """
    files = DataFiles(store)
    found: dict[int, SnapshotRows] = {}
    codes: dict[int, Codes] = {}
    gone: dict[int, npt.NDArray[np.bool_]] = {}
    while after < until:
        plan = plan_log(metastore, info.table_uuid, after, min(until, after + _SNAPSHOTS_A_PLAN))
        has_buckets = has_topic_buckets(plan.table)
        chunks: dict[int, list[LogChunk]] = {}
        for chunk in plan.chunks:
            chunks.setdefault(chunk.snapshot.snapshot_id, []).append(chunk)
        key = [plan.schema.arrow.field(name) for name in plan.schema.primary_key] if keeps_last else []
        for snapshot in plan.snapshots:
            if snapshot.log is LogContent.NONE:
                continue
            mine = chunks.get(snapshot.snapshot_id, [])
            kinds, own_codes = _read_all(files, mine, key)
            partitions = _find_partitions(mine) if has_buckets else None
            has_record = kinds != RowKind.UPDATE_BEFORE.value
            found[snapshot.snapshot_id] = SnapshotRows(snapshot.snapshot_uuid, has_record, partitions)
            if key:
                codes[snapshot.snapshot_id] = own_codes
                gone[snapshot.snapshot_id] = np.isin(kinds, (RowKind.UPDATE_BEFORE.value, RowKind.DELETE.value))
        if not plan.snapshots:
            # The next snapshot still waits for its changelog, so it is not published either.
            break
        after = plan.snapshots[-1].snapshot_id
    if codes:
        for snapshot_id, is_last in find_last(codes).items():
            found[snapshot_id] = replace(found[snapshot_id], stays=is_last & ~gone[snapshot_id])
    return found


def find_last(codes: dict[int, Codes]) -> dict[int, npt.NDArray[np.bool_]]:
    """Returns for each row, by snapshot, whether no later row has the same key. Pure.

    Args:
        codes: Codes of the keys of each snapshot's rows; snapshots and rows are in order.
    """
    every = np.concatenate(list(codes.values()))
    is_last = np.zeros(len(every), np.bool_)
    is_last[len(every) - 1 - np.unique(every[::-1], return_index=True)[1]] = True
    ends = np.cumsum([len(each) for each in codes.values()])
    return dict(zip(codes, np.split(is_last, ends[:-1]), strict=True))


def _find_partitions(chunks: list[LogChunk]) -> npt.NDArray[np.int32]:
    if not chunks:
        return np.zeros(0, np.int32)
    return np.concatenate([np.full(chunk.row_count, chunk.bucket, np.int32) for chunk in chunks])


def _read_all(files: DataFiles, chunks: list[LogChunk], key: list[pa.Field]) -> tuple[Kinds, Codes]:
    """The kinds of a snapshot's rows, and the codes of their keys if requested."""
    parts = [_read(files, file, key) for chunk in chunks for file in chunk.files]
    if not parts:
        return np.zeros(0, np.int8), np.zeros(0, np.int64)
    return np.concatenate([kinds for kinds, _ in parts]), np.concatenate([codes for _, codes in parts])


def _read(files: DataFiles, file: LiveFile, key: list[pa.Field]) -> tuple[Kinds, Codes]:
    fields = [*key, *([KIND_FIELD] if file.delete_count else [])]
    inserts = np.full(file.row_count, RowKind.INSERT.value, np.int8)
    if not fields:
        return inserts, np.zeros(0, np.int64)
    with files.open(file) as reader:
        mapping = reader.map_columns(fields)
        groups = range(len(reader.row_group_starts) - 1)
        rows = pa.Table.from_batches(list(reader.read_batches(groups, mapping)))
    kinds = np.asarray(rows.column(KIND_FIELD.name).fill_null(0), np.int8) if file.delete_count else inserts
    codes = find_key_codes([rows.column(field.name) for field in key]) if key else np.zeros(0, np.int64)
    return kinds, codes
