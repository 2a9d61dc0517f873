"""Changelogs that are made after the commit: as those made before it, in order, and shown then (semantics 3.5)."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from lakelog.errors import CommitConflict, Fenced, InvalidArgument, LakelogError, OutcomeUnknown, Unavailable
from lakelog.format.commit.attachment import AttachRequest, AttachResult
from lakelog.format.jobs.job import PURGE, JobState
from lakelog.format.tables.snapshot import ChangelogState, SnapshotKind
from lakelog.format.types.column_changes import DropColumn
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from metastore.testing import InProcessMetastore
from tests.support.tables.attaching import attach_all, make_service
from tests.support.tables.data_files import data_files
from tests.support.tables.faulty import FaultyMetastore, FaultyStores
from tests.support.tables.keyed import emitted, make, replayed, rows, shown

PENDING, ATTACHED, NONE = ChangelogState.PENDING, ChangelogState.ATTACHED, ChangelogState.NONE


def states(table: Table, metastore: InProcessMetastore) -> list[ChangelogState]:
    return [each.changelog for each in metastore.list_snapshots(table.uuid).snapshots]


@pytest.mark.parametrize("options", [{"lookup_wait": "false"}, {"write_only": "true"}])
def test_a_commit_leaves_the_changelog_to_a_compactor(
    metastore: InProcessMetastore, catalog: Catalog, options: dict[str, str]
) -> None:
    table = make(catalog, "lookup", **options)
    table.write(rows("+I 1|10|100", "+I 1|20|200", "+I 1|40|400"))
    table.write(rows("+I 1|10|101", "+I 1|30|300", "+I 1|10|102", "-D 1|40|0"))
    assert states(table, metastore) == [PENDING, PENDING]
    attach_all(metastore)
    assert states(table, metastore) == [ATTACHED, ATTACHED]
    assert emitted(table, 1) == ["-U 1|10|100", "+U 1|10|102", "+I 1|30|300", "-D 1|40|400"]
    assert replayed(table) == shown(table)


def test_other_producers_and_overwrites_leave_nothing_open(metastore: InProcessMetastore, catalog: Catalog) -> None:
    table = make(catalog, "input", lookup_wait="false")
    table.write(rows("+I 1|1|1"))
    table.alter(set={"changelog-producer": "lookup"})
    table.overwrite(rows("+I 1|2|2").drop_columns(["_row_kind"]))
    assert states(table, metastore) == [ATTACHED, NONE]
    assert metastore.list_jobs() == []


def test_both_options_may_be_altered_and_what_is_open_is_attached_all_the_same(
    metastore: InProcessMetastore, catalog: Catalog
) -> None:
    table = make(catalog, "lookup", lookup_wait="false")
    table.write(rows("+I 1|1|1", "+I 1|2|1"))
    table.write(rows("+U 1|1|2"))
    table.alter(set={"lookup-wait": "true"})
    table.write(rows("+U 1|1|3"))
    table.alter(set={"write-only": "true"})
    table.write(rows("+U 1|1|4"))
    table.alter(set={"changelog-producer": "none"}, unset=["write-only"])
    table.write(rows("+U 1|1|5"))
    table.overwrite(rows("+I 1|9|9").drop_columns(["_row_kind"]))
    assert states(table, metastore) == [PENDING, PENDING, ATTACHED, PENDING, NONE, NONE]
    with pytest.raises(Unavailable, match=r"Snapshot 1 of shop\.t still waits for a compactor"):
        table.changes(timeout=0)
    attach_all(metastore)
    assert states(table, metastore) == [ATTACHED, ATTACHED, ATTACHED, ATTACHED, NONE, NONE]
    assert emitted(table, 1, 5) == [
        "-U 1|1|1",
        "+U 1|1|2",
        "-U 1|1|2",
        "+U 1|1|3",
        "-U 1|1|3",
        "+U 1|1|4",
        "-U 1|1|4",
        "+U 1|1|5",
    ]


def test_the_settings_for_equal_rows_count_as_they_were_at_the_commit(
    metastore: InProcessMetastore, catalog: Catalog
) -> None:
    late, at_once = make(catalog, "lookup", "shop.late", lookup_wait="false"), make(catalog, "lookup")
    deduplicate = "changelog-producer.row-deduplicate"
    settings: list[tuple[dict[str, str], list[str]]] = [
        ({}, []),
        ({deduplicate: "true"}, []),
        ({f"{deduplicate}-ignore-fields": "v"}, []),
        ({}, [f"{deduplicate}-ignore-fields"]),
        ({}, [deduplicate]),
    ]
    for number, (given, taken) in enumerate(settings):
        for table in (late, at_once):
            table.alter(set=given, unset=taken)
            table.write(rows("+I 1|1|1", f"+I 1|2|{number}"))
            table.write(rows("+I 1|1|1", f"+I 1|2|{number + 10}"), properties={"from": "test"})
    attach_all(metastore)
    assert emitted(late, 0) == emitted(at_once, 0)
    # The setting that came last would have told otherwise.
    assert emitted(late, 4, 6) == [] != emitted(late, 8)
    # Compactions become due meanwhile.
    appended = [each for each in metastore.list_snapshots(late.uuid).snapshots if each.kind is SnapshotKind.APPEND]
    assert [each.properties.get(deduplicate) for each in appended] == [
        *(None, None, "true", "true", "true", "true", "true", "true", None, None)
    ]


def test_many_snapshots_are_emitted_together(metastore: InProcessMetastore, catalog: Catalog) -> None:
    table = make(catalog, "lookup", lookup_wait="false", bucket="2")
    for number in range(30):
        table.write(rows(*(f"+I {key % 2}|{key}|{number}" for key in range(number % 7, 12))))
    faulty = FaultyMetastore(metastore)
    attached: list[int] = []

    class Counting(FaultyMetastore):
        def attach_changelogs(self, request: AttachRequest) -> AttachResult:
            attached.append(len(request.changelogs))
            return self.inner.attach_changelogs(request)

    attach_all(Counting(faulty.inner))
    assert attached == [30]
    assert replayed(table) == shown(table)


def test_a_commit_that_only_leads_the_way_has_no_files(metastore: InProcessMetastore, catalog: Catalog) -> None:
    table = make(catalog, "lookup", lookup_wait="false")
    table.write(rows("-D 1|1|1"))
    table.write(rows("-D 1|1|1").slice(0, 0), allow_empty=True)
    attach_all(metastore)
    assert states(table, metastore) == [ATTACHED, ATTACHED]
    assert emitted(table, 0) == []


def test_a_bounded_read_waits_and_then_says_which_snapshot_waits(
    metastore: InProcessMetastore, catalog: Catalog
) -> None:
    table = make(catalog, "lookup", lookup_wait="false")
    table.write(rows("+I 1|1|1"))
    attach_all(metastore)
    table.write(rows("+U 1|1|2"))
    assert emitted(table, 0, 1) == ["+I 1|1|1"]
    began = time.monotonic()
    with pytest.raises(Unavailable, match=r"Snapshot 2 of shop.t still waits for a compactor after 0.3 s") as caught:
        table.changes(timeout=0.3)
    assert 0.2 < time.monotonic() - began < 3
    assert caught.value.metadata["snapshot_id"] == "2"
    later = threading.Timer(0.3, lambda: attach_all(metastore))
    later.start()
    assert emitted(table, 1, timeout=20) == ["-U 1|1|1", "+U 1|1|2"]
    later.join()
    with pytest.raises(InvalidArgument, match="timeout=-1 is no time"):
        table.changes(timeout=-1)


def test_rows_as_they_were_written_and_states_do_not_wait(metastore: InProcessMetastore, catalog: Catalog) -> None:
    table = make(catalog, "lookup", lookup_wait="false")
    table.write(rows("+I 1|1|1"))
    assert emitted(table, 0, raw=True, timeout=0) == ["+I 1|1|1"]
    assert shown(table) == {(1, 1): 1}
    between = {"incremental-between": "0,1"}
    assert table.scan(options=between | {"incremental-between-scan-mode": "delta"}).count() == 1
    assert table.scan(options=between | {"incremental-between-scan-mode": "diff"}).count() == 1
    with table.subscribe(
        scan_mode="from-snapshot", options={"scan.snapshot-id": 1, "scan.remove-normalize": "true"}
    ) as stream:
        assert next(iter(stream)).snapshot_id == 1


def test_a_subscriber_is_notified_when_its_changelog_is_attached(
    metastore: InProcessMetastore, catalog: Catalog
) -> None:
    table = make(catalog, "lookup", lookup_wait="false")
    table.write(rows("+I 1|1|1"))
    seen: list[tuple[int, list[str]]] = []
    with table.subscribe(scan_mode="from-snapshot", options={"scan.snapshot-id": 1}) as stream:

        def read() -> None:
            seen.extend((batch.snapshot_id, batch.data.column("_row_kind").to_pylist()) for batch in stream)

        reader = threading.Thread(target=read)
        reader.start()
        time.sleep(0.4)
        assert seen == []
        table.write(rows("+U 1|1|2"))
        attach_all(metastore)
        _wait_for(lambda: len(seen) == 2)
        stream.close()
        reader.join(5)
    assert seen == [(1, ["+I"]), (2, ["-U", "+U"])]


def test_a_subscriber_that_is_behind_sees_a_column_until_it_was_dropped(
    metastore: InProcessMetastore, catalog: Catalog
) -> None:
    table = make(catalog, "lookup", lookup_wait="false")
    table.write(rows("+I 1|1|1"))
    with table.subscribe(scan_mode="from-snapshot", options={"scan.snapshot-id": 1}) as stream:
        table.write(rows("+U 1|1|2"))
        table.alter(columns=[DropColumn("v")])
        catalog.table(table.name).write(rows("+I 1|2|0").drop_columns(["v"]))
        attach_all(metastore)
        batches = iter(stream)
        seen = [value for _ in range(2) for value in next(batches).data.column("v").to_pylist()]
        with pytest.raises(LakelogError) as caught:
            next(batches)
    assert (seen, caught.value.reason) == ([1, 1, 2], "COLUMNS_CHANGED")
    assert states(table, metastore) == [ATTACHED, ATTACHED, ATTACHED]


def test_latest_full_begins_with_the_newest_snapshot_whether_it_is_open_or_not(
    metastore: InProcessMetastore, catalog: Catalog
) -> None:
    table = make(catalog, "lookup", lookup_wait="false")
    table.write(rows("+I 1|1|1"))
    table.write(rows("+U 1|1|2"))
    with table.subscribe() as stream:
        batches = iter(stream)
        first = next(batches)
        assert (first.snapshot_id, first.data.column("v").to_pylist()) == (2, [2])
        table.write(rows("+U 1|1|3"))
        attach_all(metastore)
        second = next(batches)
        assert (second.snapshot_id, second.data.column("v").to_pylist()) == (3, [2, 3])


def test_a_damaged_file_fails_its_job_and_no_other(
    metastore: InProcessMetastore, catalog: Catalog, warehouse: Path
) -> None:
    table = make(catalog, "lookup", lookup_wait="false")
    table.write(rows("+I 1|1|1"))
    (path,) = data_files(warehouse)
    whole = (warehouse / path).read_bytes()
    (warehouse / path).write_bytes(whole[:50])
    catalog.create_database("other")
    other = catalog.create_table(
        "other.t",
        table.schema,
        primary_key=["pt", "k"],
        options={"changelog-producer": "lookup", "lookup-wait": "false"},
    )
    other.write(rows("+I 1|1|1"))
    attach_all(metastore)
    (job,) = metastore.list_jobs([table.uuid])
    assert job.state is JobState.FAILED
    assert path.rpartition("/")[2] in job.reason
    assert states(other, metastore) == [ATTACHED]
    # Nothing of the attempt is left.
    assert [each for each in data_files(warehouse) if "late-" in each and table.uuid in each] == []
    (warehouse / path).write_bytes(whole)
    metastore.retry_job(job.job_id)
    attach_all(metastore)
    assert emitted(table, 0) == ["+I 1|1|1"]


def test_a_store_that_fails_leaves_nothing_and_the_job_is_tried_again(
    metastore: InProcessMetastore, catalog: Catalog, warehouse: Path
) -> None:
    table = make(catalog, "lookup", lookup_wait="false", bucket="3")
    table.write(rows(*(f"+I 1|{key}|1" for key in range(20))))
    before = data_files(warehouse)
    stores = FaultyStores()
    stores.open(table.info.location)
    stores.fail_at("commit", 1)
    service = make_service(metastore, stores=stores)
    assert service.step()
    assert stores.failures
    assert data_files(warehouse) == before
    (job,) = metastore.list_jobs()
    assert (job.state, job.attempts) == (JobState.DUE, 1)
    stores.heal()
    _wait_for(lambda: service.step())
    assert replayed(table) == shown(table)


def test_an_answer_that_was_lost_deletes_nothing(
    metastore: InProcessMetastore, catalog: Catalog, warehouse: Path
) -> None:
    table = make(catalog, "lookup", lookup_wait="false")
    table.write(rows("+I 1|1|1"))

    class Losing(FaultyMetastore):
        def attach_changelogs(self, request: AttachRequest) -> AttachResult:
            self.inner.attach_changelogs(request)
            raise OutcomeUnknown("The answer was lost.")

    assert make_service(Losing(metastore)).step()
    assert states(table, metastore) == [ATTACHED]
    assert emitted(table, 0) == ["+I 1|1|1"]


def test_a_table_that_is_dropped_meanwhile_leaves_nothing_behind(
    metastore: InProcessMetastore, catalog: Catalog, warehouse: Path
) -> None:
    table = make(catalog, "lookup", lookup_wait="false")
    table.write(rows("+I 1|1|1"))

    class Dropping(FaultyMetastore):
        def attach_changelogs(self, request: AttachRequest) -> AttachResult:
            catalog.drop_table("shop.t")
            return self.inner.attach_changelogs(request)

    attach_all(Dropping(metastore))
    assert [each for each in data_files(warehouse) if "late-" in each] == []
    assert [job.kind for job in metastore.list_jobs()] == [PURGE]


def test_a_zombie_attaches_nothing_and_deletes_only_what_is_its_own(
    metastore: InProcessMetastore, catalog: Catalog, warehouse: Path
) -> None:
    table = make(catalog, "lookup", lookup_wait="false")
    table.write(rows("+I 1|1|1"))
    errors: list[Exception] = []

    class Overtaken(FaultyMetastore):
        def heartbeat_job(self, job_id: int, epoch: int, duration_ms: int) -> int:
            return duration_ms

        def attach_changelogs(self, request: AttachRequest) -> AttachResult:
            # While it stood still, its deadline passed and another did its work.
            time.sleep(1.1)
            attach_all(metastore, holder="another")
            try:
                return self.inner.attach_changelogs(request)
            except (Fenced, CommitConflict) as error:
                errors.append(error)
                raise

    assert make_service(Overtaken(metastore), holder="zombie", lease_s=1.0).step()
    assert [type(error) for error in errors] == [Fenced]
    assert emitted(table, 0) == ["+I 1|1|1"]
    # Of the two changelogs that were written one is left.
    assert len([each for each in data_files(warehouse) if "late-" in each]) == 1
    (job,) = metastore.list_jobs()
    assert (job.state, job.outcome) == (JobState.DONE, "attached the changelogs of snapshot 1 (1 row)")


def test_any_process_that_takes_over_deletes_what_the_dead_have_left(
    metastore: InProcessMetastore, catalog: Catalog, warehouse: Path
) -> None:
    table = make(catalog, "lookup", lookup_wait="false")
    table.write(rows("+I 1|1|1"))

    class Killed(BaseException):
        pass

    class Dying(FaultyMetastore):
        def attach_changelogs(self, request: AttachRequest) -> AttachResult:
            raise Killed

        def abandon_attempt(self, attempt_id: str) -> None:
            raise Killed

    with pytest.raises(Killed):
        make_service(Dying(metastore), lease_s=1.0).step()
    assert len([each for each in data_files(warehouse) if "late-" in each]) == 1
    time.sleep(1.1)
    attach_all(metastore)
    assert len([each for each in data_files(warehouse) if "late-" in each]) == 1
    assert emitted(table, 0) == ["+I 1|1|1"]


def test_only_the_tables_asked_for_are_done(metastore: InProcessMetastore, catalog: Catalog) -> None:
    table = make(catalog, "lookup", lookup_wait="false")
    table.write(rows("+I 1|1|1"))
    attach_all(metastore, find_tables=lambda: ["0" * 32])
    assert states(table, metastore) == [PENDING]
    attach_all(metastore, find_tables=lambda: [table.uuid])
    assert states(table, metastore) == [ATTACHED]


def _wait_for(is_so: Any, within_s: float = 15.0) -> None:
    give_up = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < give_up, "it did not come in time"
        time.sleep(0.02)
