"""Buckets that are marked: what comes of it is what reads found, each read is the same, and reads only that."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from structlog.testing import capture_logs

from lakelog.errors import OutcomeUnknown
from lakelog.format.compaction import deletion_vectors as deletion_vector_planning
from lakelog.format.jobs.job import COMPACT, DELETION_VECTORS, FULL, STRATEGY, Job, JobState, to_bucket_scope
from lakelog.format.merge.runs import find_deleted_rows
from lakelog.format.tables.plan import PlanRequest
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.storage.merging import deletion_vectors
from lakelog.storage.merging.deletion_vectors import are_committed
from lakelog.storage.objects.stores import LocationStores
from lakelog.storage.parquet.live_file import LiveFile, to_live_files
from metastore.jobs import due_deletion_vectors
from metastore.jobs.due_compactions import plan_compactions
from metastore.jobs.due_deletion_vectors import plan_deletion_vector_jobs
from metastore.jobs.due_work import WorkPlanner
from metastore.testing import InProcessMetastore
from tests.support.tables.attaching import attach_all, make_service
from tests.support.tables.data_files import data_files
from tests.support.tables.faulty import FaultyMetastore

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64())])
BUCKET = to_bucket_scope(b"", 0)


@pytest.fixture
def planners() -> Sequence[WorkPlanner]:
    return [plan_compactions, plan_deletion_vector_jobs]


@pytest.fixture(autouse=True)
def _quiet(metastore: InProcessMetastore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody but the test plans; every bucket is large, and quiet at once."""
    metastore.stop_background()
    monkeypatch.setattr(due_deletion_vectors, "MIN_BUCKET_BYTES", 1)
    monkeypatch.setattr(deletion_vector_planning, "MIN_BUCKET_BYTES", 1)
    monkeypatch.setattr(deletion_vector_planning, "READ_COST_BYTES", 1)
    monkeypatch.setattr(deletion_vector_planning, "QUIET_MS", 0)


def make(catalog: Catalog, **options: str) -> Table:
    more = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    return catalog.create_table("shop.t", SCHEMA, primary_key=["k"], options={"bucket": "1", **more})


def upsert(table: Table, keys: Sequence[int], value: int) -> None:
    table.upsert(pa.table({"k": keys, "v": [value] * len(keys)}, schema=SCHEMA))


def write_some(table: Table) -> None:
    upsert(table, range(1000), 1)
    upsert(table, range(0, 1000, 3), 2)
    table.delete(pa.table({"k": range(0, 1000, 5)}))


def live(metastore: Any, table: Table) -> list[LiveFile]:
    return to_live_files(metastore.plan(PlanRequest(table.uuid)).files)


def settle(metastore: InProcessMetastore) -> list[Job]:
    """Plans and does what is due, until nothing is; the marks."""
    for _ in range(10):
        metastore.run(metastore.use_cases.due_work.step())
        before = [job.epoch for job in metastore.list_jobs()]
        attach_all(metastore)
        if [job.epoch for job in metastore.list_jobs()] == before:
            return [job for job in metastore.list_jobs() if job.kind == DELETION_VECTORS]
    raise AssertionError("marks make marks due for ever")


def read(metastore: InProcessMetastore, table: Table, **scan: Any) -> list[dict[str, Any]]:
    """By a catalog that remembers nothing."""
    found = Catalog(metastore, LocationStores()).table(str(table.name)).scan(**scan).to_arrow()
    rows: list[dict[str, Any]] = found.sort_by("k").to_pylist()
    return rows


@pytest.fixture
def merges(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many files were merged, read by read."""
    found: list[int] = []

    def count(runs: Any, *args: Any, **options: Any) -> Any:
        found.append(len(runs))
        return find_deleted_rows(runs, *args, **options)

    monkeypatch.setattr(deletion_vectors, "find_deleted_rows", count)
    return found


def test_a_bucket_with_deletion_vectors_is_read_without_merging(
    metastore: InProcessMetastore, catalog: Catalog, merges: list[int]
) -> None:
    table = make(catalog)
    write_some(table)
    states = [read(metastore, table, snapshot_id=number) for number in (1, 2, 3)]
    with capture_logs() as lines:
        (job,) = settle(metastore)
    assert (job.state, job.scope) == (JobState.DONE, BUCKET)
    built = [each for each in lines if each["event"] == "deletion vectors built"]
    assert [(each["table"], each["files"]) for each in built] == [("shop.t", 2)]
    assert built[0]["snapshot"] == max(table.snapshots()["id"].to_pylist())
    # 334 superseded by the second file; of the third's 200 deletes 67 take rows of the second, and all are deletes.
    assert job.outcome == "found 734 superseded rows, which 2 files now name"
    files = live(metastore, table)
    assert [file.deletion_vector_path is not None for file in files] == [False, True, True]
    assert len({file.deletion_vector_path for file in files}) == 2
    assert are_committed(files)
    merges.clear()
    assert read(metastore, table) == states[-1]
    assert merges == []
    assert [read(metastore, table, snapshot_id=number) for number in (1, 2, 3)] == states
    assert merges, "earlier snapshots have the entries of their time"


def test_what_expired_since_it_was_planned_is_no_damage(metastore: InProcessMetastore, catalog: Catalog) -> None:
    table = make(catalog, **{"snapshot.time_retained": "0 ms", "snapshot.num_retained.min": "1"})
    write_some(table)
    metastore.run(metastore.use_cases.due_work.step())
    folder = Path(table.location.removeprefix("file://"))
    gone: list[str] = []

    class Expiring(FaultyMetastore):
        """Between plan and work all is replaced, and what was there is deleted."""

        def stage_attempt(self, *arguments: Any, **more: Any) -> Any:
            if not gone:
                table.overwrite(pa.table({"k": range(10), "v": [9] * 10}, schema=SCHEMA))
                table.expire_snapshots()
                gone.extend(metastore.list_expired_files(table.uuid, 100))
                for path in gone:
                    (folder / path).unlink()
            return self.inner.stage_attempt(*arguments, **more)

    attach_all(Expiring(metastore))
    (job,) = [job for job in metastore.list_jobs() if job.kind == DELETION_VECTORS]
    assert len(gone) >= 3, "nothing was deleted"
    assert (job.state, job.attempts) == (JobState.DONE, 0), job.reason
    assert table.scan().count() == 10


def test_what_comes_on_top_is_merged_and_gets_deletion_vectors_again(
    metastore: InProcessMetastore, catalog: Catalog
) -> None:
    table = make(catalog)
    write_some(table)
    settle(metastore)
    first = {file.deletion_vector_path for file in live(metastore, table)} - {None}
    upsert(table, range(500, 1500), 3)
    expected = read(metastore, table)
    assert not are_committed(live(metastore, table))
    (job,) = settle(metastore)
    assert job.outcome.startswith("found ")
    assert are_committed(live(metastore, table))
    assert {file.deletion_vector_path for file in live(metastore, table)}.isdisjoint(first)
    assert read(metastore, table) == expected


def test_a_compaction_comes_first_and_leaves_no_deletion_vectors_to_build(
    metastore: InProcessMetastore, catalog: Catalog
) -> None:
    table = make(catalog)
    for number in range(5):
        upsert(table, range(number, 1000), number)
    assert settle(metastore) == []
    (file,) = live(metastore, table)
    assert file.level > 0
    upsert(table, range(10), 9)
    assert len(settle(metastore)) == 1
    assert are_committed(live(metastore, table))


def test_a_table_whose_writers_look_up_gets_deletion_vectors_after_compactions_only(
    metastore: InProcessMetastore, catalog: Catalog
) -> None:
    table = make(catalog, changelog_producer="lookup")
    write_some(table)
    assert settle(metastore) == []
    assert are_committed(live(metastore, table))
    metastore.request_jobs(table.uuid, COMPACT, [BUCKET], {STRATEGY: FULL})
    attach_all(metastore)
    upsert(table, range(50), 4)
    upsert(table, range(25), 5)
    expected = read(metastore, table)
    settle(metastore)
    assert are_committed(live(metastore, table))
    assert read(metastore, table) == expected
    assert table.changes().to_arrow().num_rows > 0


@pytest.mark.parametrize("has_deletes", [False, True])
def test_deletes_with_a_sequence_are_left_to_reads(
    metastore: InProcessMetastore, catalog: Catalog, has_deletes: bool
) -> None:
    table = make(catalog, sequence__field="v")
    upsert(table, range(100), 5)
    upsert(table, range(0, 100, 2), 3)
    if has_deletes:
        table.delete(pa.table({"k": range(0, 100, 10), "v": [7] * 10}))
    expected = read(metastore, table)
    settle(metastore)
    assert are_committed(live(metastore, table)) is not has_deletes
    assert read(metastore, table) == expected


def make_due(metastore: InProcessMetastore) -> None:
    metastore.run(metastore.use_cases.due_work.step())
    assert [job.kind for job in metastore.list_jobs() if job.state is JobState.DUE] == [DELETION_VECTORS]


def test_a_damaged_file_is_named_and_stops_only_its_deletion_vectors(
    metastore: InProcessMetastore, catalog: Catalog, warehouse: Path
) -> None:
    table = make(catalog)
    write_some(table)
    make_due(metastore)
    damaged = warehouse / table.uuid / live(metastore, table)[0].path
    damaged.write_bytes(damaged.read_bytes()[:50])
    before = data_files(warehouse)
    attach_all(metastore)
    (job,) = [job for job in metastore.list_jobs() if job.kind == DELETION_VECTORS]
    assert job.state is JobState.FAILED
    assert damaged.name in job.reason
    assert data_files(warehouse) == before
    # A commit does not have it read again.
    upsert(table, range(3), 3)
    metastore.run(metastore.use_cases.due_work.step())
    assert [job.state for job in metastore.list_jobs() if job.kind == DELETION_VECTORS] == [JobState.FAILED]


@pytest.mark.parametrize("lost", ["answer", "word"])
def test_who_loses_its_job_or_its_answer_leaves_what_is_right(
    metastore: InProcessMetastore, catalog: Catalog, warehouse: Path, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    """The commit is done and nobody says so; or another took the job before it."""
    table = make(catalog)
    write_some(table)
    expected = read(metastore, table)
    make_due(metastore)
    before = set(data_files(warehouse))
    commit = metastore.commit

    def fail(request: Any) -> Any:
        monkeypatch.setattr(metastore, "commit", commit)
        if lost == "answer":
            commit(request)
            raise OutcomeUnknown("nobody answers")
        # Its lease is over, and another takes the job: what it staged is aborted.
        (job,) = [each for each in metastore.list_jobs() if each.kind == DELETION_VECTORS]
        metastore.fail_job(job.job_id, job.epoch, "lost")
        metastore.retry_job(job.job_id)
        again = metastore.lease_job([DELETION_VECTORS], [], "another", duration_ms=60_000)
        assert again is not None
        assert len(again.aborted_attempts) == 1
        metastore.fail_job(again.job_id, again.epoch, "given back")
        metastore.retry_job(again.job_id)
        return commit(request)

    monkeypatch.setattr(metastore, "commit", fail)
    make_service(metastore).step()
    assert are_committed(live(metastore, table)) is (lost == "answer")
    (job,) = [each for each in metastore.list_jobs() if each.kind == DELETION_VECTORS]
    if job.state is JobState.DUE and job.remaining_ms:
        metastore.retry_job(job.job_id)
    attach_all(metastore)
    assert are_committed(live(metastore, table))
    assert read(metastore, table) == expected
    named = {
        f"{table.uuid}/{file.deletion_vector_path}" for file in live(metastore, table) if file.deletion_vector_path
    }
    left = set(data_files(warehouse)) - before
    assert {path for path in left if path.endswith(tuple(named))} == left
    assert len(left) == len(named) == 1
