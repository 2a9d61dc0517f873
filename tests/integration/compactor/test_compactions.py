"""Compactions: what is asked for is done, reads stay, and who comes late or dies leaves nothing (semantics 6)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakelog.errors import CommitConflict, Fenced, OutcomeUnknown
from lakelog.format.commit.request import CommitRequest, CommitResult
from lakelog.format.jobs.job import MINOR, PURGE, JobState
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from metastore.testing import InProcessMetastore
from tests.integration.compactor.requesting import request, write_some
from tests.support.tables.attaching import attach_all, make_service
from tests.support.tables.data_files import data_files
from tests.support.tables.faulty import FaultyMetastore, FaultyStores
from tests.support.tables.keyed import emitted, make, replayed, rows, shown


def levels(table: Table) -> list[int]:
    found: list[int] = table.files()["level"].to_pylist()
    return sorted(found)


@pytest.mark.parametrize("producer", ["none", "input", "lookup"])
def test_a_full_compaction_leaves_one_file_a_bucket_and_every_read(
    metastore: InProcessMetastore, catalog: Catalog, producer: str
) -> None:
    table = make(catalog, producer, bucket="2")
    write_some(table)
    before = [sorted(table.scan(snapshot_id=number).to_arrow().to_pylist(), key=str) for number in range(1, 5)]
    changes = emitted(table, 0)
    request(metastore, table)
    attach_all(metastore)
    assert [job.state for job in metastore.list_jobs()] == [JobState.DONE] * 2
    assert levels(table) == [5] * len(set(table.files()["bucket"].to_pylist()))
    assert [sorted(table.scan(snapshot_id=n).to_arrow().to_pylist(), key=str) for n in range(1, 5)] == before
    assert sorted(table.scan().to_arrow().to_pylist(), key=str) == before[-1]
    assert emitted(table, 0) == changes
    kinds = [each.kind.name for each in metastore.list_snapshots(table.uuid).snapshots]
    assert kinds[:4] == ["APPEND"] * 4
    assert set(kinds[4:]) == {"COMPACT"}
    if producer == "lookup":
        assert replayed(table) == shown(table)


@pytest.mark.parametrize("length", [40, 60, 64, 300])
def test_long_keys_that_begin_alike(metastore: InProcessMetastore, catalog: Catalog, length: int) -> None:
    """Bounds of keys are cut, so that neighbours may have the same ones."""
    schema = pa.schema([pa.field("k", pa.string(), nullable=False), pa.field("v", pa.int64())])
    table = catalog.create_table("shop.long", schema, primary_key=["k"], options={"target-file-size": "1 kb"})
    keys = [f"{group}" * length + f"{number:04d}" for group in "abc" for number in range(300)]
    for version in range(3):
        table.upsert(pa.table({"k": keys[version::2], "v": [version] * len(keys[version::2])}, schema))
    before = sorted(table.scan().to_arrow().to_pylist(), key=str)
    for _ in range(2):
        request(metastore, table)
        attach_all(metastore)
        (job,) = metastore.list_jobs()
        assert job.state is JobState.DONE, job.reason
        table.upsert(pa.table({"k": keys[:1], "v": [2]}, schema))
    assert table.files().num_rows > 3
    after = sorted(table.scan().to_arrow().to_pylist(), key=str)
    assert after[1:] == before[1:]


def test_what_is_written_afterwards_is_merged_with_what_was_compacted(
    metastore: InProcessMetastore, catalog: Catalog
) -> None:
    table = make(catalog, "lookup")
    write_some(table)
    request(metastore, table)
    attach_all(metastore)
    write_some(table)
    request(metastore, table, MINOR)
    attach_all(metastore)
    assert 0 not in levels(table)
    table.write(rows("-D 1|1|0", "+I 1|9|9"))
    assert replayed(table) == shown(table)


def test_nothing_to_do_is_said_with_its_reason(metastore: InProcessMetastore, catalog: Catalog) -> None:
    table = make(catalog, "none")
    write_some(table)
    for _ in range(2):
        request(metastore, table)
        attach_all(metastore)
    (job,) = metastore.list_jobs()
    assert job.outcome == "The bucket is compacted as a whole: all its files are at its highest level, 5."
    assert len(metastore.list_snapshots(table.uuid).snapshots) == 5


@pytest.mark.parametrize("options", [{}, {"bucket": "1", "bucket-key": "k"}])
def test_small_files_of_append_tables_are_put_together_in_their_order(
    metastore: InProcessMetastore, catalog: Catalog, options: dict[str, str]
) -> None:
    schema = pa.schema([("k", pa.int64()), ("v", pa.string())])
    table = catalog.create_table("shop.log", schema, options=options)
    for number in range(12):
        table.append(pa.table({"k": [number, number], "v": [f"a{number}", f"b{number}"]}, schema))
    before = table.scan().to_arrow().to_pylist()
    changes = table.changes().to_arrow().to_pylist()
    request(metastore, table)
    attach_all(metastore)
    assert table.files().num_rows == 1
    found = table.scan().to_arrow().to_pylist()
    assert found == before if options else sorted(found, key=str) == sorted(before, key=str)
    assert table.changes().to_arrow().to_pylist() == changes
    table.append(pa.table({"k": [99], "v": ["z"]}, schema))
    assert table.scan().count() == 25


def differences(table: Table, first: int, last: int) -> list[tuple[str, int, int]]:
    options = {"incremental-between": f"{first},{last}", "incremental-between-scan-mode": "diff"}
    found = table.scan(options=options).to_arrow().to_pylist()
    return [(row["_row_kind"], row["k"], row["v"]) for row in found]


def overwritten(table: Table) -> list[tuple[str, int, int]]:
    """What a stream that reads overwrites tells first of one."""
    done = table.overwrite(rows("+I 1|70|70").drop_columns(["_row_kind"])).snapshot_id
    options = {"scan.snapshot-id": str(done), "streaming-read-overwrite": "true"}
    with table.subscribe("from-snapshot", options=options) as stream:
        batch = stream.read(10)
    assert batch is not None
    return [(row["_row_kind"], row["k"], row["v"]) for row in batch.data.to_pylist()]


def test_two_states_are_compared_in_the_order_of_rows(metastore: InProcessMetastore, catalog: Catalog) -> None:
    table = make(catalog, "none")
    table.write(rows("+I 1|1|1", "+I 1|2|1"))
    table.write(rows("+U 1|1|2"))

    class Late(FaultyMetastore):
        def commit(self, wanted: CommitRequest) -> CommitResult:
            # Newer than what is compacted, and committed before.
            table.write(rows("+U 1|1|3", "-D 1|2|0"))
            return self.inner.commit(wanted)

    request(metastore, table)
    attach_all(Late(metastore))
    assert levels(table) == [0, 5]
    assert differences(table, 3, 4) == []
    assert differences(table, 2, 4) == [("-U", 1, 2), ("+U", 1, 3), ("-D", 2, 1)]
    assert differences(table, 0, 4) == [("+I", 1, 3)]
    assert overwritten(table)[0] == ("-D", 1, 3)


def test_two_states_are_compared_by_the_times_of_rows(metastore: InProcessMetastore, catalog: Catalog) -> None:
    """A late row stands, because the time of the delete before it was over, in a compacted file as before."""
    table = make(catalog, "none", **{"sequence.field": "v", "sequence.delete-retention": "1 s"})
    table.write(rows("+I 1|1|3", *(f"+I 1|{key}|{key * 7919 % 1000 + 3}" for key in range(100, 1500))))
    request(metastore, table)
    attach_all(metastore)
    table.write(rows("-D 1|1|3"))
    time.sleep(1.2)
    table.write(rows("+I 1|1|1"))
    request(metastore, table, MINOR)
    attach_all(metastore)
    last = len(metastore.list_snapshots(table.uuid).snapshots)
    assert len(levels(table)) == 2, "the first run is too large to go along"
    assert shown(table)[1, 1] == 1
    assert differences(table, last - 1, last) == []
    assert differences(table, 2, last) == [("-U", 1, 3), ("+U", 1, 1)]
    assert differences(table, 3, last) == [("+I", 1, 1)]
    assert overwritten(table)[0] == ("-D", 1, 1)


def test_only_what_others_replaced_meanwhile_is_dropped(
    metastore: InProcessMetastore, catalog: Catalog, warehouse: Path
) -> None:
    table = make(catalog, "none")
    write_some(table)
    overwritten: list[int] = []

    class Overwriting(FaultyMetastore):
        def commit(self, wanted: CommitRequest) -> CommitResult:
            if not overwritten:
                table.overwrite(rows("+I 1|7|7").drop_columns(["_row_kind"]))
                overwritten.append(1)
            return self.inner.commit(wanted)

    (job,) = request(metastore, table)
    attach_all(Overwriting(metastore))
    assert shown(table) == {(1, 7): 7}
    (job,) = metastore.list_jobs()
    assert job.state is JobState.DONE
    # What was dropped is planned anew: the overwrite's file goes to the highest level.
    assert "dropped 1 part that others came before" in job.outcome
    assert levels(table) == [5]
    assert not [path for path in data_files(warehouse) if "compact-" in path]


def test_commits_meanwhile_neither_wait_nor_are_lost(metastore: InProcessMetastore, catalog: Catalog) -> None:
    table = make(catalog, "lookup")
    write_some(table)

    class Busy(FaultyMetastore):
        def commit(self, wanted: CommitRequest) -> CommitResult:
            table.write(rows("+U 1|1|77", "-D 1|5|0"))
            return self.inner.commit(wanted)

    request(metastore, table)
    attach_all(Busy(metastore))
    assert shown(table)[1, 1] == 77
    assert (1, 5) not in shown(table)
    assert replayed(table) == shown(table)
    assert levels(table) == [0, 5]


def test_an_answer_that_was_lost_deletes_nothing(metastore: InProcessMetastore, catalog: Catalog) -> None:
    table = make(catalog, "none")
    write_some(table)
    before = shown(table)

    class Losing(FaultyMetastore):
        def commit(self, wanted: CommitRequest) -> CommitResult:
            self.inner.commit(wanted)
            raise OutcomeUnknown("The answer was lost.")

    request(metastore, table)
    assert make_service(Losing(metastore)).step()
    assert shown(table) == before
    (job,) = metastore.list_jobs()
    assert job.state is JobState.DUE


def test_a_zombie_changes_nothing_and_deletes_only_what_is_its_own(
    metastore: InProcessMetastore, catalog: Catalog, warehouse: Path
) -> None:
    table = make(catalog, "none")
    write_some(table)
    before = shown(table)
    errors: list[Exception] = []

    class Overtaken(FaultyMetastore):
        def heartbeat_job(self, job_id: int, epoch: int, duration_ms: int) -> int:
            return duration_ms

        def commit(self, wanted: CommitRequest) -> CommitResult:
            time.sleep(1.1)
            attach_all(metastore, holder="another")
            try:
                return self.inner.commit(wanted)
            except (Fenced, CommitConflict) as error:
                errors.append(error)
                raise

    request(metastore, table)
    assert make_service(Overtaken(metastore), holder="zombie", lease_s=1.0).step()
    assert [type(error) for error in errors] == [Fenced]
    assert shown(table) == before
    assert len([path for path in data_files(warehouse) if "compact-" in path]) == 1


def test_any_process_that_takes_over_deletes_what_the_dead_have_left(
    metastore: InProcessMetastore, catalog: Catalog, warehouse: Path
) -> None:
    table = make(catalog, "none")
    write_some(table)
    before = shown(table)

    class Killed(BaseException):
        pass

    class Dying(FaultyMetastore):
        def commit(self, wanted: CommitRequest) -> CommitResult:
            raise Killed

        def abandon_attempt(self, attempt_id: str) -> Any:
            raise Killed

    request(metastore, table)
    with pytest.raises(Killed):
        make_service(Dying(metastore), lease_s=1.0).step()
    assert len([path for path in data_files(warehouse) if "compact-" in path]) == 1
    time.sleep(1.1)
    attach_all(metastore)
    assert shown(table) == before
    assert len([path for path in data_files(warehouse) if "compact-" in path]) == 1
    assert levels(table) == [5]


def test_a_damaged_file_fails_its_job_and_no_other(
    metastore: InProcessMetastore, catalog: Catalog, warehouse: Path
) -> None:
    table = make(catalog, "none")
    write_some(table, 2)
    path = data_files(warehouse)[0]
    table.write(rows("+I 2|1|1"))
    table.write(rows("+I 2|1|2"))
    whole = (warehouse / path).read_bytes()
    (warehouse / path).write_bytes(whole[:50])
    request(metastore, table)
    attach_all(metastore)
    failed, done = metastore.list_jobs()
    assert (failed.state, done.state) == (JobState.FAILED, JobState.DONE)
    assert path.rpartition("/")[2] in failed.reason
    (warehouse / path).write_bytes(whole)
    request(metastore, table)
    attach_all(metastore)
    assert [job.state for job in metastore.list_jobs()] == [JobState.DONE] * 2
    assert set(levels(table)) == {5}


def test_a_store_that_fails_leaves_nothing(metastore: InProcessMetastore, catalog: Catalog, warehouse: Path) -> None:
    table = make(catalog, "none")
    write_some(table)
    before = data_files(warehouse)
    stores = FaultyStores()
    stores.open(table.info.location)
    stores.fail_at("commit", 1)
    request(metastore, table)
    assert make_service(metastore, stores=stores).step()
    assert stores.failures
    assert data_files(warehouse) == before
    (job,) = metastore.list_jobs()
    assert (job.state, job.attempts) == (JobState.DUE, 1)


def test_a_table_that_is_dropped_meanwhile_leaves_nothing_behind(
    metastore: InProcessMetastore, catalog: Catalog, warehouse: Path
) -> None:
    table = make(catalog, "none")
    write_some(table)

    class Dropping(FaultyMetastore):
        def commit(self, wanted: CommitRequest) -> CommitResult:
            catalog.drop_table("shop.t")
            return self.inner.commit(wanted)

    request(metastore, table)
    attach_all(Dropping(metastore))
    assert not [path for path in data_files(warehouse) if "compact-" in path]
    assert [job.kind for job in metastore.list_jobs()] == [PURGE]
