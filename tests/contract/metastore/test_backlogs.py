"""What is kept of small files is what there is, whatever was committed, compacted, overwritten and altered."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from lakelog.format.commit.request import BucketRef, CommitRequest, RemoveEverything, RemovePartitions, RestoreState
from lakelog.format.compaction.settings import to_compaction_settings
from lakelog.format.jobs.job import to_bucket_scope
from lakelog.format.tables.plan import PlanRequest
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.format.tables.table import TableInfo
from metastore.store.due import Backlog
from metastore.testing import InProcessMetastore
from tests.contract.metastore.expiring import expire
from tests.contract.metastore.planning import compactions, quiet, step
from tests.support.metastore.making import append, day, make_change, make_table, rewrite

DAYS = [day(text) for text in ("a", "b", None)]
SIZES = [1, 500, 713, 714, 715, 9000]


@pytest.fixture(params=["memory", "postgres"])
def metastore(request: pytest.FixtureRequest) -> Iterator[InProcessMetastore]:
    with quiet(request, request.param) as opened:
        yield opened


@pytest.mark.parametrize("seed", range(4))
def test_small_files_are_counted_right(metastore: InProcessMetastore, seed: int) -> None:
    # With odd numbers entries of removed files expire, also before anybody has counted that they are gone.
    draw, expires = random.Random(seed), seed % 2 == 1
    table = make_table(metastore, partitioned=True, keyed=False, options={"target-file-size": "1 kb"})
    removed = False
    for number in range(1, 41):
        match draw.choice(["append"] * 5 + ["compact"] * 3 + ["overwrite", "clear", "alter"]):
            case "append":
                names = "abc"[: draw.randint(1, 3)]
                append(
                    metastore, table, number, names=names, partition=draw.choice(DAYS), size_bytes=draw.choice(SIZES)
                )
            case "compact":
                removed |= compact_some(metastore, table, number, draw)
            case "overwrite":
                remove: Any = RemovePartitions((draw.choice(DAYS),))
                change = make_change(table, kind=SnapshotKind.OVERWRITE, remove=remove, allow_empty=True)
                metastore.commit(CommitRequest("w", number, (change,)))
            case "clear":
                change = make_change(table, kind=SnapshotKind.OVERWRITE, remove=RemoveEverything(), allow_empty=True)
                metastore.commit(CommitRequest("w", number, (change,)))
            case "alter":
                size = draw.choice(["1 kb", "10 kb"])
                metastore.alter_table(table.table_uuid, set_options={"target-file-size": size}, unset_options=[])
                step(metastore)
        if expires and draw.random() < 0.2:
            expire(metastore, table)
        if draw.random() < 0.4:
            step(metastore)
            check(metastore, table, expires=expires)
    step(metastore)
    check(metastore, table, expires=expires)
    assert removed


def compact_some(metastore: InProcessMetastore, table: TableInfo, number: int, draw: random.Random) -> bool:
    """Puts some files of a partition into one, as small or large as chance has it."""
    partition = draw.choice(DAYS)
    files = metastore.plan(PlanRequest(table.table_uuid, partitions=(partition,))).files.to_pylist()
    chosen = draw.sample(files, min(len(files), draw.randint(2, 4)))
    if len(chosen) < 2:
        return False
    rows = sum(file["row_count"] for file in chosen)
    made = {"partition": partition, "size_bytes": draw.choice(SIZES), "row_count": rows}
    result = rewrite(metastore, table, number, *(file["file_id"] for file in chosen), file=made)
    return result.results[0].snapshot_id is not None


def check(metastore: InProcessMetastore, table: TableInfo, *, expires: bool) -> None:
    options = metastore.get_table_by_uuid(table.table_uuid).options
    below = to_compaction_settings(options, has_primary_key=False).small_file_bytes
    files = metastore.plan(PlanRequest(table.table_uuid)).files.to_pylist()
    kept = {each.bucket.partition: each for each in metastore.run(_kept(metastore))}
    for partition in DAYS:
        small = [file for file in files if file["partition"] == partition and file["size_bytes"] < below]
        found = kept.get(partition)
        if found is None:
            # Where something expired partitions are forgotten until something comes or goes in them.
            assert expires or not small
            continue
        assert (found.file_count, found.size_bytes) == (len(small), sum(file["size_bytes"] for file in small))
        assert found.first_snapshot <= min((file["added_snapshot"] for file in small), default=2**62)


async def _kept(metastore: InProcessMetastore) -> list[Backlog]:
    async with metastore.store.transaction() as tx:
        return await tx.find_backlogs(1, [BucketRef(partition, 0) for partition in DAYS])


def test_neighbours_that_a_rollback_brings_together_are_found(metastore: InProcessMetastore) -> None:
    options = {"bucket": "1", "bucket-key": "id", "compaction.min.file-num": "3", "target-file-size": "1 kb"}
    table = make_table(metastore, keyed=False, options=options)
    for number, size in enumerate([300, 300, 2000, 2000, 2000], 1):
        append(metastore, table, number, names=str(number), size_bytes=size)
        step(metastore)
    assert compactions(metastore, table) == {}
    # So far the first ones need no look any more.
    change = make_change(table, kind=SnapshotKind.OVERWRITE, remove=RestoreState(2))
    metastore.commit(CommitRequest("r", 1, (change,)))
    step(metastore)
    append(metastore, table, 6, names="6", size_bytes=300)
    step(metastore)
    assert list(compactions(metastore, table)) == [to_bucket_scope(b"", 0)]


def test_what_a_rollback_makes_due_is_looked_at_from_the_start_on(metastore: InProcessMetastore) -> None:
    """Also when the first of them are compacted: the others are still where nobody looked any more."""
    options = {"bucket": "1", "bucket-key": "id", "compaction.min.file-num": "3", "target-file-size": "1 kb"}
    table = make_table(metastore, keyed=False, options=options)
    for number in range(1, 7):
        append(metastore, table, number, names=str(number), size_bytes=300)
    rewrite(metastore, table, 1, *range(1, 7), file={"size_bytes": 1800, "row_count": 60})
    for number in (8, 9, 10):
        append(metastore, table, number, names=str(number), size_bytes=1800)
    step(metastore)
    assert compactions(metastore, table) == {}

    async def load_after() -> tuple[int, int]:
        async with metastore.store.transaction() as tx:
            (found,) = await tx.find_backlogs(1, [BucketRef(b"", 0)])
            return found.after

    assert metastore.run(load_after()) > (6, 0)
    metastore.commit(CommitRequest("r", 1, (make_change(table, kind=SnapshotKind.OVERWRITE, remove=RestoreState(6)),)))
    step(metastore)
    assert list(compactions(metastore, table)) == [to_bucket_scope(b"", 0)]
    assert metastore.run(load_after()) == (0, -1)
