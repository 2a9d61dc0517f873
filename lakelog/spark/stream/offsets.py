"""The position of a stream of a table's changes: the JSON that Spark stores in its checkpoint.

An offset holds only what the metastore said when it was made. So a batch that is planned again, in any process and at
any later time, is the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakelog.client.metastore.metastore import SnapshotPage
from lakelog.errors import HistoryDiverged, InvalidArgument
from lakelog.format.tables.snapshot import Snapshot


@dataclass(frozen=True)
class StreamOffset:
    """Everything up to and including a snapshot is done.

    Args:
        table_uuid: The table.
        snapshot_id: The snapshot; 0: nothing is done.
        snapshot_uuid: Its uuid; empty if it is not known.
        has_rows_before: Whether the rows at the snapshot must still be shown before what comes after it.
        rows_since_ms: Show only those of these rows whose files were committed at or after this time; None: all.
        first_snapshot: Skip changes of snapshots before this one.
        first_time_ms: Skip changes of snapshots committed before this time; None: none.
        is_jump: Whether earlier changes were not shown because they have expired.
        shows_overwrites: Whether the batch that ends here shows what overwrites changed. It is stored, since the
            table's option can differ when the batch is repeated; None: written before this was stored.
        is_initial: Nothing has been shown; the stream begins here.
        began: The initial offset before the batch that ends here, if it is the first one.
        files_done: How many files of the rows at the snapshot are done, in the order of
            `lakelog.spark.stream.first_rows`.
        file_count: How many there are; None: no batch ended among them.
    """

    table_uuid: str
    snapshot_id: int
    snapshot_uuid: str
    has_rows_before: bool = False
    rows_since_ms: int | None = None
    first_snapshot: int = 0
    first_time_ms: int | None = None
    is_jump: bool = False
    shows_overwrites: bool | None = None
    is_initial: bool = False
    began: StreamOffset | None = None
    files_done: int = 0
    file_count: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The JSON that Spark stores; always the same for the same offset."""
        optional = {
            "rows": self.has_rows_before or None,
            "rows-since-ms": self.rows_since_ms,
            "first-snapshot": self.first_snapshot or None,
            "first-ms": self.first_time_ms,
            "jump": self.is_jump or None,
            "overwrites": self.shows_overwrites,
            "initial": self.is_initial or None,
            "began": None if self.began is None else self.began.to_json(),
            "files-done": self.files_done or None,
            "files": self.file_count,
        }
        return {"table": self.table_uuid, "snapshot": self.snapshot_id, "uuid": self.snapshot_uuid} | {
            key: value for key, value in optional.items() if value is not None
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> StreamOffset:
        """Reads an offset of a checkpoint; raises InvalidArgument for one of another source."""
        try:
            return StreamOffset(
                str(value["table"]),
                int(value["snapshot"]),
                str(value["uuid"]),
                bool(value.get("rows", False)),
                value.get("rows-since-ms"),
                int(value.get("first-snapshot", 0)),
                value.get("first-ms"),
                bool(value.get("jump", False)),
                value.get("overwrites"),
                bool(value.get("initial", False)),
                StreamOffset.from_json(value["began"]) if "began" in value else None,
                int(value.get("files-done", 0)),
                value.get("files"),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidArgument(
                f"The checkpoint is not one of a lakelog table: its offset is {value!s:.200}. Give the query a "
                "checkpoint of its own.",
                reason="CHECKPOINT_INVALID",
                metadata={"field": "checkpointLocation"},
            ) from error

    def passes_over(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot is before the beginning of the stream."""
        is_before = self.first_time_ms is not None and snapshot.committed_at_ms < self.first_time_ms
        return is_before or snapshot.snapshot_id < self.first_snapshot


def check_table(offset: StreamOffset, table_uuid: str, table_name: str) -> None:
    """Raises HistoryDiverged if a checkpoint belongs to another table. Pure."""
    if offset.table_uuid != table_uuid:
        raise HistoryDiverged(
            f"The checkpoint is of the table {offset.table_uuid}, but {table_name} is {table_uuid}: another table, or "
            "one that was made after the old one had been dropped. Give the query a new checkpoint to read it from the "
            "beginning, or the table that the checkpoint is of.",
            metadata={"table": table_name, "table_uuid": table_uuid, "checkpoint_uuid": offset.table_uuid},
        )


def check_history(offset: StreamOffset, page: SnapshotPage, table_name: str) -> None:
    """Raises HistoryDiverged if a table's history differs from the offset's. Pure.

    Args:
        offset: An offset of this table.
        page: The retained snapshots from that of the offset on, at least two if there are.
        table_name: The table's name, for messages.
    """
    at = offset.snapshot_id
    if at > page.latest_snapshot_id:
        found = f"the newest one is {page.latest_snapshot_id}"
    else:
        known = next((each.snapshot_uuid for each in page.snapshots if each.snapshot_id == at), "")
        known = known or next((each.parent_uuid for each in page.snapshots if each.snapshot_id == at + 1), "")
        if not known or not offset.snapshot_uuid or known == offset.snapshot_uuid:
            return
        found = f"here it is {known}"
    raise HistoryDiverged(
        f"The checkpoint knows snapshot {at} of {table_name} as {offset.snapshot_uuid}, but {found}: the metastore was "
        "restored to an earlier state. Stop, compare what was read with the table, and begin with a new checkpoint.",
        metadata={"table": table_name, "snapshot_id": str(at), "snapshot_uuid": offset.snapshot_uuid},
    )
