"""C3, C4, C5: what refuses a commit, and what the refusal says."""

from __future__ import annotations

from typing import Any

import pytest

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import CommitConflict, Fenced, HistoryDiverged, InvalidArgument, NotFound
from lakelog.format.commit.request import (
    BucketRef,
    CommitRequest,
    CommitResult,
    Fence,
    RemoveEverything,
    RemoveFiles,
    RemovePartitions,
    RemovePartitionValues,
    TimeWindow,
)
from lakelog.format.commit.rules import TIME_PASSED
from lakelog.format.tables.plan import PlanRequest
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.format.tables.table import TableInfo
from tests.support.error_metadata import metadata_of
from tests.support.metastore.making import (
    append,
    day,
    empty,
    make_change,
    make_file,
    make_table,
    rewrite,
    snapshot_ids,
)


def live(metastore: Metastore, table: TableInfo) -> dict[int, str]:
    files = metastore.plan(PlanRequest(table.table_uuid)).files
    return {file["file_id"]: file["path"].split("/")[-1][:-8] for file in files.to_pylist()}


def test_of_two_that_remove_one_file_the_second_is_refused(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1, names="abc")
    rewrite(metastore, table, 1, 1, 2, writer="first", kind=SnapshotKind.OVERWRITE)
    with pytest.raises(CommitConflict) as error:
        rewrite(metastore, table, 1, 2, 3, writer="second", kind=SnapshotKind.OVERWRITE)
    assert "'first' removed" in error.value.message
    assert "b.parquet' with snapshot 2. Plan anew" in error.value.message
    assert error.value.reason == "FILES_NOT_LIVE"
    assert metadata_of(error.value) == {
        "table": str(table.name),
        "other_writer": "first",
        "snapshot_id": "2",
        "file_ids": "2",
        "retry": "replan",
    }
    assert live(metastore, table) == {3: "c", 4: "z"}
    assert snapshot_ids(metastore, table) == [1, 2]


def test_files_that_never_were_cannot_be_removed(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1)
    with pytest.raises(CommitConflict, match=r"does not have: 7, 8, 9, 10, 11 and 2 more"):
        rewrite(metastore, table, 1, 1, *range(7, 14), kind=SnapshotKind.OVERWRITE)
    assert live(metastore, table) == {1: "a"}


def test_totals_follow_what_is_removed(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1, names="abc", row_count=5)
    result = rewrite(metastore, table, 1, 1, 2, file={"row_count": 7, "size_bytes": 10})
    assert result.results[0].snapshot_id == 2
    snapshot = metastore.list_snapshots(table.table_uuid).snapshots[-1]
    assert (snapshot.total_rows, snapshot.total_files, snapshot.total_bytes) == (12, 2, 1010)
    assert (snapshot.added_rows, snapshot.added_files, snapshot.removed_files) == (7, 1, 2)
    assert snapshot.kind is SnapshotKind.COMPACT


def test_a_whole_overwrite_replaces_what_is_there_when_it_takes_effect(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1)
    attempt = metastore.stage_attempt([table.table_uuid], "o").attempt_id
    append(metastore, table, 2, names="b")
    change = make_change(
        table, [make_file(attempt, "z")], kind=SnapshotKind.OVERWRITE, remove=RemoveEverything(), base_snapshot_id=1
    )
    metastore.commit(CommitRequest("o", 1, (change,), attempt))
    assert list(live(metastore, table).values()) == ["z"]


def test_an_overwrite_without_rows_empties_the_table(metastore: Metastore) -> None:
    """7.2."""
    table = make_table(metastore)
    change = make_change(table, kind=SnapshotKind.OVERWRITE, remove=RemoveEverything())
    assert metastore.commit(CommitRequest("o", 1, (change,))).results[0].snapshot_id is None
    append(metastore, table, 1, names="ab")
    assert metastore.commit(CommitRequest("o", 2, (change,))).results[0].snapshot_id == 2
    assert live(metastore, table) == {}
    snapshot = metastore.list_snapshots(table.table_uuid).snapshots[-1]
    assert (snapshot.total_rows, snapshot.total_files, snapshot.total_bytes, snapshot.removed_files) == (0, 0, 0, 2)


def test_partitions_are_overwritten_by_name_or_by_value(metastore: Metastore) -> None:
    """7.2."""
    table = make_table(metastore, partitioned=True)
    for n, value in enumerate(["mon", "tue", None, "mon"]):
        append(metastore, table, n, names=str(n), partition=day(value))

    def overwrite(identifier: int, remove: Any) -> None:
        change = make_change(table, kind=SnapshotKind.OVERWRITE, remove=remove)
        metastore.commit(CommitRequest("o", identifier, (change,)))

    overwrite(1, RemovePartitions(()))
    overwrite(2, RemovePartitions((day("wed"),)))
    assert sorted(live(metastore, table).values()) == ["0", "1", "2", "3"]
    overwrite(3, RemovePartitions((day(None), day("wed"))))
    assert sorted(live(metastore, table).values()) == ["0", "1", "3"]
    overwrite(4, RemovePartitionValues({"day": day("mon")}))
    assert sorted(live(metastore, table).values()) == ["1"]
    with pytest.raises(InvalidArgument, match="has the partition columns day; use those"):
        overwrite(5, RemovePartitionValues({"id": day("mon")}))


def test_a_change_whose_buckets_must_be_unchanged(metastore: Metastore) -> None:
    table = make_table(metastore, partitioned=True)
    monday, tuesday = day("mon"), day("tue")
    append(metastore, table, 1, partition=monday)
    append(metastore, table, 2, partition=monday, bucket=1)

    def look_up(identifier: int, base: int, *buckets: BucketRef) -> Any:
        change = make_change(table, allow_empty=True, base_snapshot_id=base, unchanged_buckets=buckets)
        return metastore.commit(CommitRequest("l", identifier, (change,)))

    look_up(1, 1, BucketRef(monday, 0), BucketRef(tuesday, 1), BucketRef(day("never"), 1))
    with pytest.raises(CommitConflict, match="'w' changed or compacted bucket 1 with snapshot 2") as error:
        look_up(2, 1, BucketRef(monday, 0), BucketRef(monday, 1))
    assert (error.value.reason, error.value.metadata["other_writer"]) == ("BUCKET_CHANGED", "w")
    assert error.value.metadata["retry"] == "replan"
    # A compaction changes no data, so nobody is refused for it; an overwrite does.
    rewrite(metastore, table, 1, 1, file={"partition": monday})
    look_up(3, 3, BucketRef(monday, 0))
    change = make_change(table, kind=SnapshotKind.OVERWRITE, remove=RemoveFiles((2,)))
    metastore.commit(CommitRequest("o", 1, (change,)))
    with pytest.raises(CommitConflict, match="'o' changed or compacted bucket 1"):
        look_up(4, 3, BucketRef(monday, 1))


def test_a_change_that_holds_at_some_times_only(metastore: Metastore) -> None:
    table = make_table(metastore)
    last = append(metastore, table, 1).results[0].committed_at_ms

    def reported(identifier: int, window: TimeWindow) -> CommitResult:
        return metastore.commit(CommitRequest("l", identifier, (make_change(table, allow_empty=True, window=window),)))

    distant = last + 1_000_000
    for identifier, missed in ((1, TimeWindow(distant)), (2, TimeWindow(None, last - 1)), (3, TimeWindow(0, last - 1))):
        with pytest.raises(CommitConflict, match="was computed for a commit at another time") as error:
            reported(identifier, missed)
        assert error.value.reason == TIME_PASSED
        assert last <= int(error.value.metadata["time_ms"]) < distant
    # What was refused had no effect: its identifier is free.
    done = reported(1, TimeWindow(last - 1, distant))
    assert done.results[0].snapshot_id == 2
    # Repeated when its time is over, it is answered as it was.
    assert reported(1, TimeWindow(None, last - 1)) == done


def test_a_base_that_never_was(metastore: Metastore) -> None:
    """C9."""
    table = make_table(metastore)
    append(metastore, table, 1)
    change = make_change(table, allow_empty=True, base_snapshot_id=5)
    with pytest.raises(HistoryDiverged, match="made against snapshot 5, but the newest one is 1"):
        metastore.commit(CommitRequest("w", 2, (change,)))


def test_schema_and_buckets_must_still_fit(metastore: Metastore) -> None:
    table = make_table(metastore)
    with pytest.raises(CommitConflict, match="written with schema 1, but the table has schema 0") as error:
        metastore.commit(CommitRequest("w", 1, (make_change(table, schema_id=1, allow_empty=True),)))
    assert (error.value.reason, error.value.metadata["retry"]) == ("SCHEMA_CHANGED", "never")
    with pytest.raises(CommitConflict, match="written for 8 buckets, but the table has 4") as error:
        metastore.commit(CommitRequest("w", 1, (make_change(table, bucket_count=8, allow_empty=True),)))
    assert error.value.reason == "BUCKET_COUNT_CHANGED"
    assert metastore.get_writer_progress("w", table.table_uuid).last_identifier is None


def test_a_writer_with_a_lower_epoch_is_fenced(metastore: Metastore) -> None:
    """C3."""
    table = make_table(metastore)
    old = metastore.register_writer("w")
    first = metastore.commit(empty(table, 1, epoch=old))
    new = metastore.register_writer("w")
    assert 0 < old < new
    for epoch in (0, old):
        stops = f"commits with epoch {epoch}, .* has epoch {new}. Stop this instance"
        with pytest.raises(Fenced, match=stops) as error:
            metastore.commit(empty(table, 2, epoch=epoch))
        assert metadata_of(error.value) == {"writer": "w", "epoch": str(epoch), "current_epoch": str(new)}
    # What was applied is answered all the same: the zombie may find out.
    assert metastore.commit(empty(table, 1, epoch=old)) == first
    assert metastore.commit(empty(table, 2, epoch=new)).results[0].snapshot_id == 2
    assert metastore.get_writer_progress("w", table.table_uuid).epoch == new
    metastore.commit(empty(table, 1, writer="another"))


def test_an_epoch_that_was_never_given(metastore: Metastore) -> None:
    """C9."""
    table = make_table(metastore)
    with pytest.raises(Fenced, match=r"does not know epoch 1, and has given none: its database was set back") as error:
        metastore.commit(empty(table, 1, epoch=1))
    assert error.value.reason == "EPOCH_UNKNOWN"


def test_a_lost_lease_fences_a_commit(metastore: Metastore) -> None:
    """C3."""
    table = make_table(metastore)
    lease = metastore.acquire_lease("job", "a", 60_000)
    metastore.commit(empty(table, 1, fences=(Fence("job", lease.epoch),)))
    metastore.release_lease("job", lease.epoch)
    # Still the same epoch: nobody took it meanwhile.
    metastore.commit(empty(table, 2, fences=(Fence("job", lease.epoch),)))
    newer = metastore.acquire_lease("job", "b", 60_000)
    with pytest.raises(Fenced, match=rf"lease 'job' with epoch {lease.epoch}, .* it has epoch {newer.epoch}") as error:
        metastore.commit(empty(table, 3, fences=(Fence("job", lease.epoch),)))
    assert error.value.reason == "LEASE_FENCED"
    metastore.commit(empty(table, 3, fences=(Fence("job", newer.epoch),)))
    with pytest.raises(Fenced, match="'never', but the metastore does not know epoch 1"):
        metastore.commit(empty(table, 4, fences=(Fence("never", 1),)))


def test_the_life_of_an_attempt(metastore: Metastore) -> None:
    """C4."""
    table, other = make_table(metastore), make_table(metastore)
    attempt = metastore.stage_attempt([table.table_uuid], "w").attempt_id
    assert len(attempt) == 32
    wrong = CommitRequest("w", 1, (make_change(other, [make_file(attempt)]),), attempt)
    with pytest.raises(InvalidArgument, match="was not opened for table"):
        metastore.commit(wrong)
    request = CommitRequest("w", 1, (make_change(table, [make_file(attempt)]),), attempt)
    metastore.commit(request)
    with pytest.raises(CommitConflict, match="was committed before") as error:
        metastore.commit(CommitRequest("w", 2, request.changes, attempt))
    assert (error.value.reason, error.value.metadata["retry"]) == ("ATTEMPT_COMMITTED", "never")
    with pytest.raises(CommitConflict, match="is committed, so its files are part of the table"):
        metastore.abandon_attempt(attempt)

    aborted = metastore.stage_attempt([table.table_uuid], "w").attempt_id
    metastore.abandon_attempt(aborted)
    metastore.abandon_attempt(aborted)
    with pytest.raises(CommitConflict, match="was given up, so its files may be deleted") as error:
        metastore.commit(CommitRequest("w", 2, (make_change(table, [make_file(aborted)]),), aborted))
    assert (error.value.reason, error.value.metadata["retry"]) == ("ATTEMPT_DOOMED", "replan")

    unknown = "f" * 32
    with pytest.raises(NotFound, match="never opened here"):
        metastore.commit(CommitRequest("w", 2, (make_change(table, [make_file(unknown)]),), unknown))
    with pytest.raises(NotFound, match="Delete no files on this answer"):
        metastore.abandon_attempt(unknown)
    with pytest.raises(InvalidArgument, match="names no attempt"):
        metastore.commit(CommitRequest("w", 2, (make_change(table, [make_file(unknown)]),)))
    assert snapshot_ids(metastore, table) == [1]


def test_attempts_opened_together_are_each_one_of_its_own(metastore: Metastore) -> None:
    """C4 holds for each of them by itself."""
    table = make_table(metastore)
    staged = metastore.stage_attempt([table.table_uuid], "w", count=3)
    first, second, third = staged.attempt_id, *staged.further_ids
    assert len({first, second, third}) == 3
    assert [info.table_uuid for info in staged.tables] == [table.table_uuid]
    metastore.abandon_attempt(second)
    requests = [
        CommitRequest("w", number, (make_change(table, [make_file(attempt)]),), attempt)
        for number, attempt in enumerate((third, second, first))
    ]
    metastore.commit(requests[0])
    with pytest.raises(CommitConflict, match="was given up"):
        metastore.commit(requests[1])
    metastore.commit(requests[2])
    with pytest.raises(CommitConflict, match="was committed before"):
        metastore.commit(CommitRequest("w", 9, requests[2].changes, first))
    assert snapshot_ids(metastore, table) == [1, 2]


def test_how_many_attempts_may_be_opened_at_once(metastore: Metastore) -> None:
    table = make_table(metastore)
    assert len(metastore.stage_attempt([table.table_uuid], "w", count=16).further_ids) == 15
    for count in (-1, 17):
        with pytest.raises(InvalidArgument, match=f"count is {count}\\. Give a number from 1 to 16"):
            metastore.stage_attempt([table.table_uuid], "w", count=count)
    attempt = metastore.stage_attempt([table.table_uuid], "w").attempt_id
    with pytest.raises(InvalidArgument, match=r"count is 2\. Leave it out where tables join"):
        metastore.stage_attempt([table.table_uuid], "w", attempt_id=attempt, count=2)


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "data/{attempt}/../../x.parquet",
        "data/{attempt}/..",
        "data/{attempt}/.hidden",
        "data/{attempt}/",
        "data/{attempt}",
        "data/{other}/a.parquet",
        "data/{attempt}/a b.parquet",
        "data/{attempt}/a\nb.parquet",
        "data/{attempt}/ą.parquet",
        "data/{attempt}//a.parquet",
        "data/{attempt}/a.parquet\n",
        "s3://elsewhere/data/{attempt}/a.parquet",
        'data/{attempt}/a"}},{{"b.parquet',
    ],
)
def test_a_file_lies_in_the_folder_of_its_attempt(metastore: Metastore, path: str) -> None:
    table = make_table(metastore)
    attempt = metastore.stage_attempt([table.table_uuid], "w").attempt_id
    path = path.format(attempt=attempt, other="e" * 32)
    change = make_change(table, [make_file(attempt, path=path)])
    with pytest.raises(InvalidArgument, match="lie in the folder of its attempt") as error:
        metastore.commit(CommitRequest("w", 1, (change,), attempt))
    assert error.value.metadata["field"] == "path"


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ({"bucket": 4}, "has buckets 0 to 3"),
        ({"bucket": -1}, "bucket is -1"),
        ({"partition": b"x"}, "is not partitioned"),
        ({"schema_id": 1}, "written with schema 1, but its commit says 0"),
        ({"row_count": 3, "delete_count": 4}, "delete_count is 4"),
        ({"delete_count": -1}, "delete_count is -1"),
        ({"row_count": -1}, "row_count is -1"),
        ({"size_bytes": 0}, "size_bytes is 0"),
        ({"level": 128}, "level is 128"),
        ({"min_key": b"b", "max_key": b"a"}, "above max_key"),
        ({"min_key": b"x" * 70_000}, "at most 65536"),
    ],
)
def test_a_file_must_make_sense(metastore: Metastore, file: dict[str, Any], message: str) -> None:
    table = make_table(metastore)
    attempt = metastore.stage_attempt([table.table_uuid], "w").attempt_id
    change = make_change(table, [make_file(attempt, **file)], schema_id=0)
    with pytest.raises(InvalidArgument, match=message):
        metastore.commit(CommitRequest("w", 1, (change,), attempt))
    assert metastore.get_writer_progress("w", table.table_uuid).last_identifier is None


@pytest.mark.parametrize(
    "partition", [b"", b"x", day("mon")[:-1], day("mon") + b"\x00", day("mon") * 2, b"\x01\xff\x00\x00"]
)
def test_a_partition_must_be_one(metastore: Metastore, partition: bytes) -> None:
    table = make_table(metastore, partitioned=True)
    with pytest.raises(InvalidArgument, match="partition"):
        append(metastore, table, 1, partition=partition)
    assert snapshot_ids(metastore, table) == []


def test_buckets_of_a_table_without_buckets(metastore: Metastore) -> None:
    table = make_table(metastore, keyed=False)
    append(metastore, table, 1)
    with pytest.raises(InvalidArgument, match="has buckets 0 to 0"):
        append(metastore, table, 2, bucket=1)
