"""The state of a table that a read of a system table shows."""

from __future__ import annotations

from typing import Final

from lakelog.client.metastore.metastore import Metastore
from lakelog.format.tables.plan import Plan, PlanRequest
from lakelog.format.tables.table import TableInfo
from lakelog.reads.reading import State

_NO_FILE: Final = 2**62 - 1
"""No snapshot is as late, so the plan has no files."""


def find_snapshot(metastore: Metastore, info: TableInfo, state: State) -> int:
    """The snapshot of a state; 0: the table has none.

    Raises:
        NotFound: There is no such snapshot or tag.
        SnapshotExpired: It is no longer kept.
    """
    if state is None:
        return metastore.list_latest([info.table_uuid])[0].snapshot_id
    found = plan_without_files(metastore, info, state).snapshot
    assert found is not None, "a state that was named exists"
    return found.snapshot_id


def plan_without_files(metastore: Metastore, info: TableInfo, state: State) -> Plan:
    """The snapshot of a state, and its schema; errors as of `find_snapshot`."""
    return metastore.plan(PlanRequest(info.table_uuid, state, added_after=_NO_FILE))
