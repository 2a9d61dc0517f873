"""The last records of a table's topic, as any consumer of committed records sees them."""

from __future__ import annotations

import time
from typing import Any, Final

from lakelog.log.protocol import LogReader
from lakelog.log.records import FetchedRecords
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table

from ...page import Column, Listing
from ..rows import LONGEST_VALUE

_MOST: Final = 20
"""Records that are shown: the newest of all partitions."""

_LEAST_OF_PARTITION: Final = 5
_MOST_FETCHED: Final = 400
_LONGEST_S: Final = 8.0
_FETCH_S: Final = 0.5

_RECORDS: Final = (
    Column("partition", "Partition", "count"),
    Column("offset", "Offset", "count"),
    Column("appended_at", "Appended", "time"),
    Column("kind", "Kind", "code"),
    Column("snapshot_id", "Snapshot", "count"),
    Column("key", "Key", "code"),
    Column("value", "Value", "code", "none: a tombstone"),
)


def read_last_records(catalog: Catalog, table: Table) -> Listing:
    """The newest records; asks the brokers.

    Raises:
        LakelogError: Why they cannot be read: brokers that do not answer, a secret that the console does not have.
    """
    info = catalog.metastore.get_log(table.uuid)
    reader = catalog.context.open_log(info.options).open_reader(info.topic)
    try:
        found = _read(reader)
    finally:
        reader.close()
    found.sort(key=lambda row: (row["appended_at"], row["partition"], row["offset"]))
    return Listing(
        "records",
        "Last records",
        _RECORDS,
        list(reversed(found[-_MOST:])),
        "The topic has no committed records.",
        note=f"The newest of the topic {info.topic}, which the console has read from the brokers just now.",
    )


def _read(reader: LogReader) -> list[dict[str, Any]]:
    starts, ends = reader.list_offsets(earliest=True), reader.list_offsets()
    each = max(_MOST // max(len(ends), 1), _LEAST_OF_PARTITION)
    # Ends of transactions have offsets, too: about half of them are records if commits are small.
    wanted = {
        partition: max(start, end - 2 * each)
        for partition, (start, end) in enumerate(zip(starts, ends, strict=True))
        if end > start
    }
    if not wanted:
        return []
    reader.assign(wanted)
    rows: list[dict[str, Any]] = []
    end_s = time.monotonic() + _LONGEST_S
    while time.monotonic() < end_s and len(rows) < _MOST_FETCHED:
        records = reader.fetch(_MOST_FETCHED, _FETCH_S)
        rows += _to_rows(records)
        positions = reader.positions()
        if all(positions[partition] >= ends[partition] for partition in wanted):
            break
    return rows


def _to_rows(records: FetchedRecords) -> list[dict[str, Any]]:
    snapshot_ids = records.snapshot_ids.to_pylist()
    return [
        {
            "partition": int(records.partitions[place]),
            "offset": int(records.offsets[place]),
            "appended_at": int(records.timestamps_ms[place]),
            "kind": _to_text(records.kinds[place].as_py()),
            "snapshot_id": snapshot_ids[place],
            "key": _to_text(records.keys[place].as_py()),
            "value": _to_text(records.values[place].as_py()),
        }
        for place in range(len(records))
    ]


def _to_text(value: bytes | None) -> str | None:
    """JSON as it is; other formats as text with escapes."""
    if value is None:
        return None
    text = value[: 4 * LONGEST_VALUE].decode(errors="backslashreplace")
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]} … ({len(value):,} bytes)"
