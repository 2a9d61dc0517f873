"""Snapshots and files as tables for people and programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa

from lakelog.client.metastore.metastore import Metastore, SnapshotPage
from lakelog.errors import DataCorrupted, NotFound
from lakelog.format.keys.encoding import decode_key, decode_partition
from lakelog.format.tables.plan import Plan
from lakelog.format.tables.snapshot import Snapshot
from lakelog.format.types.schema import TableSchema
from lakelog.format.types.time_text import to_time_texts

SNAPSHOT_COLUMNS: Final = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("committed_at", pa.timestamp("ms", "UTC"), nullable=False),
        pa.field("watermark", pa.int64()),
        pa.field("schema_id", pa.int32(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("added_rows", pa.int64(), nullable=False),
        pa.field("writer", pa.string(), nullable=False),
        pa.field("identifier", pa.int64(), nullable=False),
        pa.field("properties", pa.map_(pa.string(), pa.string()), nullable=False),
        pa.field("log_offsets", pa.list_(pa.int64())),
    ]
)


_PAGE: Final = 10_000
"""Snapshots that the metastore returns at once, at most."""


def list_snapshots(metastore: Metastore, table_uuid: str, limit: int | None) -> list[Snapshot]:
    """Lists a table's snapshots, oldest first; with a limit only the newest ones."""
    if limit is not None and limit <= _PAGE:
        newest = metastore.list_snapshots(table_uuid, limit=max(limit, 1), newest=True)
        return _leave_out_expired(newest.snapshots[len(newest.snapshots) - limit :], newest) if limit else []
    found: list[Snapshot] = []
    after = 0
    while True:
        page = metastore.list_snapshots(table_uuid, after=after, limit=_PAGE)
        found.extend(_leave_out_expired(page.snapshots, page))
        if not page.snapshots or page.snapshots[-1].snapshot_id >= page.latest_snapshot_id:
            return found if limit is None else found[-limit:]
        after = page.snapshots[-1].snapshot_id


def _leave_out_expired(snapshots: Sequence[Snapshot], page: SnapshotPage) -> list[Snapshot]:
    """Keeps only snapshots whose state can be read; of the others only the changelog is left."""
    return [each for each in snapshots if each.snapshot_id >= page.earliest_snapshot_id]


def list_log_offsets(
    metastore: Metastore, table_uuid: str, snapshots: Sequence[Snapshot]
) -> dict[int, tuple[int, ...]]:
    """Returns where some snapshots (rising) end in the external log, by snapshot; unknown ends are left out.

    Snapshots that add nothing to the log do not show whether the table has one: all can be compactions.
    """
    found: dict[int, tuple[int, ...]] = {}
    if not snapshots:
        return found
    after, until = snapshots[0].snapshot_id - 1, snapshots[-1].snapshot_id
    while True:
        try:
            page = metastore.list_log_offsets(table_uuid, after=after, until=until, limit=_PAGE)
        except NotFound as error:
            if error.reason != "LOG_NOT_FOUND":
                raise
            return {}
        found.update((each.snapshot_id, each.offsets) for each in page)
        if len(page) < _PAGE:
            return found
        after = page[-1].snapshot_id


def to_snapshots_table(snapshots: Sequence[Snapshot], log_offsets: Mapping[int, Sequence[int]]) -> pa.Table:
    """Returns one row per snapshot, with `SNAPSHOT_COLUMNS`. Pure."""
    rows = [
        {
            "id": each.snapshot_id,
            "kind": each.kind.value,
            "committed_at": each.committed_at_ms,
            "watermark": each.watermark_ms,
            "schema_id": each.schema_id,
            "rows": each.total_rows,
            "added_rows": each.added_rows,
            "writer": each.writer,
            "identifier": each.identifier,
            "properties": list(each.properties.items()),
            "log_offsets": log_offsets.get(each.snapshot_id),
        }
        for each in snapshots
    ]
    return pa.Table.from_pylist(rows, schema=SNAPSHOT_COLUMNS)


def to_files_table(plan: Plan) -> pa.Table:
    """Returns one row per file of a plan; see `lakelog.Table.files`. Pure."""
    files = plan.files
    schema = plan.schema
    columns = {
        "path": files.column("path"),
        "partition": _to_partitions(files.column("partition"), schema),
        "bucket": files.column("bucket"),
        "level": files.column("level"),
        "rows": files.column("row_count"),
        "bytes": files.column("size_bytes"),
        "min_key": _to_keys(files.column("min_key"), schema),
        "max_key": _to_keys(files.column("max_key"), schema),
        "added_snapshot": files.column("added_snapshot"),
    }
    return pa.table(columns)


def _to_partitions(encoded: pa.ChunkedArray, schema: TableSchema) -> pa.Array:
    if not schema.partition_by:
        return pa.nulls(len(encoded))
    fields = [schema.arrow.field(name).remove_metadata().with_nullable(True) for name in schema.partition_by]
    types = [field.type for field in fields]
    # There are many files and few partitions, so each partition is decoded once.
    numbered = encoded.combine_chunks().dictionary_encode()
    distinct = [decode_partition(value, types) for value in numbered.dictionary.to_pylist()]
    columns = [
        pa.array([values[place] for values in distinct], field.type).take(numbered.indices)
        for place, field in enumerate(fields)
    ]
    return pa.StructArray.from_arrays(columns, fields=fields)


def _to_keys(encoded: pa.ChunkedArray, schema: TableSchema) -> pa.Array:
    types = [schema.arrow.field(name).type for name in schema.trimmed_key]
    return pa.array([_to_text(value, types) for value in encoded.to_pylist()], pa.string())


def _value_text(value: pa.Scalar) -> str:
    if pa.types.is_temporal(value.type):
        return str(to_time_texts(pa.repeat(value, 1))[0])
    return str(value.as_py())


def _to_text(encoded: bytes | None, types: list[pa.DataType]) -> str | None:
    if encoded is None or not types:
        return None
    try:
        return ", ".join(_value_text(value) for value in decode_key(encoded, types))
    except DataCorrupted:
        # A long bound is cut, so it cannot be decoded as a key.
        return f"0x{encoded.hex()}..."
