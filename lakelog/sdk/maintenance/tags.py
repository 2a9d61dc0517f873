"""The tags of a table: names of snapshots. A snapshot is retained while it has a tag."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from lakelog.annotations import TimeLike
from lakelog.arguments import check_snapshot, check_tag
from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import InvalidArgument
from lakelog.reads.reading import find_snapshot_at

_SCHEMA = pa.schema(
    [
        ("name", pa.string()),
        ("snapshot_id", pa.int64()),
        ("committed_at", pa.timestamp("ms", tz="UTC")),
        ("rows", pa.int64()),
        ("created_at", pa.timestamp("ms", tz="UTC")),
    ]
)


class Tags:
    """The tags of a table; `Table.tags` makes it.

    Args:
        metastore: Stores the tags.
        table_uuid: The table.
        request: Calls the metastore on behalf of the table's handle.
    """

    def __init__(self, metastore: Metastore, table_uuid: str, request: Callable[[Callable[[], Any]], Any]) -> None:
        self._metastore = metastore
        self._table_uuid = table_uuid
        self._request = request

    def create(self, name: str, snapshot_id: int | None = None, *, timestamp: TimeLike | None = None) -> int:
        """Gives a snapshot a name, by which it can be read at any later time.

        Args:
            name: 1 to 128 letters, digits, `_`, `-` and `.`; never digits only, which would be a snapshot's id.
            snapshot_id: None: the newest.
            timestamp: Instead of an id: the newest snapshot committed at or before this time, given as `timestamp` of
                `Table.scan`.

        Returns:
            The snapshot.

        Raises:
            AlreadyExists: The table has a tag of this name.
            InvalidArgument: The name is not allowed.
            NotFound: There is no such snapshot, or none at all yet.
            SnapshotExpired: It is no longer kept.
        """
        check_tag(name, "name")
        if snapshot_id is not None:
            check_snapshot(snapshot_id, "snapshot_id")
        if timestamp is not None:
            if snapshot_id is not None:
                raise InvalidArgument(
                    "snapshot_id and timestamp both say which snapshot gets the tag. Give one of them.",
                    reason="CONTRADICTING_OPTIONS",
                )
            snapshot_id = self._request(
                lambda: find_snapshot_at(self._metastore, self._table_uuid, timestamp, "timestamp")
            )
        made = self._request(lambda: self._metastore.create_tag(self._table_uuid, name, snapshot_id or 0))
        found: int = made.snapshot_id
        return found

    def list(self) -> pa.Table:
        """Lists the tags by name.

        Returns:
            Columns name, snapshot_id, committed_at (of the snapshot), rows (in its live files, including rows that
            merging hides), created_at (of the tag).
        """
        found = self._request(lambda: self._metastore.list_tags(self._table_uuid))
        columns = [
            [each.name for each in found],
            [each.snapshot_id for each in found],
            [each.committed_at_ms for each in found],
            [each.total_rows for each in found],
            [each.created_at_ms for each in found],
        ]
        return pa.table([pa.array(c, f.type) for c, f in zip(columns, _SCHEMA, strict=True)], schema=_SCHEMA)

    def delete(self, name: str) -> None:
        """Deletes a tag; its snapshot can then expire, unless something else retains it.

        Raises:
            NotFound: There is no such tag; names the nearest ones.
            InvalidArgument: The name is not allowed.
        """
        check_tag(name, "name")
        self._request(lambda: self._metastore.delete_tag(self._table_uuid, name))
