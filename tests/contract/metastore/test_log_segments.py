"""What commits bring to external logs: by which rules it is taken, how it is planned, and when it goes."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import CommitConflict, InvalidArgument
from lakelog.format.commit.request import CommitRequest, RemoveEverything
from lakelog.format.tables.files import ColumnStatistics
from lakelog.format.tables.plan import AtSnapshot, InRange, PlanRequest
from lakelog.format.tables.snapshot import ChangelogState, LogContent, SnapshotKind
from lakelog.reads.log.plan import plan_log
from tests.contract.metastore.log_tables import commit_segments, make_log_table, plan_names
from tests.support.metastore.making import append, compaction, empty, make_change, make_file, make_table, rewrite

DATA, CHANGELOG, SEGMENTS, NONE = LogContent.DATA, LogContent.CHANGELOG, LogContent.SEGMENTS, LogContent.NONE
ATTACHED, PENDING = ChangelogState.ATTACHED, ChangelogState.PENDING


def test_a_snapshot_reports_what_it_brings_to_the_log(metastore: Metastore) -> None:
    table = make_log_table(metastore)
    result = commit_segments(metastore, table, 1, "ab", buckets=[1, 0])
    commit_segments(metastore, table, 2, sent_offsets={0: 7, 3: 2**40})
    first, second = metastore.list_snapshots(table.table_uuid).snapshots
    assert (first.log, first.attempt_id, first.sent_offsets) == (SEGMENTS, result.attempt_id, None)
    assert (second.log, second.sent_offsets) == (SEGMENTS, {0: 7, 3: 2**40})
    # Segments are no part of the state.
    assert (second.total_files, second.total_rows, second.added_files) == (3, 30, 1)
    assert plan_names(metastore, table, 0, 2) == ["log-b1", "log-a1", "log-a2"]
    assert plan_names(metastore, table, 1, 2) == ["log-a2"]


def test_streams_of_changes_know_nothing_of_segments(metastore: Metastore) -> None:
    table = make_log_table(metastore)
    commit_segments(metastore, table, 1)
    request = PlanRequest(table.table_uuid, InRange(0, 1), changelog=True)
    assert metastore.plan(request).files.num_rows == 0
    state = metastore.plan(PlanRequest(table.table_uuid)).files
    assert [path.split("/")[-1] for path in state.column("path").to_pylist()] == ["a1.parquet"]


@pytest.mark.parametrize(
    ("keyed", "options", "wanted"),
    [
        (True, {}, SEGMENTS),
        (True, {"changelog-producer": "input"}, CHANGELOG),
        (True, {"changelog-producer": "lookup"}, SEGMENTS),
        (True, {"changelog-producer": "lookup", "log.content": "changelog"}, CHANGELOG),
        (False, {}, DATA),
    ],
)
def test_each_table_wants_its_own(
    metastore: Metastore, keyed: bool, options: dict[str, str], wanted: LogContent
) -> None:
    table = make_log_table(metastore, keyed=keyed, options=options)
    for identifier, said in enumerate(LogContent):
        change: dict[str, Any] = {"changelog": ATTACHED if keyed else ChangelogState.NONE, "log": said}
        if said is CHANGELOG:
            change["changelog"] = ATTACHED
        if said is not SEGMENTS:
            change["log_files"] = ()
        if said is wanted:
            commit_segments(metastore, table, identifier, **change)
        else:
            with pytest.raises(
                CommitConflict, match="must come: the table was altered, or the writer is of a version"
            ) as caught:
                commit_segments(metastore, table, identifier, **change)
            assert caught.value.reason == "LOG_CONTENT_CHANGED"
            assert caught.value.metadata["needed"] == wanted.value
            assert caught.value.metadata["retry"] == "never"
    assert [each.log for each in metastore.list_snapshots(table.table_uuid).snapshots] == [wanted]


def test_a_table_without_a_log_takes_nothing_for_it(metastore: Metastore) -> None:
    table = make_table(metastore)
    with pytest.raises(CommitConflict, match=r"brings log segments to its external log, but nothing must come"):
        commit_segments(metastore, table, 1)
    append(metastore, table, 1)


def test_a_writer_that_knows_the_table_as_it_was_is_refused(metastore: Metastore) -> None:
    table = make_log_table(metastore)
    commit_segments(metastore, table, 1)
    metastore.alter_table(table.table_uuid, set_options={"changelog-producer": "input"}, unset_options=[])
    with pytest.raises(CommitConflict, match=r"brings log segments .* but its changelog files must come"):
        commit_segments(metastore, table, 2)
    # What was applied before is answered all the same, and what brings no rows needs not know.
    assert commit_segments(metastore, table, 1).results[0].snapshot_id == 1
    metastore.commit(empty(table, 3))
    assert [each.log for each in metastore.list_snapshots(table.table_uuid).snapshots] == [SEGMENTS, NONE]


def test_overwrites_and_compactions_bring_nothing(metastore: Metastore) -> None:
    table = make_log_table(metastore)
    commit_segments(metastore, table, 1)
    rewrite(metastore, table, 2, 1)
    attempt = metastore.stage_attempt([table.table_uuid], "w").attempt_id
    overwrite = make_change(table, [make_file(attempt)], kind=SnapshotKind.OVERWRITE, remove=RemoveEverything())
    for refused in (overwrite, compaction(table, [make_file(attempt)], [2])):
        change = dataclasses.replace(refused, log=SEGMENTS, log_files=(make_file(attempt, "log"),))
        with pytest.raises(InvalidArgument, match="Only what an APPEND brings goes to the external log"):
            metastore.commit(CommitRequest("w", 3, (change,), attempt))
    metastore.commit(CommitRequest("w", 3, (overwrite,), attempt))
    commit_segments(metastore, table, 4)
    assert [each.log for each in metastore.list_snapshots(table.table_uuid).snapshots] == [
        SEGMENTS,
        NONE,
        NONE,
        SEGMENTS,
    ]
    assert plan_names(metastore, table, 0, 4) == ["log-a1", "log-a4"]


def test_an_append_table_is_planned_by_what_commits_brought(metastore: Metastore) -> None:
    table = make_log_table(metastore, keyed=False)
    for identifier in (1, 2, 3):
        commit_segments(metastore, table, identifier, "ba", log=DATA, log_files=())
    rewrite(metastore, table, 4, 1, 2, 3, 4, names="z", file={"row_count": 40})
    commit_segments(metastore, table, 5, "c", log=DATA, log_files=())
    # In the order of the commits' lists, and nothing of what the compaction wrote.
    assert plan_names(metastore, table, 0, 5) == ["b1", "a1", "b2", "a2", "b3", "a3", "c5"]
    assert plan_names(metastore, table, 3, 4) == []


def test_a_data_file_may_be_its_own_segment(metastore: Metastore) -> None:
    table = make_log_table(metastore)
    commit_segments(metastore, table, 1, "ab", buckets=[0, 1], own=False)
    assert plan_names(metastore, table, 0, 1) == ["a1", "b1"]
    attempt = metastore.stage_attempt([table.table_uuid], "w").attempt_id
    data = make_file(attempt)
    for other in (dataclasses.replace(data, row_count=11), dataclasses.replace(data, bucket=1)):
        change = make_change(table, [data], log=SEGMENTS, log_files=(other,))
        with pytest.raises(InvalidArgument, match="describe it as it is there"):
            metastore.commit(CommitRequest("w", 2, (change,), attempt))


def test_the_order_is_that_of_the_log(metastore: Metastore) -> None:
    table = make_log_table(metastore)
    commit_segments(metastore, table, 1, "cab", buckets=[2, 0, 2])
    metastore.commit(empty(table, 2))
    commit_segments(metastore, table, 3, "ab", buckets=[3, 1], own=False)
    assert plan_names(metastore, table, 0, 3) == ["log-a1", "log-c1", "log-b1", "b3", "a3"]
    plan = plan_log(metastore, table.table_uuid, 0, 3)
    shown = [(each.snapshot.snapshot_id, each.bucket, each.first_index, each.row_count) for each in plan.chunks]
    assert shown == [(1, 0, 0, 10), (1, 2, 10, 20), (3, 1, 0, 10), (3, 3, 10, 10)]
    assert plan_log(metastore, table.table_uuid, 1, 2).chunks == ()


def test_a_changelog_that_is_open_is_no_log_yet(metastore: Metastore) -> None:
    options = {"changelog-producer": "lookup", "log.content": "changelog", "lookup-wait": "false"}
    table = make_log_table(metastore, options=options)
    commit_segments(metastore, table, 1, changelog=ATTACHED, log=CHANGELOG, log_files=())
    commit_segments(metastore, table, 2, changelog=PENDING, log=CHANGELOG, log_files=())
    first, second = metastore.list_snapshots(table.table_uuid).snapshots
    assert (first.changelog, second.changelog) == (ATTACHED, PENDING)
    assert first.log is second.log is CHANGELOG
    plan = plan_log(metastore, table.table_uuid, 0, 2)
    assert [each.snapshot_id for each in plan.snapshots] == [1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"log_files": ()}, "The data files hold 10 rows: segments hold all that came in"),
        ({"log": NONE}, "log says 'none': say SEGMENTS, or leave them out"),
        ({"log": CHANGELOG, "log_files": ()}, "changelog is 'none', so that there are no files to send"),
        ({"sent_offsets": {0: 0}}, "the offset after the last record, from 1"),
        ({"sent_offsets": {65_536: 1}}, "Give partitions from 0 to 65535"),
        ({"sent_offsets": {-1: 1}}, "Give partitions from 0 to 65535"),
        ({"log": NONE, "log_files": (), "sent_offsets": {}}, "log says that nothing goes to the log"),
    ],
)
def test_what_contradicts_itself_is_refused(metastore: Metastore, change: dict[str, Any], message: str) -> None:
    table = make_log_table(metastore)
    with pytest.raises(InvalidArgument, match=message):
        commit_segments(metastore, table, 1, **change)


def test_segments_are_named_as_files_are(metastore: Metastore) -> None:
    table = make_log_table(metastore)
    attempt = metastore.stage_attempt([table.table_uuid], "w").attempt_id
    other = metastore.stage_attempt([table.table_uuid], "w").attempt_id
    data, good = make_file(attempt), make_file(attempt, "log")
    refused: list[tuple[tuple[Any, ...], str]] = [
        ((good, good), "Name each log segment once"),
        ((make_file(other, "log"),), "a commit's files lie in the folder of its attempt"),
        ((dataclasses.replace(good, bucket=4),), "has buckets 0 to 3"),
        ((dataclasses.replace(good, size_bytes=0),), "which is not empty"),
        ((dataclasses.replace(good, statistics=(ColumnStatistics(1, 0, None, None),)),), "a log is read as a whole"),
        ((dataclasses.replace(good, partition=b"x"),), "has a partition, but"),
        ((dataclasses.replace(good, schema_id=1),), "was written with schema 1"),
    ]
    for files, message in refused:
        change = make_change(table, [data], log=SEGMENTS, log_files=files)
        with pytest.raises(InvalidArgument, match=message):
            metastore.commit(CommitRequest("w", 1, (change,), attempt))


def test_a_log_is_planned_as_a_whole(metastore: Metastore) -> None:
    table = make_log_table(metastore)
    commit_segments(metastore, table, 1)
    whole = PlanRequest(table.table_uuid, InRange(0, 1), log=True)
    for request, message in (
        (PlanRequest(table.table_uuid, AtSnapshot(1), log=True), "A state has no log"),
        (dataclasses.replace(whole, changelog=True), "not for both"),
        (dataclasses.replace(whole, buckets=(1,)), "planned as a whole"),
        (dataclasses.replace(whole, first_key=b"a"), "planned as a whole"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            metastore.plan(request)


def test_segments_stay_beside_a_changelog_that_comes_later(metastore: Metastore) -> None:
    table = make_log_table(metastore, options={"changelog-producer": "lookup", "lookup-wait": "false"})
    commit_segments(metastore, table, 1, changelog=PENDING)
    assert plan_names(metastore, table, 0, 1) == ["log-a1"]
