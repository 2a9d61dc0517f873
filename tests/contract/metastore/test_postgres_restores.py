"""Rollbacks while others commit and compact, by two metastores on one Postgres."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from lakelog.format.commit.request import CommitRequest, RestoreState
from lakelog.format.tables.plan import AtSnapshot, PlanRequest
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.format.tables.table import TableInfo
from metastore.testing import InProcessMetastore
from tests.support.metastore.making import append, compaction, make_change, make_file, make_table
from tests.support.metastore.opening import open_in_process

ROUNDS = 15


@pytest.fixture
def pair(migrated_url: str) -> Iterator[tuple[InProcessMetastore, InProcessMetastore]]:
    one, other = open_in_process(migrated_url), open_in_process(migrated_url)
    yield one, other
    one.close()
    other.close()


def play(pair: tuple[InProcessMetastore, InProcessMetastore]) -> tuple[TableInfo, dict[int, int]]:
    """Appends, compactions and rollbacks at once; returns to which snapshot each rollback went, by its identifier."""
    table = make_table(pair[0], keyed=False)
    append(pair[0], table, 0, writer="first")
    targets: dict[int, int] = {}

    def write() -> None:
        for number in range(ROUNDS):
            append(pair[0], table, number, names="ab")

    def compact() -> None:
        random = Random(1)
        for number in range(ROUNDS):
            files = pair[1].plan(PlanRequest(table.table_uuid)).files.to_pylist()
            picked = random.sample(files, min(len(files), 3))
            attempt = pair[1].stage_attempt([table.table_uuid], "c").attempt_id
            merged = make_file(attempt, f"m{number}", row_count=sum(file["row_count"] for file in picked))
            change = compaction(table, [merged], [file["file_id"] for file in picked])
            pair[1].commit(CommitRequest("c", number, (change,), attempt))

    def roll_back() -> None:
        random = Random(2)
        for number in range(ROUNDS):
            latest = pair[0].list_latest([table.table_uuid])[0].snapshot_id
            targets[number] = random.randint(max(1, latest - 8), latest)
            state = RestoreState(targets[number])
            change = make_change(table, kind=SnapshotKind.OVERWRITE, remove=state)
            pair[number % 2].commit(CommitRequest("r", number, (change,)))

    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(each) for each in (write, compact, roll_back)]:
            done.result()
    return table, targets


def find_wrong(metastore: InProcessMetastore, table: TableInfo, targets: dict[int, int]) -> str:
    """The first snapshot that is not what its commit made of the one before; empty: none."""
    states: dict[int, dict[str, int]] = {}
    for snapshot in metastore.list_snapshots(table.table_uuid).snapshots:
        number = snapshot.snapshot_id
        files = metastore.plan(PlanRequest(table.table_uuid, AtSnapshot(number))).files.to_pylist()
        found = {file["path"]: file["row_count"] for file in files}
        before = states.get(number - 1, {})
        is_right = len(found) == len(files) == snapshot.total_files and sum(found.values()) == snapshot.total_rows
        if snapshot.writer == "r":
            is_right &= found == states[targets[snapshot.identifier]]
        elif snapshot.kind is SnapshotKind.COMPACT:
            is_right &= sum(found.values()) == sum(before.values()) and len(found.keys() - before.keys()) == 1
        else:
            is_right &= before.items() <= found.items() and len(found) == len(before) + snapshot.added_files
        if not is_right:
            return f"{number}, a {snapshot.kind.value} of {snapshot.writer}"
        states[number] = found
    return ""


def test_rollbacks_between_commits_and_compactions(pair: tuple[InProcessMetastore, InProcessMetastore]) -> None:
    table, targets = play(pair)
    assert find_wrong(pair[0], table, targets) == ""
