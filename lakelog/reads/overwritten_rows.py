"""The new rows of overwrites of an append table, if streams show them (semantics 5.2).

An overwrite enters files again that were there before: one that removes rows by position, and a rollback. Such a file
has new rows only if it had fewer before: those that its earlier deletion vector names, and the new one does not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from lakelog.client.metastore.metastore import Metastore
from lakelog.format.tables.plan import AtSnapshot, PlanRequest
from lakelog.format.tables.table import TableInfo
from lakelog.storage.lookup.bucket_changes import NAMED_PARTITIONS
from lakelog.storage.parquet.live_file import LiveFile, to_live_files


def pick_new_rows(metastore: Metastore, table: TableInfo, files: Sequence[LiveFile]) -> list[LiveFile]:
    """Returns files of changes of an append table, of those that were entered again only their new rows. Blocks.

    Args:
        metastore: Knows the states before overwrites; not asked if no file was entered again.
        table: The table.
        files: Files that some snapshots added; those of compactions are not among them.

    Raises:
        SnapshotExpired: The state before an overwrite has expired.
    """
    again = [file for file in files if file.order_snapshot < file.added_snapshot]
    before = {
        snapshot_id: _list_before(metastore, table, [file for file in again if file.added_snapshot == snapshot_id])
        for snapshot_id in {file.added_snapshot for file in again}
    }
    shown = []
    for file in files:
        earlier = before.get(file.added_snapshot, {}).get(file.path)
        if earlier is None:
            shown.append(file)
        elif earlier.deletion_vector_path and earlier.deletion_vector_path != file.deletion_vector_path:
            shown.append(dataclasses.replace(file, shown_vector_path=earlier.deletion_vector_path))
    return shown


def _list_before(metastore: Metastore, table: TableInfo, again: Sequence[LiveFile]) -> dict[str, LiveFile]:
    """The files before an overwrite, in the partitions of those that it entered again, by path."""
    partitions = sorted({file.partition for file in again})
    request = PlanRequest(
        table.table_uuid,
        AtSnapshot(again[0].added_snapshot - 1),
        partitions=tuple(partitions) if partitions != [b""] and len(partitions) <= NAMED_PARTITIONS else (),
    )
    return {file.path: file for file in to_live_files(metastore.plan(request).files)}
