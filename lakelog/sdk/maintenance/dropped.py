"""Dropped tables as users of the SDK see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from lakelog.arguments import check_text, parse_table_name
from lakelog.client.metastore.metastore import Metastore
from lakelog.format.retention.dropped import DroppedTable, RestoredTable

_COLUMNS: Final = pa.schema(
    [
        pa.field("name", pa.string(), nullable=False),
        pa.field("uuid", pa.string(), nullable=False),
        pa.field("dropped_at", pa.timestamp("ms", "UTC"), nullable=False),
        pa.field("kept_until", pa.timestamp("ms", "UTC"), nullable=False),
        pa.field("restorable", pa.bool_(), nullable=False),
        pa.field("location", pa.string(), nullable=False),
    ]
)


def restore_table(metastore: Metastore, name: str, uuid: str | None, as_name: str | None) -> RestoredTable:
    """Restores a dropped table; see `lakelog.Catalog.restore_table`."""
    if uuid is not None:
        check_text(uuid, "uuid", "0123456789abcdef0123456789abcdef")
    return metastore.restore_table(
        parse_table_name(name),
        table_uuid=uuid or "",
        new_name=None if as_name is None else parse_table_name(as_name),
    )


def to_dropped_table(dropped: Sequence[DroppedTable]) -> pa.Table:
    """Returns one row per dropped table, in the given order. Pure."""
    columns = [
        [str(each.name) for each in dropped],
        [each.table_uuid for each in dropped],
        [each.dropped_at_ms for each in dropped],
        [each.kept_until_ms for each in dropped],
        [not each.is_purged for each in dropped],
        [each.location for each in dropped],
    ]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, _COLUMNS, strict=True)]
    return pa.table(arrays, schema=_COLUMNS)
