"""What a commit does: snapshots, totals, order, idempotency. Rules by number are those of the semantics' page."""

from __future__ import annotations

import pytest

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import CommitConflict, InvalidArgument, NotFound
from lakelog.format.commit.request import CommitRequest, RemoveFiles
from lakelog.format.tables.plan import PlanRequest
from lakelog.format.tables.snapshot import SnapshotKind
from tests.support.metastore.making import append, empty, make_change, make_file, make_table, snapshot_ids


def test_snapshots_are_numbered_chained_and_counted(metastore: Metastore) -> None:
    table = make_table(metastore)
    for n in (1, 2, 3):
        result = append(metastore, table, n, names="ab", row_count=n)
        assert result.results[0].snapshot_id == n
    page = metastore.list_snapshots(table.table_uuid)
    assert (page.earliest_snapshot_id, page.latest_snapshot_id) == (1, 3)
    first, second, third = page.snapshots
    assert first.parent_uuid == ""
    assert (second.parent_uuid, third.parent_uuid) == (first.snapshot_uuid, second.snapshot_uuid)
    assert (third.total_rows, third.total_files, third.total_bytes) == (12, 6, 6000)
    assert (third.added_rows, third.added_files, third.removed_files) == (6, 2, 0)
    assert (third.writer, third.identifier, third.kind, third.schema_id) == ("w", 3, SnapshotKind.APPEND, 0)
    assert first.committed_at_ms <= second.committed_at_ms <= third.committed_at_ms
    assert metastore.get_table(table.name).latest_snapshot_id == 3


def test_files_get_ids_and_places_in_the_order_given(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1, names="ba")
    append(metastore, table, 2, names="dc")
    files = metastore.plan(PlanRequest(table.table_uuid)).files.to_pylist()
    assert [file["path"][-9:] for file in files] == ["b.parquet", "a.parquet", "d.parquet", "c.parquet"]
    places = [(file["added_snapshot"], file["order_snapshot"], file["order_ordinal"]) for file in files]
    assert places == [(1, 1, 0), (1, 1, 1), (2, 2, 0), (2, 2, 1)]
    assert [file["file_id"] for file in files] == [1, 2, 3, 4]


def test_a_repeat_is_answered_with_the_first_result(metastore: Metastore) -> None:
    """7.1, C2."""
    table = make_table(metastore)
    attempt = metastore.stage_attempt([table.table_uuid], "w").attempt_id
    request = CommitRequest("w", 7, (make_change(table, [make_file(attempt)]),), attempt)
    first = metastore.commit(request)
    append(metastore, table, 8)
    assert metastore.commit(request) == first
    assert snapshot_ids(metastore, table) == [1, 2]


def test_a_repeat_under_another_attempt_names_the_winner_and_aborts_the_loser(metastore: Metastore) -> None:
    table = make_table(metastore)
    first = append(metastore, table, 7)
    loser = metastore.stage_attempt([table.table_uuid], "w").attempt_id
    repeated = metastore.commit(CommitRequest("w", 7, (make_change(table, [make_file(loser)]),), loser))
    assert repeated == first
    assert repeated.attempt_id != loser
    with pytest.raises(CommitConflict, match="was given up") as error:
        metastore.commit(CommitRequest("w", 8, (make_change(table, [make_file(loser)]),), loser))
    assert error.value.reason == "ATTEMPT_DOOMED"
    assert snapshot_ids(metastore, table) == [1]


def test_a_writers_name_is_its_own_in_each_table(metastore: Metastore) -> None:
    one, other = make_table(metastore), make_table(metastore)
    append(metastore, one, 1)
    append(metastore, other, 1)
    assert snapshot_ids(metastore, one) == snapshot_ids(metastore, other) == [1]


def test_an_empty_commit_makes_no_snapshot_but_counts(metastore: Metastore) -> None:
    """7.1."""
    table = make_table(metastore)
    result = metastore.commit(CommitRequest("w", 1, (make_change(table, properties={"k": "v"}),)))
    assert result.results[0].snapshot_id is None
    assert (result.results[0].snapshot_uuid, result.results[0].committed_at_ms) == ("", 0)
    progress = metastore.get_writer_progress("w", table.table_uuid)
    assert (progress.last_identifier, progress.snapshot_id, dict(progress.properties)) == (1, None, {"k": "v"})
    assert metastore.commit(CommitRequest("w", 1, (make_change(table, allow_empty=True),))) == result
    assert snapshot_ids(metastore, table) == []
    assert metastore.commit(empty(table, 2)).results[0].snapshot_id == 1


def test_progress_is_that_of_the_highest_identifier(metastore: Metastore) -> None:
    table = make_table(metastore)
    progress = metastore.get_writer_progress("w", table.table_uuid)
    assert (progress.last_identifier, progress.snapshot_id, dict(progress.properties), progress.epoch) == (
        None,
        None,
        {},
        0,
    )
    for identifier in (5, 9, 3):
        metastore.commit(empty(table, identifier))
    assert metastore.get_writer_progress("w", table.table_uuid).last_identifier == 9
    assert metastore.get_writer_progress("w", table.table_uuid).snapshot_id == 2
    assert metastore.get_writer_progress("other", table.table_uuid).last_identifier is None


def test_identifiers_that_must_follow_each_other(metastore: Metastore) -> None:
    """C2: a gap is refused where the writer numbers densely."""
    table = make_table(metastore)
    metastore.commit(empty(table, 0, previous_identifier=-1))
    metastore.commit(empty(table, 1, previous_identifier=0))
    with pytest.raises(CommitConflict, match=r"last committed identifier 1 .*\(3\) is meant to follow 2") as error:
        metastore.commit(empty(table, 3, previous_identifier=2))
    assert (error.value.reason, error.value.metadata["retry"]) == ("IDENTIFIER_GAP", "never")
    assert error.value.metadata["last_identifier"] == "1"
    assert metastore.commit(empty(table, 1, previous_identifier=0)).results[0].snapshot_id == 2
    with pytest.raises(CommitConflict, match="last committed nothing"):
        metastore.commit(empty(table, 5, writer="new", previous_identifier=4))
    assert snapshot_ids(metastore, table) == [1, 2]


def test_the_watermark_never_falls(metastore: Metastore) -> None:
    """7.4."""
    table = make_table(metastore)
    for n, watermark in enumerate([None, 1024, 600, None, 2048]):
        change = make_change(table, allow_empty=True, watermark_ms=watermark)
        metastore.commit(CommitRequest("w", n, (change,)))
    snapshots = metastore.list_snapshots(table.table_uuid).snapshots
    assert [snapshot.watermark_ms for snapshot in snapshots] == [None, 1024, 1024, 1024, 2048]


def test_properties_are_remembered_with_the_snapshot(metastore: Metastore) -> None:
    table = make_table(metastore)
    properties = {"source": 'a "quoted" \\ {thing}, żółć', "empty": ""}
    metastore.commit(CommitRequest("w", 1, (make_change(table, allow_empty=True, properties=properties),)))
    assert dict(metastore.list_snapshots(table.table_uuid).snapshots[0].properties) == properties
    assert dict(metastore.get_writer_progress("w", table.table_uuid).properties) == properties


@pytest.mark.parametrize("writer", ['a "b" \\ c', "żółć/{x,y}", "NULL", "null", "x" * 256, "'; --", "%s %(x)s"])
def test_any_writer_name_will_do(metastore: Metastore, writer: str) -> None:
    table = make_table(metastore)
    result = append(metastore, table, 1, writer=writer)
    assert metastore.list_snapshots(table.table_uuid).snapshots[0].writer == writer
    assert metastore.commit(empty(table, 1, writer=writer)) == result
    assert metastore.get_writer_progress(writer, table.table_uuid).last_identifier == 1


def test_several_tables_at_once_are_all_or_nothing(metastore: Metastore) -> None:
    one, other = make_table(metastore), make_table(metastore)
    attempt = metastore.stage_attempt([one.table_uuid, other.table_uuid], "w").attempt_id
    changes = (
        make_change(other, [make_file(attempt, "a")]),
        make_change(one, [make_file(attempt, "b"), make_file(attempt, "c")]),
    )
    result = metastore.commit(CommitRequest("w", 1, changes, attempt))
    assert [r.table_uuid for r in result.results] == [other.table_uuid, one.table_uuid]
    assert metastore.commit(CommitRequest("w", 1, changes, attempt)) == result
    assert snapshot_ids(metastore, one) == snapshot_ids(metastore, other) == [1]
    bad = make_change(other, kind=SnapshotKind.OVERWRITE, remove=RemoveFiles((99,)))
    with pytest.raises(CommitConflict, match="does not have: 99"):
        metastore.commit(CommitRequest("w", 2, (make_change(one, allow_empty=True), bad)))
    assert snapshot_ids(metastore, one) == [1]
    assert metastore.get_writer_progress("w", one.table_uuid).last_identifier == 1


def test_a_commit_that_only_some_tables_have_is_refused(metastore: Metastore) -> None:
    one, other = make_table(metastore), make_table(metastore)
    metastore.commit(empty(one, 1))
    changes = (make_change(one, allow_empty=True), make_change(other, allow_empty=True))
    with pytest.raises(CommitConflict, match=f"to {one.name} before, but not to the other tables") as error:
        metastore.commit(CommitRequest("w", 1, changes))
    assert (error.value.reason, error.value.metadata["retry"]) == ("PARTLY_APPLIED", "never")
    assert snapshot_ids(metastore, other) == []


def test_a_dropped_table_takes_no_commit(metastore: Metastore) -> None:
    table = make_table(metastore)
    attempt = metastore.stage_attempt([table.table_uuid], "w").attempt_id
    metastore.drop_table(table.name)
    with pytest.raises(NotFound, match="was dropped at"):
        metastore.commit(CommitRequest("w", 1, (make_change(table, [make_file(attempt)]),), attempt))


def test_snapshots_are_listed_from_either_end(metastore: Metastore) -> None:
    table = make_table(metastore)
    for n in range(10):
        metastore.commit(empty(table, n))

    def ids(**arguments: int | bool) -> list[int]:
        page = metastore.list_snapshots(table.table_uuid, **arguments)  # type: ignore[arg-type]
        assert (page.earliest_snapshot_id, page.latest_snapshot_id) == (1, 10)
        return [snapshot.snapshot_id for snapshot in page.snapshots]

    assert ids() == list(range(1, 11))
    assert ids(after=7) == [8, 9, 10]
    assert ids(after=2, until=4) == [3, 4]
    assert ids(limit=2) == [1, 2]
    assert ids(limit=2, newest=True) == [9, 10]
    assert ids(after=3, until=8, limit=2, newest=True) == [7, 8]
    assert ids(until=99) == list(range(1, 11))
    assert ids(after=10) == []
    with pytest.raises(InvalidArgument, match="limit is 10001"):
        metastore.list_snapshots(table.table_uuid, limit=10_001)


def test_a_table_without_snapshots(metastore: Metastore) -> None:
    table = make_table(metastore)
    page = metastore.list_snapshots(table.table_uuid)
    assert (page.snapshots, page.earliest_snapshot_id, page.latest_snapshot_id) == ((), 0, 0)


def test_a_pipeline_applies_in_order_and_goes_on_after_a_failure(metastore: Metastore) -> None:
    table = make_table(metastore)
    pipeline = metastore.open_commit_pipeline(max_in_flight=8)
    requests = [empty(table, n, previous_identifier=n - 1) for n in range(40)]
    requests.insert(20, empty(table, 77, previous_identifier=50))
    futures = [pipeline.submit(request) for request in requests]
    pipeline.close()
    failed = futures.pop(20)
    with pytest.raises(CommitConflict, match="meant to follow 50"):
        failed.result()
    assert [future.result().results[0].snapshot_id for future in futures] == list(range(1, 41))


def test_a_large_commit(metastore: Metastore) -> None:
    table = make_table(metastore)
    attempt = metastore.stage_attempt([table.table_uuid], "w").attempt_id
    files = [make_file(attempt, f"f{n}", bucket=n % 4) for n in range(5000)]
    metastore.commit(CommitRequest("w", 1, (make_change(table, files),), attempt))
    plan = metastore.plan(PlanRequest(table.table_uuid))
    assert plan.files.num_rows == 5000
    assert plan.files.column("file_id").to_pylist() == sorted(range(1, 5001), key=lambda n: ((n - 1) % 4, n))
