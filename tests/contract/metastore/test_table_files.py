"""What refers to files, and attempts that are over: doomed by age, forgotten when they are cleared away."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import CommitConflict, InvalidArgument, LakelogError, NotFound
from lakelog.format.commit.facts import AttemptState
from lakelog.format.commit.request import BucketRef, CommitRequest, RemovePartitions
from lakelog.format.retention.table_files import FileUse, UsedFile
from lakelog.format.tables.plan import PlanRequest
from lakelog.format.tables.snapshot import ChangelogState, SnapshotKind
from lakelog.format.tables.table import TableInfo
from metastore.postgres import table_files
from metastore.testing import InProcessMetastore
from tests.support.metastore.making import append, day, make_change, make_file, make_table, rewrite
from tests.support.metastore.opening import open_in_process


def stage(metastore: Metastore, *tables: TableInfo, writer: str = "w") -> str:
    return metastore.stage_attempt([table.table_uuid for table in tables], writer).attempt_id


def list_used(metastore: Metastore, table: TableInfo, limit: int) -> list[list[UsedFile]]:
    pages, cursor = [], ""
    while True:
        page = metastore.list_used_files(table.table_uuid, cursor, limit)
        pages.append(list(page.files))
        cursor = page.cursor
        if not cursor:
            return pages


def states(metastore: Metastore, table: TableInfo, *attempts: str) -> dict[str, AttemptState]:
    found = metastore.find_used_files(table.table_uuid, [f"data/{each}/x.parquet" for each in attempts])
    return {each.attempt_id: each.state for each in found.attempts}


def test_it_returns_what_refers_to_a_file(metastore: Metastore) -> None:
    table, other = make_table(metastore), make_table(metastore)
    attempt = stage(metastore, table)
    files = [
        make_file(attempt, "a", size_bytes=11, deletion_vector_path=f"data/{attempt}/p.parquet"),
        make_file(attempt, "b"),
    ]
    change = make_change(
        table,
        files,
        changelog=ChangelogState.ATTACHED,
        changelog_files=(make_file(attempt, "c", size_bytes=33),),
        base_snapshot_id=0,
        unchanged_buckets=(BucketRef(b"", 0),),
    )
    metastore.commit(CommitRequest("w", 1, (change,), attempt))
    running = stage(metastore, table)
    paths = [f"data/{attempt}/{name}.parquet" for name in "abcpx"] + [f"data/{running}/a.parquet", "other/a.parquet"]
    found = metastore.find_used_files(table.table_uuid, paths)
    assert {each.path[-9]: (each.use, each.size_bytes) for each in found.files} == {
        "a": (FileUse.DATA, 11),
        "b": (FileUse.DATA, 1000),
        "c": (FileUse.CHANGELOG, 33),
        "p": (FileUse.DELETION_VECTORS, None),
    }
    ages = {each.attempt_id: each for each in found.attempts}
    assert {key: each.state for key, each in ages.items()} == {
        attempt: AttemptState.COMMITTED,
        running: AttemptState.OPEN,
    }
    assert all(0 <= each.age_ms < 60_000 for each in ages.values())
    # Another table refers to nothing here, and the attempts are none of its own.
    nothing = metastore.find_used_files(other.table_uuid, paths)
    assert (nothing.files, nothing.attempts) == ((), ())
    listed = [each for page in list_used(metastore, table, 1) for each in page]
    assert sorted(each.path for each in listed) == sorted(each.path for each in found.files)


def test_files_are_listed_page_by_page(metastore: Metastore) -> None:
    table = make_table(metastore)
    for number in range(1, 4):
        append(metastore, table, number, names="ab")
    assert list_used(metastore, make_table(metastore), 10)[-1] == []
    pages = list_used(metastore, table, 4)
    assert max(len(page) for page in pages) == 4
    paths = [each.path for page in pages for each in page]
    assert sorted(paths) == sorted(metastore.plan(PlanRequest(table.table_uuid)).files.column("path").to_pylist())


def test_partitions_are_listed_with_what_is_live_in_them(metastore: Metastore) -> None:
    table = make_table(metastore, partitioned=True)
    for number, name in enumerate(["a", "b", None, "a", "c"], start=1):
        append(metastore, table, number, partition=day(name))
    change = make_change(table, kind=SnapshotKind.OVERWRITE, remove=RemovePartitions((day("c"),)))
    metastore.commit(CommitRequest("w", 6, (change,)))
    uuid = table.table_uuid
    times = [each.committed_at_ms for each in metastore.list_snapshots(uuid).snapshots]
    page = metastore.list_partition_files(uuid)
    found = {each.partition: (each.files, each.rows, each.size_bytes, each.updated_at_ms) for each in page.partitions}
    assert found == {
        day("a"): (2, 20, 2000, times[3]),
        day("b"): (1, 10, 1000, times[1]),
        day(None): (1, 10, 1000, times[2]),
    }
    assert (page.snapshot_id, page.is_last, list(found)) == (6, True, sorted(found))
    assert page.now_ms >= times[5]
    first = metastore.list_partition_files(uuid, None, 2)
    assert (len(first.partitions), first.is_last) == (2, False)
    second = metastore.list_partition_files(uuid, first.partitions[-1].partition, 2)
    assert (first.partitions + second.partitions, second.is_last) == (page.partitions, True)
    # What a compaction writes is as old as what it was made of.
    rewrite(metastore, table, 1, 1, 4, file={"partition": day("a"), "row_count": 20})
    again = {each.partition: each for each in metastore.list_partition_files(uuid).partitions}
    assert (again[day("a")].files, again[day("a")].updated_at_ms) == (1, times[3])
    with pytest.raises(InvalidArgument, match="has no partitions"):
        metastore.list_partition_files(make_table(metastore).table_uuid)


def test_only_attempts_that_are_open_for_long_are_aborted(metastore: Metastore) -> None:
    table, other = make_table(metastore), make_table(metastore)
    old, given_up, of_other = stage(metastore, table), stage(metastore, table), stage(metastore, other)
    metastore.abandon_attempt(given_up)
    committed = stage(metastore, table)
    metastore.commit(CommitRequest("w", 1, (make_change(table, [make_file(committed)]),), committed))
    attempts = [old, given_up, of_other, committed, "0" * 32]
    assert metastore.abort_attempts(table.table_uuid, attempts, 60_000) == [given_up]
    assert states(metastore, table, *attempts)[old] is AttemptState.OPEN
    assert set(metastore.abort_attempts(table.table_uuid, attempts, 0)) == {old, given_up}
    assert set(metastore.abort_attempts(table.table_uuid, attempts, 0)) == {old, given_up}
    with pytest.raises(CommitConflict, match="was given up"):
        metastore.commit(CommitRequest("w", 2, (make_change(table, [make_file(old)]),), old))
    metastore.commit(CommitRequest("w", 2, (make_change(other, [make_file(of_other)]),), of_other))


def test_what_is_over_is_listed_oldest_first_and_forgotten(metastore: Metastore) -> None:
    table, other = make_table(metastore), make_table(metastore)
    first, second, shared = stage(metastore, table), stage(metastore, table), stage(metastore, table, other)
    append(metastore, table, 1)
    metastore.abandon_attempt(second)
    uuid = table.table_uuid
    assert metastore.list_unfinished_attempts(uuid, open_ms=60_000, aborted_ms=60_000) == []
    found = metastore.list_unfinished_attempts(uuid, open_ms=0, aborted_ms=0)
    assert [each.attempt_id for each in found] == [first, second, shared]
    assert [each.attempt_id for each in metastore.list_unfinished_attempts(uuid, open_ms=0, aborted_ms=0, limit=1)] == [
        first
    ]
    aborted = metastore.list_unfinished_attempts(uuid, open_ms=60_000, aborted_ms=0)
    assert [each.attempt_id for each in aborted] == [second]
    # What is open is not forgotten.
    assert metastore.forget_attempts(uuid, [first, second]) == 1
    assert metastore.forget_attempts(uuid, [first, second]) == 0
    assert states(metastore, table, first, second) == {first: AttemptState.OPEN}
    with pytest.raises(NotFound, match=f"Attempt {second} is not known"):
        metastore.abandon_attempt(second)
    # One of two tables is known until it is cleared away below both.
    metastore.abandon_attempt(shared)
    assert metastore.forget_attempts(uuid, [shared]) == 1
    assert states(metastore, other, shared) == {shared: AttemptState.ABORTED}
    metastore.abandon_attempt(shared)
    assert metastore.forget_attempts(other.table_uuid, [shared]) == 1
    with pytest.raises(NotFound, match="not known"):
        metastore.commit(CommitRequest("w", 2, (make_change(table, [make_file(shared)]),), shared))


def test_what_is_not_possible_is_refused(metastore: Metastore) -> None:
    uuid = make_table(metastore).table_uuid
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: metastore.find_used_files("x", ["data/a"]), "table_uuid is 'x'"),
        (lambda: metastore.find_used_files(uuid, []), "paths is 0"),
        (lambda: metastore.find_used_files(uuid, ["a"] * 10_001), "paths is 10001"),
        (lambda: metastore.find_used_files(uuid, ["../a"]), r"paths is '\.\./a'"),
        (lambda: metastore.list_used_files(uuid, "nonsense"), "cursor is 'nonsense'"),
        (lambda: metastore.list_used_files(uuid, "data:x:0"), "cursor is 'data:x:0'"),
        (lambda: metastore.list_used_files(uuid, "", 0), "limit is 0"),
        (lambda: metastore.list_unfinished_attempts(uuid, open_ms=-1, aborted_ms=0), "open_ms is -1"),
        (
            lambda: metastore.list_unfinished_attempts(uuid, open_ms=2**62, aborted_ms=0),
            "open_ms is 4611686018427387904",
        ),
        (
            lambda: metastore.list_unfinished_attempts(uuid, open_ms=0, aborted_ms=2**62),
            "aborted_ms is 4611686018427387904",
        ),
        (lambda: metastore.abort_attempts(uuid, ["0" * 32], 2**62), "open_ms is 4611686018427387904"),
        (lambda: metastore.list_used_files(uuid, f"data:{2**70}:0"), "cursor is 'data:1180591620717411303424:0'"),
        (lambda: metastore.list_used_files(uuid, "data:-1:0"), "cursor is 'data:-1:0'"),
        (lambda: metastore.list_used_files(uuid, f"changelog:1:{2**40}"), "cursor is 'changelog:1:1099511627776'"),
        (lambda: metastore.list_used_files(uuid, "positions:1:0"), "cursor is 'positions:1:0'"),
        (lambda: metastore.list_used_files(uuid, "-1"), "cursor is '-1'"),
        (lambda: metastore.abort_attempts(uuid, ["x"], 0), "attempt_ids is 'x'"),
        (lambda: metastore.abort_attempts(uuid, [], 0), "attempt_ids is 0"),
        (lambda: metastore.abort_attempts(uuid, ["0" * 32], -1), "open_ms is -1"),
        (lambda: metastore.forget_attempts(uuid, []), "attempt_ids is 0"),
    ]
    for call, message in calls:
        with pytest.raises(InvalidArgument, match=message):
            call()


def test_files_of_a_dropped_table_are_not_reported(metastore: Metastore) -> None:
    table = make_table(metastore)
    metastore.drop_table(table.name)
    for call in (
        lambda: metastore.find_used_files(table.table_uuid, ["a"]),
        lambda: metastore.list_used_files(table.table_uuid),
        lambda: metastore.list_unfinished_attempts(table.table_uuid, open_ms=0, aborted_ms=0),
        lambda: metastore.abort_attempts(table.table_uuid, ["0" * 32], 0),
    ):
        with pytest.raises(NotFound, match="was dropped at"):
            call()


@pytest.fixture
def postgres(migrated_url: str) -> Iterator[InProcessMetastore]:
    opened = open_in_process(migrated_url)
    yield opened
    opened.close()


def collect_while_a_writer_commits(metastore: Metastore) -> str:
    """C4: what the collector takes for abandoned is committed a moment later, and the collector deletes its files."""
    table = make_table(metastore)
    attempt = stage(metastore, table)
    may_delete = metastore.abort_attempts(table.table_uuid, [attempt], 0)
    try:
        metastore.commit(CommitRequest("w", 1, (make_change(table, [make_file(attempt)]),), attempt))
    except LakelogError:
        return "" if may_delete == [attempt] else "refused, and not cleared"
    return "a live file is deleted" if may_delete else ""


def test_nothing_is_deleted_that_can_be_committed(postgres: InProcessMetastore) -> None:
    assert collect_while_a_writer_commits(postgres) == ""


def test_control_without_aborting_first_a_live_file_is_deleted(
    postgres: InProcessMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported = table_files.PostgresTableFiles.find_attempts

    async def as_if_aborted(self: object, table_uuid: str, attempt_ids: list[str]) -> list[object]:
        found = await reported(self, table_uuid, attempt_ids)  # type: ignore[arg-type]
        return [replace(each, state=AttemptState.ABORTED) for each in found]

    # The collector goes by age alone, and dooms nothing.
    monkeypatch.setattr(
        table_files.PostgresTableFiles,
        "abort_attempts_sql",
        "SELECT %s::text, %s::text, %s::bigint, %s::text, %s::bigint",
    )
    monkeypatch.setattr(table_files.PostgresTableFiles, "find_attempts", as_if_aborted)
    assert collect_while_a_writer_commits(postgres) == "a live file is deleted"
