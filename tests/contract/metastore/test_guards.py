"""Guards of commits: what came since a snapshot refuses them, in the transaction in which they would take effect."""

from __future__ import annotations

import dataclasses
import itertools
import uuid
from typing import Any

import pytest

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import CommitConflict, HistoryDiverged, InvalidArgument, NotFound
from lakelog.format.commit import guards
from lakelog.format.commit.guards import (
    CHANGED_SINCE,
    GUARD_EXPIRED,
    MAX_GUARDED_PLACES,
    Places,
    guard_places,
    meet_guards,
)
from lakelog.format.commit.request import (
    BucketRef,
    CommitRequest,
    CommitResult,
    RemoveEverything,
    RemoveFiles,
    RemovePartitions,
    RemovePartitionValues,
    RestoreState,
    TableGuard,
)
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.format.tables.table import TableInfo, TableName
from tests.contract.metastore.expiring import expire
from tests.support.error_metadata import metadata_of
from tests.support.metastore.making import append, day, empty, make_change, make_file, make_table, rewrite


def write(
    metastore: Metastore,
    table: TableInfo,
    identifier: int,
    *,
    guarded: TableInfo | None = None,
    if_snapshot: int | None = None,
    places: Places | None = None,
    snapshot_uuid: str = "",
    file: dict[str, Any] | None = None,
    **change: Any,
) -> CommitResult:
    """A commit of the writer `me`, of one file where `file` says where, guarded."""
    attempt, files = "", []
    if file is not None:
        attempt = metastore.stage_attempt([table.table_uuid], "me").attempt_id
        files = [make_file(attempt, **file)]
    guards: tuple[TableGuard, ...] = ()
    if if_snapshot is not None:
        guard = TableGuard((guarded or table).table_uuid, if_snapshot, snapshot_uuid=snapshot_uuid)
        guards = (guard_places(guard, places or Places()),)
    request = CommitRequest("me", identifier, (make_change(table, files, **change),), attempt, guards=guards)
    return metastore.commit(request)


def latest(metastore: Metastore, table: TableInfo) -> int:
    assert isinstance(table.name, TableName)
    return metastore.get_table(table.name).latest_snapshot_id


def test_a_table_that_changed_since_refuses_and_names_who_did_it(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1)
    write(metastore, table, 1, if_snapshot=1, file={})
    other = append(metastore, table, 2, writer="other")
    with pytest.raises(CommitConflict) as error:
        write(metastore, table, 2, if_snapshot=2, file={"bucket": 3})
    message = error.value.message
    assert f"{table.name} has changed since snapshot 2 (if_snapshot=2): 'other' wrote to the table with" in message
    assert "snapshot 3 (APPEND, 20" in message
    assert message.endswith("Read the rows again at the newest snapshot, and write again.")
    assert error.value.reason == CHANGED_SINCE
    assert metadata_of(error.value) == {
        "guard": "if_snapshot",
        "table": str(table.name),
        "base": "2",
        "other_writer": "other",
        "snapshot_id": "3",
        "snapshot_kind": "APPEND",
        "committed_at_ms": str(other.results[0].committed_at_ms),
        "retry": "replan",
    }
    assert latest(metastore, table) == 3
    # What was refused had no effect: its identifier is free.
    assert write(metastore, table, 2, if_snapshot=3, file={}).results[0].snapshot_id == 4


def test_snapshot_0_is_the_table_before_any_commit(metastore: Metastore) -> None:
    table = make_table(metastore)
    write(metastore, table, 1, if_snapshot=0, if_unchanged=0, file={})
    for guard in ("if_snapshot", "if_unchanged"):
        with pytest.raises(CommitConflict, match=r"has changed since snapshot 0 \(if_"):
            write(metastore, table, 2, file={}, **{guard: 0})  # type: ignore[arg-type]


def test_what_changes_no_row_trips_no_guard(metastore: Metastore) -> None:
    """A compaction, a commit without files."""
    table = make_table(metastore)
    append(metastore, table, 1, names="ab")
    rewrite(metastore, table, 1, 1, 2)
    metastore.commit(empty(table, 2))
    assert latest(metastore, table) == 3
    write(metastore, table, 1, if_snapshot=1, if_unchanged=1, file={})


@pytest.mark.parametrize("guard", ["if_snapshot", "if_unchanged"])
@pytest.mark.parametrize("what", ["append", "overwrite", "rollback"])
def test_every_other_kind_of_commit_trips_both(metastore: Metastore, what: str, guard: str) -> None:
    table = make_table(metastore)
    append(metastore, table, 1)
    append(metastore, table, 2, names="b")
    if what == "append":
        append(metastore, table, 3)
    elif what == "overwrite":
        change = make_change(table, kind=SnapshotKind.OVERWRITE, remove=RemoveEverything())
        metastore.commit(CommitRequest("o", 1, (change,)))
    else:
        change = make_change(table, kind=SnapshotKind.OVERWRITE, remove=RestoreState(1))
        metastore.commit(CommitRequest("o", 1, (change,)))
    with pytest.raises(CommitConflict) as error:
        write(metastore, table, 1, file={}, **{guard: 2})  # type: ignore[arg-type]
    assert (error.value.metadata["snapshot_id"], error.value.metadata["snapshot_kind"]) == (
        "3",
        "APPEND" if what == "append" else "OVERWRITE",
    )


def test_a_bucket_is_guarded_by_the_files_that_a_change_adds(metastore: Metastore) -> None:
    table = make_table(metastore, partitioned=True)
    monday, tuesday = {"partition": day("mon")}, {"partition": day("tue")}
    append(metastore, table, 1, partition=day("mon"))
    append(metastore, table, 2, partition=day("mon"), bucket=1)
    write(metastore, table, 1, if_unchanged=1, file=monday)
    write(metastore, table, 2, if_unchanged=1, file={**tuesday, "bucket": 1})
    with pytest.raises(CommitConflict) as error:
        write(metastore, table, 3, if_unchanged=1, file={**monday, "bucket": 1})
    assert "(if_unchanged=1): 'w' wrote to bucket 1 of partition day=mon with snapshot 2" in error.value.message
    assert error.value.metadata["place"] == "bucket 1 of partition day=mon"
    # Our own commits count as well: who read before them has not seen their rows.
    with pytest.raises(CommitConflict, match="'me' wrote to bucket 0 of partition day=mon with snapshot 3"):
        write(metastore, table, 3, if_unchanged=2, file=monday)


def test_a_table_without_buckets_is_guarded_by_partitions(metastore: Metastore) -> None:
    table = make_table(metastore, partitioned=True, keyed=False)
    append(metastore, table, 1, partition=day("mon"))
    append(metastore, table, 2, partition=day(None))
    write(metastore, table, 1, if_unchanged=1, file={"partition": day("mon")})
    with pytest.raises(CommitConflict, match="wrote to partition day=NULL with snapshot 2"):
        write(metastore, table, 2, if_unchanged=1, file={"partition": day(None)})


@pytest.mark.parametrize("removal", [RemovePartitions((day("mon"),)), RemovePartitionValues({"day": day("mon")})])
def test_what_an_overwrite_describes_is_guarded_with_all_its_buckets(metastore: Metastore, removal: Any) -> None:
    table = make_table(metastore, partitioned=True)
    append(metastore, table, 1, partition=day("mon"))
    fields = {"kind": SnapshotKind.OVERWRITE, "remove": removal}
    append(metastore, table, 2, partition=day("tue"))
    write(metastore, table, 1, if_unchanged=1, **fields)
    append(metastore, table, 3, partition=day("mon"), bucket=2)
    with pytest.raises(CommitConflict, match="wrote to bucket 2 of partition day=mon with snapshot 4"):
        write(metastore, table, 2, if_unchanged=3, **fields)
    # It came back after it was emptied, and went again: all of that is a change.
    write(metastore, table, 2, if_unchanged=4, **fields)
    with pytest.raises(CommitConflict, match=r"'me' wrote to .* with snapshot 5"):
        write(metastore, table, 3, if_unchanged=4, **fields)


@pytest.mark.parametrize("removal", [RemoveEverything(), RestoreState(1)])
def test_who_takes_everything_touches_the_whole_table(metastore: Metastore, removal: Any) -> None:
    table = make_table(metastore, partitioned=True)
    append(metastore, table, 1, partition=day("mon"))
    append(metastore, table, 2, partition=day("tue"))
    fields = {"kind": SnapshotKind.OVERWRITE, "remove": removal}
    with pytest.raises(CommitConflict, match="'w' wrote to the table with snapshot 2"):
        write(metastore, table, 1, if_unchanged=1, **fields)
    write(metastore, table, 1, if_unchanged=2, **fields)


def test_files_that_are_named_are_touched(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1)
    append(metastore, table, 2, bucket=1)
    append(metastore, table, 3)
    with pytest.raises(CommitConflict, match="wrote to bucket 0 with snapshot 3"):
        write(metastore, table, 1, if_unchanged=2, kind=SnapshotKind.OVERWRITE, remove=RemoveFiles((1,)))
    write(metastore, table, 1, if_unchanged=2, kind=SnapshotKind.OVERWRITE, remove=RemoveFiles((2,)))


def test_a_table_is_guarded_without_being_written(metastore: Metastore) -> None:
    stock, orders = make_table(metastore), make_table(metastore)
    append(metastore, stock, 1)
    write(metastore, orders, 1, guarded=stock, if_snapshot=1, file={})
    append(metastore, stock, 2, writer="other")
    with pytest.raises(CommitConflict, match=f"{stock.name} has changed since snapshot 1.*'other'"):
        write(metastore, orders, 2, guarded=stock, if_snapshot=1, file={})
    assert (latest(metastore, stock), latest(metastore, orders)) == (2, 1)
    # The writer's numbers belong to the tables that it writes.
    assert metastore.get_writer_progress("me", stock.table_uuid).last_identifier is None
    metastore.drop_table(stock.name)
    with pytest.raises(NotFound):
        write(metastore, orders, 3, guarded=stock, if_snapshot=2, file={})


def test_what_was_read_of_a_table_is_guarded(metastore: Metastore) -> None:
    """Other buckets and partitions may change, and those that were read may not, also if nothing was there."""
    stock, orders = make_table(metastore, partitioned=True), make_table(metastore)
    monday, tuesday = day("mon"), day("tue")
    append(metastore, stock, 1, partition=monday)
    append(metastore, stock, 2, partition=monday, bucket=1)
    read: dict[str, Any] = {"guarded": stock, "if_snapshot": 1, "file": {}}
    write(metastore, orders, 1, places=Places(buckets=frozenset({BucketRef(monday, 0), BucketRef(tuesday, 1)})), **read)
    with pytest.raises(CommitConflict) as error:
        write(metastore, orders, 2, places=Places(buckets=frozenset({BucketRef(monday, 1)})), **read)
    assert "(if_snapshot=1): 'w' wrote to bucket 1 of partition day=mon with snapshot 2" in error.value.message
    assert (error.value.reason, error.value.metadata["place"]) == (CHANGED_SINCE, "bucket 1 of partition day=mon")
    write(metastore, orders, 2, places=Places(frozenset({tuesday})), **read)
    with pytest.raises(CommitConflict, match="wrote to bucket 1 of partition day=mon with snapshot 2"):
        write(metastore, orders, 3, places=Places(frozenset({monday, tuesday})), **read)
    with pytest.raises(CommitConflict, match="wrote to the table with snapshot 2"):
        write(metastore, orders, 3, **read)
    # A compaction of what was read changes nothing, an overwrite that removes its rows does.
    rewrite(metastore, stock, 1, 1, file={"partition": monday})
    write(metastore, orders, 3, places=Places(buckets=frozenset({BucketRef(monday, 0)})), **read)
    overwrite: dict[str, Any] = {"kind": SnapshotKind.OVERWRITE, "remove": RemovePartitions((monday,))}
    write(metastore, stock, 9, **overwrite)
    with pytest.raises(CommitConflict, match="'me' wrote to bucket 0 of partition day=mon"):
        write(metastore, orders, 4, places=Places(buckets=frozenset({BucketRef(monday, 0)})), **read)


def test_places_that_no_row_can_be_in_guard_nothing_and_are_refused(metastore: Metastore) -> None:
    plain, parted = make_table(metastore), make_table(metastore, partitioned=True)
    for table, partition in ((plain, day("mon")), (parted, b""), (parted, b"nonsense"), (parted, bytes(100_000))):
        for places in (Places(frozenset({partition})), Places(buckets=frozenset({BucketRef(partition, 0)}))):
            with pytest.raises(InvalidArgument, match=r"partitions? is .*b'"):
                write(metastore, plain, 1, guarded=table, if_snapshot=0, places=places, file={})
    with pytest.raises(InvalidArgument, match=r"guards.buckets.bucket is -1"):
        write(metastore, plain, 1, if_snapshot=0, places=Places(buckets=frozenset({BucketRef(b"", -1)})), file={})
    many = Places(buckets=frozenset(BucketRef(b"", number) for number in range(MAX_GUARDED_PLACES + 1)))
    with pytest.raises(InvalidArgument, match=r"10001 partitions and buckets.*for all tables, or none for one"):
        write(metastore, plain, 1, if_snapshot=0, places=many, file={})
    other = make_table(metastore)
    some = Places(buckets=frozenset(BucketRef(b"", number) for number in range(MAX_GUARDED_PLACES // 2 + 1)))
    halves = [guard_places(TableGuard(table.table_uuid, 0), some) for table in (plain, other)]
    request = CommitRequest("me", 1, (make_change(plain),), guards=tuple(halves))
    with pytest.raises(InvalidArgument, match="10002 partitions and buckets"):
        metastore.commit(request)
    # A client makes of them what is accepted.
    metastore.commit(dataclasses.replace(request, guards=meet_guards(halves)))


@pytest.mark.parametrize("compares", [True, False], ids=["protected", "control"])
def test_a_snapshot_that_was_lost_is_no_other_one(
    metastore: Metastore, monkeypatch: pytest.MonkeyPatch, compares: bool
) -> None:
    """After the database lost commits, their numbers are given again; the uuid tells who read a lost one."""
    table = make_table(metastore)
    uuids = [append(metastore, table, number).results[0].snapshot_uuid for number in (1, 2)]
    write(metastore, table, 1, if_snapshot=2, snapshot_uuid=uuids[1], file={})
    lost = uuid.uuid4().hex
    if not compares:
        monkeypatch.setattr(guards, "check_history", lambda head, snapshot_id, known, uuid: None)
        write(metastore, table, 2, if_snapshot=3, snapshot_uuid=lost, file={})
        return
    for base in (2, 3):
        with pytest.raises(HistoryDiverged, match=f"made against snapshot {base} as {lost}, but here it is"):
            write(metastore, table, 2, if_snapshot=base, snapshot_uuid=lost, file={})
    # No commits came yet after those that were lost.
    with pytest.raises(HistoryDiverged, match=f"made against snapshot 4 as {lost}, but the newest one here is 3"):
        write(metastore, table, 2, if_snapshot=4, snapshot_uuid=lost, file={})
    with pytest.raises(InvalidArgument, match=r"guards.snapshot_uuid is 'no'"):
        write(metastore, table, 2, if_snapshot=3, snapshot_uuid="no", file={})


def test_each_read_of_a_table_is_judged_by_itself(metastore: Metastore) -> None:
    """A transaction can have read a table at several snapshots, and one of them can be lost."""
    stock, orders = make_table(metastore), make_table(metastore)
    uuids = [append(metastore, stock, number, bucket=number).results[0].snapshot_uuid for number in (1, 2, 3)]

    def guard_bucket(bucket: int, snapshot: int, uuid: str) -> TableGuard:
        guard = TableGuard(stock.table_uuid, snapshot, snapshot_uuid=uuid)
        return guard_places(guard, Places(buckets=frozenset({BucketRef(b"", bucket)})))

    def order(identifier: int, *guards: TableGuard) -> CommitResult:
        attempt = metastore.stage_attempt([orders.table_uuid], "me").attempt_id
        change = make_change(orders, [make_file(attempt)])
        return metastore.commit(CommitRequest("me", identifier, (change,), attempt, guards=guards))

    # Bucket 2 was read after it had changed, bucket 1 before that.
    early, late = guard_bucket(1, 1, uuids[0]), guard_bucket(2, 2, uuids[1])
    for number, given in enumerate(itertools.permutations([early, late])):
        order(number, *given)
    for given in itertools.permutations([early, guard_bucket(3, 2, uuids[1])]):
        with pytest.raises(CommitConflict, match=r"since snapshot 2 .* wrote to bucket 3 with snapshot 3"):
            order(9, *given)
    for given in itertools.permutations([early, guard_bucket(2, 2, "e" * 32)]):
        with pytest.raises(HistoryDiverged, match="made against snapshot 2 as eeee"):
            order(9, *given)


def test_a_repeat_is_answered_before_any_guard(metastore: Metastore) -> None:
    table, other = make_table(metastore), make_table(metastore)
    first = write(metastore, table, 1, if_snapshot=0, if_unchanged=0, file={})
    append(metastore, table, 2)
    assert write(metastore, table, 1, if_snapshot=0, if_unchanged=0, file={}) == first
    # Nor does it matter that a guard says what cannot be, or that a guarded table is gone.
    assert write(metastore, table, 1, if_snapshot=99, file={}) == first
    metastore.drop_table(other.name)
    assert write(metastore, table, 1, guarded=other, if_snapshot=0, file={}) == first


def test_snapshots_that_are_not_there_yet(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1)
    for guard in ("if_snapshot", "if_unchanged"):
        with pytest.raises(InvalidArgument, match=f"{guard}=9 is no snapshot of {table.name}: its newest one is 1"):
            write(metastore, table, 1, file={}, **{guard: 9})  # type: ignore[arg-type]
        with pytest.raises(InvalidArgument, match=f"{guard} is -1"):
            write(metastore, table, 1, file={}, **{guard: -1})  # type: ignore[arg-type]


def test_what_no_one_can_know_any_more_is_refused(metastore: Metastore) -> None:
    """The bucket of the guard got nothing, which cannot be seen: what was taken away has expired."""
    table = make_table(metastore)
    for n in range(1, 7):
        append(metastore, table, n, names="a")
    rewrite(metastore, table, 1, 1, 2, 3, 4, 5, kind=SnapshotKind.OVERWRITE, file={"bucket": 1})
    append(metastore, table, 7, names="a", bucket=2)
    expire(metastore, table, retain_last=2)
    for guard, base in (("if_snapshot", 3), ("if_unchanged", 6)):
        with pytest.raises(CommitConflict, match=f"{guard}={base} cannot be checked: .* has expired") as error:
            write(metastore, table, 1, file={"bucket": 3}, **{guard: base})  # type: ignore[arg-type]
        assert (error.value.reason, error.value.metadata["retry"]) == (GUARD_EXPIRED, "replan")
    # What is known still decides.
    with pytest.raises(CommitConflict, match="with snapshot 8"):
        write(metastore, table, 1, if_snapshot=7, file={})
    write(metastore, table, 1, if_snapshot=8, if_unchanged=7, file={"bucket": 3})


def test_the_newest_snapshot_is_known_however_much_has_expired(metastore: Metastore) -> None:
    table = make_table(metastore)
    for n in range(1, 4):
        append(metastore, table, n)
    expire(metastore, table, retain_last=1)
    write(metastore, table, 1, if_snapshot=3, if_unchanged=3, file={})


def test_a_guarded_commit_is_judged_after_those_that_wait_with_it(metastore: Metastore) -> None:
    """While the first is under way the others wait: what shares a transaction with an append must see its rows."""
    table = make_table(metastore)
    append(metastore, table, 1)
    requests = []
    for number, (bucket, guarded) in enumerate([(3, False), (0, False), (0, True), (1, True), (1, True), (2, False)]):
        attempt = metastore.stage_attempt([table.table_uuid], "me").attempt_id
        change = make_change(table, [make_file(attempt, bucket=bucket)], if_unchanged=1 if guarded else None)
        requests.append(CommitRequest("me", number, (change,), attempt))
    pipeline = metastore.open_commit_pipeline(max_in_flight=8)
    answers = [pipeline.submit(request) for request in requests]
    pipeline.close()
    assert [answer.exception() is None for answer in answers] == [True, True, False, True, False, True]
    for answer, place in ((answers[2], "bucket 0"), (answers[4], "bucket 1")):
        error = answer.exception()
        assert isinstance(error, CommitConflict)
        assert (error.reason, error.metadata["place"]) == (CHANGED_SINCE, place)
    assert latest(metastore, table) == 5


def test_a_guard_stands_beside_what_a_changelog_assumes(metastore: Metastore) -> None:
    """The conflict over the guard comes first: looking old rows up again does not settle it."""
    table = make_table(metastore)
    append(metastore, table, 1)
    append(metastore, table, 2)
    fields: dict[str, Any] = {"base_snapshot_id": 1, "unchanged_buckets": (BucketRef(b"", 0),)}
    with pytest.raises(CommitConflict) as error:
        write(metastore, table, 1, if_unchanged=1, file={}, **fields)
    assert error.value.reason == CHANGED_SINCE


def test_values_of_a_column_that_does_not_partition_the_table_are_refused(metastore: Metastore) -> None:
    table = make_table(metastore, partitioned=True)
    append(metastore, table, 1, partition=day("a"))
    append(metastore, table, 2, partition=day("b"))
    with pytest.raises(InvalidArgument, match="has the partition columns day; use those"):
        write(
            metastore,
            table,
            3,
            kind=SnapshotKind.OVERWRITE,
            remove=RemovePartitionValues({"v": b""}),
            if_unchanged=1,
        )
