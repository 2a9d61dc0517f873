"""The partitions of a table, and how conditions on files name them."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final
from urllib.parse import urlencode

import pyarrow as pa

from lakelog.sdk.tables.table import Table
from lakelog.sql.create_table import quote_name, quote_text
from lakelog.system_tables.metadata.encoded import decode_partitions

from ..page import PAGE_ROWS, Column, Listing, PageRequest, table_address

PLACE: Final = "partitions_after"
"""The parameter with the partition after which the list goes on."""

_PARTITIONS: Final = (
    Column("partition", "Partition", "code"),
    Column("files", "Files", "count"),
    Column("rows", "Rows", "count"),
    Column("bytes", "Size", "bytes"),
    Column("written_at", "Last written", "time"),
)


def list_partitions(request: PageRequest, table: Table) -> Listing:
    """Partitions that have files, page by page: the metastore sums them without a list of files."""
    after = _read_place(request)
    page = request.catalog.metastore.list_partition_files(table.uuid, after, PAGE_ROWS)
    encoded = pa.array([each.partition for each in page.partitions], pa.binary())
    values = decode_partitions(encoded, table.info.schema).to_pylist()
    rows = []
    for each, value in zip(page.partitions, values, strict=True):
        condition = to_condition(value)
        link = f"{table_address(table.name, 'files')}?{urlencode({'where': condition})}"
        rows.append(
            {
                "partition": to_words(value),
                "files": each.files,
                "rows": each.rows,
                "bytes": each.size_bytes,
                "written_at": each.updated_at_ms,
                "_links": {"partition": link} if condition else {},
            }
        )
    last = page.partitions[-1].partition.hex() if rows else None
    next_query = None if page.is_last else request.with_query(partitions_after=last, of=table.uuid)
    return Listing("partitions", "Partitions", _PARTITIONS, rows, "No partition has files.", next_query)


def to_words(partition: Mapping[str, Any] | None) -> str | None:
    """`dt=2024-05-01, region=eu`. Pure."""
    if partition is None:
        return None
    return ", ".join(f"{name}={'NULL' if value is None else value}" for name, value in partition.items())


def to_condition(partition: Mapping[str, Any] | None, bucket: int | None = None) -> str:
    """The condition on `$files` for a partition and a bucket. Pure.

    Values that have no literal are left out: then the condition excludes less.
    """
    parts = [] if bucket is None else [f"bucket = {bucket}"]
    for name, value in (partition or {}).items():
        column = f"partition.{quote_name(name)}"
        if value is None:
            parts.append(f"{column} IS NULL")
        elif (literal := _to_literal(value)) is not None:
            parts.append(f"{column} = {literal}")
    return " AND ".join(parts)


def _to_literal(value: Any) -> str | None:
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case int() | Decimal():
            return str(value)
        case str():
            return quote_text(value)
        case datetime.date():
            return quote_text(value.isoformat())
    return None


def _read_place(request: PageRequest) -> bytes | None:
    try:
        return bytes.fromhex(request.query.get(PLACE, "")) or None
    except ValueError:
        return None
