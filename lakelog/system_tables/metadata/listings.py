"""Snapshots and files as tables for people and programs: `$snapshots`, and what the SDK lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lakelog.client.metastore.metastore import Metastore, SnapshotPage
from lakelog.errors import NotFound
from lakelog.format.tables.plan import Plan
from lakelog.format.tables.snapshot import Snapshot
from lakelog.system_tables.columns import to_times
from lakelog.system_tables.declaration import NUMBER, SMALL_NUMBER, TEXT, TIME, Column, OfTable
from lakelog.system_tables.metadata.encoded import decode_partitions, to_key_texts

if TYPE_CHECKING:
    from lakelog.context import Context
    from lakelog.format.tables.table import TableInfo
    from lakelog.system_tables.wanted import Wanted

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


def list_snapshots(
    metastore: Metastore, table_uuid: str, limit: int | None, *, after: int = 0, until: int = 0
) -> list[Snapshot]:
    """Lists a table's snapshots after `after` up to `until` (0: all), oldest first; with a limit only the newest."""
    if limit is not None and limit <= _PAGE:
        newest = metastore.list_snapshots(table_uuid, after=after, until=until, limit=max(limit, 1), newest=True)
        return _leave_out_expired(newest.snapshots[len(newest.snapshots) - limit :], newest) if limit else []
    found: list[Snapshot] = []
    while True:
        page = metastore.list_snapshots(table_uuid, after=after, until=until, limit=_PAGE)
        found.extend(_leave_out_expired(page.snapshots, page))
        last = min(until or page.latest_snapshot_id, page.latest_snapshot_id)
        if not page.snapshots or page.snapshots[-1].snapshot_id >= last:
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
    files, schema = plan.files, plan.schema
    columns = {
        "path": files.column("path"),
        "partition": decode_partitions(files.column("partition"), schema),
        "bucket": files.column("bucket"),
        "level": files.column("level"),
        "rows": files.column("row_count"),
        "bytes": files.column("size_bytes"),
        "min_key": to_key_texts(files.column("min_key"), schema),
        "max_key": to_key_texts(files.column("max_key"), schema),
        "added_snapshot": files.column("added_snapshot"),
    }
    return pa.table(columns)


def _read_snapshots(context: Context, info: TableInfo, wanted: Wanted) -> pa.Table:
    first, last = wanted.bounds_of("id")
    after, until = max((first or 1) - 1, 0), last or 0
    if last is not None and (last < 1 or last <= after):
        return _to_rows([], {})
    found = list_snapshots(context.metastore, info.table_uuid, None, after=after, until=until)
    offsets = list_log_offsets(context.metastore, info.table_uuid, found) if wanted.needs("log_offsets") else {}
    return _to_rows(found, offsets)


def _to_rows(snapshots: Sequence[Snapshot], log_offsets: Mapping[int, Sequence[int]]) -> pa.Table:
    rows = to_snapshots_table(snapshots, log_offsets)
    times = to_times(each.committed_at_ms for each in snapshots)
    rows = rows.set_column(rows.schema.get_field_index("committed_at"), pa.field("committed_at", TIME), times)
    more = {
        "uuid": pa.array([each.snapshot_uuid for each in snapshots], TEXT),
        "files": pa.array([each.total_files for each in snapshots], NUMBER),
        "bytes": pa.array([each.total_bytes for each in snapshots], NUMBER),
        "added_files": pa.array([each.added_files for each in snapshots], NUMBER),
        "removed_files": pa.array([each.removed_files for each in snapshots], NUMBER),
        "changelog": pa.array([each.changelog.value for each in snapshots], TEXT),
    }
    for name, column in more.items():
        rows = rows.append_column(name, column)
    return rows


SNAPSHOTS: Final = OfTable(
    "snapshots",
    "The retained snapshots, oldest first: who committed what, when, and how the table grew. A condition on `id` is "
    "part of the request.",
    (
        Column("id", NUMBER, "The snapshot's number, for `VERSION AS OF`."),
        Column("kind", TEXT, "`APPEND`, `OVERWRITE`, or `COMPACT`, which changes no row."),
        Column("committed_at", TIME, "When it was committed, by the metastore's clock."),
        Column("watermark", NUMBER, "Its watermark in milliseconds since 1970; NULL: there is none."),
        Column("schema_id", SMALL_NUMBER, "The schema that it is read with; see `$schemas`."),
        Column("rows", NUMBER, "The rows in live files, including rows that merging hides."),
        Column("added_rows", NUMBER, "The rows that it added."),
        Column("writer", TEXT, "The name of its writer."),
        Column("identifier", NUMBER, "The writer's number of the commit."),
        Column("properties", pa.map_(TEXT, TEXT), "What the writer noted with the commit."),
        Column(
            "log_offsets",
            pa.list_(NUMBER),
            "By partition of the external log, the next offset to read after it; NULL: not published yet, or there was "
            "no log.",
        ),
        Column("uuid", TEXT, "Its identity: a rollback of the metastore's database gives numbers again, but no uuid."),
        Column("files", NUMBER, "The live files."),
        Column("bytes", NUMBER, "The bytes of the live files."),
        Column("added_files", NUMBER, "The files that it added."),
        Column("removed_files", NUMBER, "The files that it removed."),
        Column(
            "changelog",
            TEXT,
            "Whether it has changelog files: `none`, `pending`, `attached`, or `later` (the next full compaction has "
            "them).",
        ),
    ),
    read=_read_snapshots,
)
