"""Tables whose changelog waits for a full compaction, and such compactions."""

from __future__ import annotations

from typing import Any

from lakelog.client.metastore.metastore import Metastore
from lakelog.format.commit.request import Change, CompactionGroup
from lakelog.format.tables.plan import AtSnapshot
from lakelog.format.tables.snapshot import ChangelogState, SnapshotKind
from lakelog.format.tables.table import TableInfo
from tests.contract.metastore.compacting import BUCKET, commit, files, name, stage
from tests.support.metastore.making import make_change, make_file, make_table

PRODUCER = {"bucket": "4", "changelog-producer": "full-compaction"}


def make_deferring(metastore: Metastore) -> TableInfo:
    return make_table(metastore, options=PRODUCER)


def baseline(metastore: Metastore, table: TableInfo, at: int | None = None) -> str:
    """The names of the files that are told, sorted."""
    found = files(metastore, table, None if at is None else AtSnapshot(at), baseline=True)
    return " ".join(sorted(name(file) for file in found))


def emitting(
    metastore: Metastore,
    table: TableInfo,
    inputs: tuple[int, ...] = (),
    output: str = "",
    changelog: str = "",
    level: int = 5,
    **fields: Any,
) -> tuple[Change, str]:
    """A compaction of one group, whose files are named by letters, and its attempt; it tells unless said otherwise."""
    attempt = stage(metastore, table)
    group = CompactionGroup(
        BUCKET,
        inputs,
        len(output),
        level=level,
        changelog_count=len(changelog),
        **{"emits_changelog": True, "is_full": True, **fields},
    )
    change = make_change(
        table,
        [make_file(attempt, letter, level=level) for letter in output],
        kind=SnapshotKind.COMPACT,
        groups=(group,),
        changelog=ChangelogState.ATTACHED if changelog else ChangelogState.NONE,
        changelog_files=tuple(make_file(attempt, letter) for letter in changelog),
    )
    return change, attempt


def compact(metastore: Metastore, table: TableInfo, identifier: int, *args: Any, **fields: Any) -> list[str]:
    """Commits such a compaction; the reasons why it was dropped, if it was."""
    change, attempt = emitting(metastore, table, *args, **fields)
    return [each.reason for each in commit(metastore, change, identifier, attempt=attempt).dropped]
