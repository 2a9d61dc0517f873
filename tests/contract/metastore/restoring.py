"""Commits that bring an older state back."""

from __future__ import annotations

from typing import Any

from lakelog.client.metastore.metastore import Metastore
from lakelog.format.commit.request import ChangeResult, CommitRequest, RestoreState
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.format.tables.table import TableInfo
from tests.support.metastore.making import make_change


def restore(
    metastore: Metastore, table: TableInfo, snapshot_id: int | None, identifier: int = 1, tag: str = "", **fields: Any
) -> ChangeResult:
    change = make_change(table, kind=SnapshotKind.OVERWRITE, remove=RestoreState(snapshot_id, tag), **fields)
    (result,) = metastore.commit(CommitRequest("r", identifier, (change,))).results
    return result
