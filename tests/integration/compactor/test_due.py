"""What is due by itself, from the commit to the files it leaves, without anybody asking (semantics 6)."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.errors import DataCorrupted
from lakelog.format.jobs.job import COMPACT, Job, JobState
from lakelog.format.tables.plan import InRange, PlanRequest
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.storage.parquet.pages import decoding
from metastore.jobs.due_compactions import plan_compactions
from metastore.jobs.due_work import WorkPlanner
from metastore.testing import InProcessMetastore
from tests.support.tables.attaching import attach_all
from tests.support.tables.data_files import data_files
from tests.support.tables.keyed import make, rows, shown

LARGE = random.Random(1).sample(range(1 << 62), 11_000)
"""Some 90 kB, since it cannot be compressed."""

COLUMNS = pa.schema([("day", pa.string()), ("v", pa.int64())])


@pytest.fixture
def planners() -> Sequence[WorkPlanner]:
    return [plan_compactions]


@pytest.fixture(autouse=True)
def _quiet(metastore: InProcessMetastore) -> None:
    """Nobody but the test plans."""
    metastore.stop_background()


def settle(metastore: InProcessMetastore) -> None:
    """Plans and compacts until nothing is due any more."""
    for _ in range(20):
        metastore.run(metastore.use_cases.due_work.step())
        before = [job.epoch for job in metastore.list_jobs()]
        attach_all(metastore)
        if [job.epoch for job in metastore.list_jobs()] == before:
            return
    raise AssertionError("compactions make compactions due for ever")


def make_append(catalog: Catalog, **options: str) -> Table:
    more = {"compaction.min.file-num": "3", **options}
    return catalog.create_table("shop.visits", COLUMNS, partition_by=["day"], options=more)


def visit(table: Table, day: str, *values: int) -> None:
    table.append(pa.table({"day": [day] * len(values), "v": list(values)}, schema=COLUMNS))


def values(table: Table) -> list[int]:
    found: list[int] = table.scan().to_arrow()["v"].to_pylist()
    return sorted(found)


def compactions(metastore: InProcessMetastore, table: Table) -> int:
    found = metastore.list_snapshots(table.uuid).snapshots
    return sum(each.kind is SnapshotKind.COMPACT for each in found)


def outcomes(metastore: InProcessMetastore) -> list[str]:
    return [job.outcome for job in metastore.list_jobs()]


def test_many_small_commits_to_a_keyed_table_leave_few_runs(metastore: InProcessMetastore, catalog: Catalog) -> None:
    table = make(catalog, "none")
    expected = {}
    for number in range(40):
        table.write(rows(f"+I 1|{number % 7}|{number}"))
        expected[1, number % 7] = number
        if number % 8 == 0:
            settle(metastore)
    settle(metastore)
    assert shown(table) == expected
    assert table.files().num_rows <= 5
    assert compactions(metastore, table) >= 5


def test_200_small_files_are_put_together_by_two_tasks(metastore: InProcessMetastore, catalog: Catalog) -> None:
    """The vector of 6.2: what opening a file counts fills a task with 128 of them."""
    table = make_append(catalog)
    for number in range(200):
        visit(table, "a", number)
    settle(metastore)
    assert values(table) == list(range(200))
    assert compactions(metastore, table) == 1
    sizes = sorted(table.files()["rows"].to_pylist())
    assert sizes == [72, 128]
    (outcome,) = outcomes(metastore)
    # Sizes have a unit, for people.
    assert re.fullmatch(r"rewrote 200 files \([0-9.]+ (?:B|KiB|MiB)\) into 2 \([0-9.]+ (?:B|KiB|MiB)\)", outcome)


def test_files_that_come_one_after_the_other_are_put_together(metastore: InProcessMetastore, catalog: Catalog) -> None:
    table = make_append(catalog)
    for number in range(2):
        visit(table, "a", number)
        visit(table, "b", number)
    settle(metastore)
    assert compactions(metastore, table) == 0
    visit(table, "a", 2)
    settle(metastore)
    assert compactions(metastore, table) == 1
    assert table.files().num_rows == 3
    # What was written is small still, and goes together with the next two.
    visit(table, "a", 3)
    settle(metastore)
    visit(table, "a", 4)
    settle(metastore)
    assert compactions(metastore, table) == 2
    assert table.files().num_rows == 3
    assert values(table) == [0, 0, 1, 1, 2, 3, 4]


def test_files_that_are_large_enough_are_left(metastore: InProcessMetastore, catalog: Catalog) -> None:
    table = make_append(catalog, **{"target-file-size": "100 kb"})
    for _ in range(4):
        visit(table, "a", *LARGE)
    assert min(table.files()["bytes"].to_pylist()) > 0.7 * 100 * 1024
    settle(metastore)
    assert metastore.list_jobs() == []


def test_small_files_that_have_waited_are_put_together(metastore: InProcessMetastore, catalog: Catalog) -> None:
    table = make_append(catalog)
    visit(table, "a", 1)
    visit(table, "a", 2)
    visit(table, "b", 3)
    settle(metastore)
    (job,) = metastore.list_jobs()
    assert job.remaining_ms > 0
    metastore.retry_job(job.job_id)
    settle(metastore)
    assert table.files().num_rows == 2
    assert values(table) == [1, 2, 3]


def test_neighbours_keep_their_order(metastore: InProcessMetastore, catalog: Catalog) -> None:
    table = catalog.create_table(
        "shop.log",
        COLUMNS,
        options={"bucket": "1", "bucket-key": "day", "compaction.min.file-num": "3"},
    )
    for number in range(10):
        visit(table, "a", number)
        if number % 4 == 3:
            settle(metastore)
    settle(metastore)
    assert table.scan().to_arrow()["v"].to_pylist() == list(range(10))
    assert table.files().num_rows <= 3


def test_only_what_is_small_and_new_is_listed(
    metastore: InProcessMetastore, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_append(catalog, **{"target-file-size": "100 kb", "source.split.open-file-cost": "0 b"})
    for _ in range(3):
        visit(table, "a", *LARGE)
    settle(metastore)
    listed: list[int] = []
    plan = metastore.plan

    def count(request: PlanRequest) -> object:
        found = plan(request)
        if not isinstance(request.at, InRange):
            listed.append(found.files.num_rows)
        return found

    monkeypatch.setattr(metastore, "plan", count)
    for number in range(3):
        visit(table, "a", number)
    settle(metastore)
    assert listed
    assert max(listed) == 3
    assert compactions(metastore, table) == 1


def test_a_damaged_file_stops_only_what_reads_it(
    metastore: InProcessMetastore, catalog: Catalog, warehouse: Path
) -> None:
    table = make_append(catalog)
    visit(table, "a", 1)
    (damaged,) = data_files(warehouse)
    for number in range(3):
        visit(table, "a", number)
        visit(table, "b", number)
    whole = (warehouse / damaged).read_bytes()
    (warehouse / damaged).write_bytes(whole[:40])
    settle(metastore)
    by_state: dict[JobState, Job] = {job.state: job for job in metastore.list_jobs() if job.kind == COMPACT}
    assert set(by_state) == {JobState.FAILED, JobState.DONE}
    failed = by_state[JobState.FAILED]
    assert damaged.rpartition("/")[2] in failed.reason
    assert table.scan(filter="day = 'b'").count() == 3
    # Commits go on, to this partition as well, and nobody reads the damaged file again for it.
    epochs = {job.job_id: job.epoch for job in metastore.list_jobs()}
    visit(table, "a", 9)
    visit(table, "b", 9)
    settle(metastore)
    assert {job.job_id: job.epoch for job in metastore.list_jobs()} == epochs
    # Mended, it goes on where somebody says so.
    (warehouse / damaged).write_bytes(whole)
    metastore.retry_job(failed.job_id)
    settle(metastore)
    assert all(job.state is not JobState.FAILED for job in metastore.list_jobs())
    assert values(table) == sorted([1, 0, 1, 2, 9, 0, 1, 2, 9])


def test_a_file_that_would_take_too_much_memory_stops_only_what_reads_it(
    metastore: InProcessMetastore, catalog: Catalog, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_append(catalog)
    visit(table, "a", *LARGE[:20])
    (large,) = data_files(warehouse)
    for number in range(3):
        visit(table, "a", number)
        visit(table, "b", number)
    # As if its pages unpacked to more than half a gigabyte.
    monkeypatch.setattr(decoding, "LARGEST_DECODED_BYTES", 100)
    settle(metastore)
    by_state: dict[JobState, Job] = {job.state: job for job in metastore.list_jobs() if job.kind == COMPACT}
    assert set(by_state) == {JobState.FAILED, JobState.DONE}
    failed = by_state[JobState.FAILED]
    assert re.search(f"{large.rpartition('/')[2]} cannot be read: .* for column 'v', and at most 100", failed.reason)
    with pytest.raises(DataCorrupted, match=large.rpartition("/")[2]) as caught:
        table.scan(filter="day = 'a'").to_arrow()
    assert caught.value.reason == "ROWS_TOO_LARGE"
    assert table.scan(filter="day = 'b'").to_arrow().num_rows == 3
    # Commits go on, and nobody reads the file again for them.
    epochs = {job.job_id: job.epoch for job in metastore.list_jobs()}
    visit(table, "a", 9)
    settle(metastore)
    assert {job.job_id: job.epoch for job in metastore.list_jobs()} == epochs
    # Control: without the limit it is compacted.
    monkeypatch.undo()
    metastore.retry_job(failed.job_id)
    settle(metastore)
    assert all(job.state is not JobState.FAILED for job in metastore.list_jobs())
    assert len(values(table)) == 27


@pytest.mark.parametrize("options", [{}, {"bucket": "2", "bucket-key": "v"}])
def test_a_large_file_with_many_removed_rows_is_rewritten(
    catalog: Catalog, metastore: InProcessMetastore, options: dict[str, str]
) -> None:
    table = catalog.create_table("shop.visits", COLUMNS, options={"target-file-size": "64 kb", **options})
    table.append(pa.table({"day": ["a"] * 11_000, "v": LARGE}, schema=COLUMNS))
    settle(metastore)
    before = table.scan(["v"]).to_arrow()["v"].to_pylist()
    few = sorted(LARGE)[550]
    assert table.delete_where(f"v < {few}").deleted_rows == 550
    settle(metastore)
    assert table.snapshots()["kind"].to_pylist()[-1] == "OVERWRITE", "so few rows are left where they are"
    many = sorted(LARGE)[5_000]
    table.delete_where(f"v < {many}")
    settle(metastore)
    plan = metastore.plan(PlanRequest(table.uuid))
    assert sum(plan.files["row_count"].to_pylist()) == 6_000
    assert not any(plan.files["delete_count"].to_pylist())
    # Buckets keep the order of their rows.
    assert table.scan(["v"]).to_arrow()["v"].to_pylist() == [each for each in before if each >= many]


def test_a_full_compaction_drops_all_removed_rows(catalog: Catalog, metastore: InProcessMetastore) -> None:
    table = catalog.create_table("shop.visits", COLUMNS, options={"target-file-size": "64 kb"})
    table.append(pa.table({"day": ["a"] * 11_000, "v": LARGE}, schema=COLUMNS))
    table.delete_where(f"v = {LARGE[0]} OR v = {LARGE[-1]}")
    table.compact(full=True, wait=False)
    attach_all(metastore)
    plan = metastore.plan(PlanRequest(table.uuid))
    assert sum(plan.files["row_count"].to_pylist()) == 10_998
    assert not any(plan.files["delete_count"].to_pylist())
