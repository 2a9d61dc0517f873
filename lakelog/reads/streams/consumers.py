"""The consumers of a table: named readers whose positions the metastore stores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from lakelog.arguments import check_snapshot_id, check_text
from lakelog.client.metastore.metastore import Metastore

_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("snapshot_id", pa.int64()),
        ("holder", pa.string()),
        ("used_at", pa.timestamp("ms", tz="UTC")),
        ("expires_at", pa.timestamp("ms", tz="UTC")),
        ("expired", pa.bool_()),
    ]
)


class Consumers:
    """The consumers of a table; `Table.consumers` makes it.

    Args:
        metastore: Stores the consumers.
        table_uuid: The table.
        request: Calls the metastore on behalf of the table's handle.
    """

    def __init__(self, metastore: Metastore, table_uuid: str, request: Callable[[Callable[[], Any]], Any]) -> None:
        self._metastore = metastore
        self._table_uuid = table_uuid
        self._request = request

    def list(self) -> pa.Table:
        """Lists the consumers by id.

        Returns:
            Columns id, snapshot_id (the last one that is done; NULL: none), holder (its reader; NULL: none), used_at
            (when the reader reported last), expires_at (unless it is used), expired (whether it retains nothing until a
            subscription uses its id again).
        """
        found = self._request(lambda: self._metastore.list_consumers(self._table_uuid))
        columns = [
            [each.consumer_id for each in found],
            [each.snapshot_id for each in found],
            [each.holder or None for each in found],
            [each.used_at_ms for each in found],
            [each.expires_at_ms for each in found],
            [each.is_expired for each in found],
        ]
        return pa.table([pa.array(c, f.type) for c, f in zip(columns, _SCHEMA, strict=True)], schema=_SCHEMA)

    def reset(self, consumer_id: str, snapshot_id: int) -> None:
        """Moves a consumer to a position after a snapshot, back or forth. Its reader is fenced.

        Args:
            consumer_id: The consumer.
            snapshot_id: At most the newest; 0: it begins with the first.

        Raises:
            NotFound: There is no such consumer; names the existing ones.
            InvalidArgument: The table has no such snapshot, or an argument is not possible; named.
        """
        check_text(consumer_id, "consumer_id", "reports")
        check_snapshot_id(snapshot_id, "snapshot_id")
        self._request(lambda: self._metastore.reset_consumer(self._table_uuid, consumer_id, snapshot_id))

    def delete(self, consumer_id: str) -> None:
        """Deletes a consumer, and releases what it retained. Its reader is fenced.

        Raises:
            NotFound: There is no such consumer; names the existing ones.
            InvalidArgument: It is not a valid consumer id.
        """
        check_text(consumer_id, "consumer_id", "reports")
        self._request(lambda: self._metastore.delete_consumer(self._table_uuid, consumer_id))
