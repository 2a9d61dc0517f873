"""A commit with absurd numbers is refused itself; nobody's later commit, listing or expiry suffers from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import InternalError, InvalidArgument, LakelogError, ResourceExhausted
from lakelog.format.commit import totals
from lakelog.format.commit.request import CommitRequest, RemoveEverything, RemovePartitions
from lakelog.format.tables.snapshot import ChangelogState, SnapshotKind
from lakelog.format.tables.table import TableInfo
from metastore.commits import group
from metastore.store import validation
from metastore.store.limits import MAX_CHANGE_BYTES, MAX_CHANGE_ROWS, MAX_FILE_BYTES, MAX_FILE_ROWS, MAX_INT64
from metastore.testing import InProcessMetastore
from tests.support.metastore.making import append, make_change, make_file, make_table
from tests.support.metastore.opening import open_in_process


def add(metastore: Metastore, table: TableInfo, identifier: int, *, count: int = 1, **fields: Any) -> None:
    attempt = metastore.stage_attempt([table.table_uuid], "hostile").attempt_id
    files = [make_file(attempt, f"f{number}", **fields) for number in range(count)]
    metastore.commit(CommitRequest("hostile", identifier, (make_change(table, files),), attempt))


def overwrite(metastore: Metastore, table: TableInfo, identifier: int, remove: Any, **fields: Any) -> None:
    attempt = metastore.stage_attempt([table.table_uuid], "hostile").attempt_id
    change = make_change(table, [make_file(attempt, **fields)], kind=SnapshotKind.OVERWRITE, remove=remove)
    metastore.commit(CommitRequest("hostile", identifier, (change,), attempt))


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("row_count", {"row_count": MAX_INT64}),
        ("row_count", {"row_count": MAX_FILE_ROWS + 1}),
        ("size_bytes", {"size_bytes": MAX_INT64}),
        ("size_bytes", {"size_bytes": MAX_FILE_BYTES + 1}),
        ("add_files", {"row_count": MAX_FILE_ROWS, "count": MAX_CHANGE_ROWS // MAX_FILE_ROWS + 1}),
        ("add_files", {"size_bytes": MAX_FILE_BYTES, "count": MAX_CHANGE_BYTES // MAX_FILE_BYTES + 1}),
    ],
)
def test_absurd_files_are_refused_and_later_appends_are_fine(
    metastore: Metastore, field: str, fields: dict[str, int]
) -> None:
    table = make_table(metastore)
    append(metastore, table, 1)
    with pytest.raises(InvalidArgument, match=f"^{field} is ") as refused:
        add(metastore, table, 1, **fields)
    assert refused.value.metadata["field"] == field
    for identifier in (2, 3):
        append(metastore, table, identifier)
    assert metastore.list_snapshots(table.table_uuid).snapshots[-1].total_rows == 30


def test_changelog_files_count_too(metastore: Metastore) -> None:
    table = make_table(metastore)
    attempt = metastore.stage_attempt([table.table_uuid], "hostile").attempt_id
    files = [make_file(attempt, f"f{number}", size_bytes=MAX_FILE_BYTES) for number in range(513)]
    change = make_change(table, changelog=ChangelogState.ATTACHED, changelog_files=tuple(files))
    with pytest.raises(InvalidArgument, match=r"changelog_files is '\d+ bytes'"):
        metastore.commit(CommitRequest("hostile", 1, (change,), attempt))


@pytest.fixture
def small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of at most 25 rows and 2,500 bytes, so that a test can fill one."""
    monkeypatch.setattr(totals, "MAX_TABLE_ROWS", 25)
    monkeypatch.setattr(totals, "MAX_TABLE_BYTES", 2_500)


@pytest.mark.usefixtures("small_tables")
@pytest.mark.parametrize("fields", [{"row_count": 6, "size_bytes": 1}, {"row_count": 1, "size_bytes": 501}])
def test_a_commit_that_would_make_its_table_too_large_is_refused_itself(
    metastore: Metastore, fields: dict[str, int]
) -> None:
    table, other = make_table(metastore), make_table(metastore)
    append(metastore, table, 1, names="ab")
    nothing = RemovePartitions(())
    tries: list[Callable[[], None]] = [
        lambda: add(metastore, table, 1, **fields),
        lambda: overwrite(metastore, table, 2, nothing, **fields),
    ]
    for refused in tries:
        with pytest.raises(ResourceExhausted, match=r"would have \d+ (rows|bytes), and \d+ are possible") as error:
            refused()
        assert error.value.reason == "TABLE_TOO_LARGE"
    # Smaller ones are fine, here and elsewhere, and what makes room is never refused.
    append(metastore, table, 2, row_count=5, size_bytes=500)
    append(metastore, other, 1)
    overwrite(metastore, table, 3, RemoveEverything(), row_count=20)
    assert metastore.list_snapshots(table.table_uuid).snapshots[-1].total_rows == 20


@pytest.mark.usefixtures("small_tables")
def test_only_the_commit_that_is_too_large_fails_among_those_of_its_group(metastore: Metastore) -> None:
    tables = [make_table(metastore) for _ in range(2)]
    for table in tables:
        append(metastore, table, 1, names="ab")
    requests = []
    for identifier, rows in enumerate([1, 20, 1, 1], start=2):
        attempt = metastore.stage_attempt([table.table_uuid for table in tables], "w").attempt_id
        changes = [
            make_change(tables[0], [make_file(attempt, row_count=1, size_bytes=1)]),
            # Before it is known to be too large, the other table's files are marked as removed.
            make_change(
                tables[1],
                [make_file(attempt, row_count=rows, size_bytes=1)],
                kind=SnapshotKind.OVERWRITE,
                remove=RemovePartitions(()),
            ),
        ]
        requests.append(CommitRequest("w", identifier, tuple(changes), attempt))
    pipeline = metastore.open_commit_pipeline()
    futures = [pipeline.submit(request) for request in requests]
    outcomes = [type(future.exception()).__name__ for future in futures]
    pipeline.close()
    assert outcomes == ["NoneType", "ResourceExhausted", "NoneType", "NoneType"]
    totals_after = [metastore.list_snapshots(table.table_uuid).snapshots[-1].total_rows for table in tables]
    assert totals_after == [23, 23]


def test_sums_over_tables_and_history_are_shown_as_far_as_they_can_be(metastore: Metastore) -> None:
    tables = [make_table(metastore) for _ in range(3)]
    most = totals.MAX_TABLE_BYTES // MAX_CHANGE_BYTES
    assert 3 * most * MAX_CHANGE_BYTES > MAX_INT64, "else this shows nothing"
    # Some thousands of commits would do; the bound of one is raised instead.
    with pytest.MonkeyPatch.context() as raised:
        raised.setattr(validation, "MAX_FILE_BYTES", MAX_INT64)
        raised.setattr(validation, "MAX_CHANGE_BYTES", MAX_INT64)
        for table in tables:
            add(metastore, table, 1, size_bytes=totals.MAX_TABLE_BYTES)
        for identifier in (2, 3):
            overwrite(metastore, tables[0], identifier, RemoveEverything(), size_bytes=totals.MAX_TABLE_BYTES)
    overwrite(metastore, tables[0], 4, RemoveEverything())
    (shop,) = [each for each in metastore.list_databases() if each.name == "shop"]
    assert shop.size_bytes == MAX_INT64
    uuid = tables[0].table_uuid
    for dry_run in (True, False):
        step = metastore.expire_snapshots(uuid, older_than_ms=2**62, retain_last=1, dry_run=dry_run)
        assert (step.files, step.size_bytes) == (3, MAX_INT64)


def test_control_without_bounds_the_next_append_of_anybody_fails(
    migrated_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validation, "MAX_FILE_ROWS", MAX_INT64)
    monkeypatch.setattr(validation, "MAX_CHANGE_ROWS", MAX_INT64)
    monkeypatch.setattr(totals, "MAX_TABLE_ROWS", 1 << 70)
    metastore: InProcessMetastore = open_in_process(migrated_url)
    try:
        table = make_table(metastore)
        add(metastore, table, 1, row_count=MAX_INT64)
        with pytest.raises(InternalError):
            append(metastore, table, 1)
    finally:
        metastore.close()


def test_control_without_the_check_behind_the_removal_overwrites_pass_the_bound(
    migrated_url: str, monkeypatch: pytest.MonkeyPatch, small_tables: None
) -> None:
    monkeypatch.setattr(group, "check_totals", lambda before, after: None)
    metastore = open_in_process(migrated_url)
    try:
        table = make_table(metastore)
        for identifier in (1, 2, 3):
            overwrite(metastore, table, identifier, RemovePartitions(()), row_count=20)
        assert metastore.list_snapshots(table.table_uuid).snapshots[-1].total_rows == 60
    finally:
        metastore.close()


def test_a_watermark_beyond_all_calendars_is_refused(metastore: Metastore) -> None:
    table = make_table(metastore)
    for watermark_ms in (9_467_000_000_000_000, -62_135_596_800_001, MAX_INT64):
        attempt = metastore.stage_attempt([table.table_uuid], "w").attempt_id
        change = replace(make_change(table, [make_file(attempt)]), watermark_ms=watermark_ms)
        with pytest.raises(LakelogError, match="watermark_ms is"):
            metastore.commit(CommitRequest("w", 1, (change,), attempt))
