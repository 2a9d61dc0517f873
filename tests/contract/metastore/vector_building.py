"""Commits of deletion vectors that are built after the commits that they belong to."""

from __future__ import annotations

from typing import Any

from lakelog.client.metastore.metastore import Metastore
from lakelog.format.commit.request import Change, ChangeResult, CompactionGroup
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.format.tables.table import TableInfo
from tests.contract.metastore.compacting import BUCKET, commit, stage
from tests.support.metastore.making import make_change

Group = tuple[tuple[int, ...], tuple[int, ...]]


def vector_change(table: TableInfo, attempt: str, *groups: Group, path: str = "positions", **fields: Any) -> Change:
    """A change of groups of marks and witnesses."""
    deletion_vectors = f"data/{attempt}/{path}.parquet" if path else ""
    named = [
        CompactionGroup(BUCKET, vector_files=vector_files, covered_files=rest, deletion_vector_path=deletion_vectors)
        for vector_files, rest in groups
    ]
    return make_change(table, kind=SnapshotKind.COMPACT, groups=tuple(named), **fields)


def build_vectors(
    metastore: Metastore, table: TableInfo, identifier: int, *groups: Group, **fields: Any
) -> ChangeResult:
    attempt = stage(metastore, table)
    change = vector_change(table, attempt, *groups, **fields)
    return commit(metastore, change, identifier, attempt=attempt, writer="marker")
