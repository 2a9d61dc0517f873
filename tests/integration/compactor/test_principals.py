"""Writers, compactors and admins with a name each: all work of compactors is done, on what others have opened."""

from __future__ import annotations

import datetime as dt
import time
from dataclasses import replace
from pathlib import Path

import pytest

from compactor.retention import cleaning
from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import Fenced
from lakelog.format.commit.request import Fence
from lakelog.format.jobs.job import CLEAN, COMPACT, JobState
from lakelog.sdk.catalog import Catalog
from lakelog.storage.objects.stores import LocationStores
from metastore.jobs import cleaning as due_cleaning
from metastore.ownership import Principal
from metastore.tables import table_files
from metastore.testing import InProcessMetastore
from tests.integration.compactor.requesting import request, write_some
from tests.support.metastore.kept_tables import end_keeping
from tests.support.metastore.making import empty
from tests.support.tables.attaching import attach_all
from tests.support.tables.keyed import emitted, make, replayed, shown


@pytest.fixture
def alice(metastore: InProcessMetastore) -> Catalog:
    """A writer's catalog."""
    return Catalog(metastore.acting_as(Principal("alice")), LocationStores())


@pytest.fixture
def compactor(metastore: InProcessMetastore) -> Metastore:
    return metastore.acting_as(Principal("compactor"))


def test_changelogs_and_compactions(
    metastore: InProcessMetastore, catalog: Catalog, alice: Catalog, compactor: Metastore
) -> None:
    name = make(catalog, "lookup", bucket="2").name
    table = alice.table(str(name))
    write_some(table)
    before = sorted(table.scan().to_arrow().to_pylist(), key=str)
    request(metastore, table)
    attach_all(compactor)
    assert {(job.state, job.reason) for job in metastore.list_jobs()} == {(JobState.DONE, "")}
    assert sorted(table.scan().to_arrow().to_pylist(), key=str) == before
    assert replayed(table) == shown(table)
    assert emitted(table, 0)
    # Another compactor, under a name of its own, does the same jobs the next time.
    write_some(table)
    request(metastore, table)
    attach_all(metastore.acting_as(Principal("compactor-2")))
    assert {(job.state, job.reason) for job in metastore.list_jobs()} == {(JobState.DONE, "")}


def test_a_job_is_taken_from_a_compactor_of_another_name(
    metastore: InProcessMetastore, catalog: Catalog, alice: Catalog, compactor: Metastore
) -> None:
    name = make(catalog, "none", bucket="1").name
    write_some(alice.table(str(name)))
    request(metastore, alice.table(str(name)))
    lost = compactor.lease_job([COMPACT], [], "dies", duration_ms=1000)
    assert lost is not None
    attempt = compactor.stage_attempt([lost.table_uuid], lost.lease).attempt_id
    time.sleep(1.1)
    attach_all(metastore.acting_as(Principal("compactor-2")))
    (job,) = metastore.list_jobs()
    assert (job.state, job.reason) == (JobState.DONE, "")
    with pytest.raises(Fenced):
        compactor.heartbeat_job(lost.job_id, lost.epoch, 1000)
    # It has lost the job, and is told so, though the job belongs to another principal by now, or to no one.
    late = empty(metastore.get_table_by_uuid(lost.table_uuid), lost.epoch, writer=lost.lease)
    with pytest.raises(Fenced):
        compactor.commit(replace(late, fences=(Fence(lost.lease, lost.epoch),)))
    assert metastore.find_attempts(lost.table_uuid, [attempt])[attempt].state.value == "aborted"


@pytest.mark.parametrize("ends", [True, False], ids=["protected", "control"])
def test_what_dead_writers_left_is_cleared_away(
    metastore: InProcessMetastore,
    catalog: Catalog,
    compactor: Metastore,
    warehouse: Path,
    monkeypatch: pytest.MonkeyPatch,
    ends: bool,
) -> None:
    table = make(catalog, "none", bucket="1")
    attempt = metastore.acting_as(Principal("alice")).stage_attempt([table.uuid], "dead").attempt_id
    left = warehouse / table.uuid / "data" / attempt / "a.parquet"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"x")
    # As if three days had passed; in the control an attempt belongs to its writer for ever.
    for module in (cleaning, due_cleaning, *([table_files] if ends else [])):
        monkeypatch.setattr(module, "ABANDONED_MS", 0)
        monkeypatch.setattr(module, "SETTLED_MS", 0)
    metastore.run(metastore.use_cases.cleaning.step())
    attach_all(compactor)
    assert left.exists() is not ends
    if not ends:
        return
    (job,) = [each for each in metastore.list_jobs() if each.kind == CLEAN]
    assert (job.state, job.outcome) == (JobState.DONE, "deleted 1 files of 1 attempts that were never committed")


def test_a_table_that_an_admin_drops_is_purged(
    metastore: InProcessMetastore, catalog: Catalog, alice: Catalog, compactor: Metastore, warehouse: Path
) -> None:
    name = make(catalog, "none", bucket="1").name
    table = alice.table(str(name))
    write_some(table)
    catalog.drop_table(str(name))
    end_keeping(metastore, table.uuid)
    attach_all(compactor)
    assert metastore.list_dropped_tables() == []
    assert not list((warehouse / table.uuid).rglob("*.parquet"))


def test_a_repair_by_a_writer_spares_what_others_write(
    metastore: InProcessMetastore, catalog: Catalog, warehouse: Path
) -> None:
    """One by an admin does not."""
    name = str(make(catalog, "none", bucket="1").name)
    table_uuid = catalog.table(name).uuid
    left = []
    for who in ("alice", "bob"):
        attempt = metastore.acting_as(Principal(who)).stage_attempt([table_uuid], f"{who}-writes").attempt_id
        left.append(warehouse / table_uuid / "data" / attempt / "a.parquet")
        left[-1].parent.mkdir(parents=True)
        left[-1].write_bytes(b"x")
    at_once = dt.timedelta(0)
    bob, root = (Principal("bob"), Principal("root", may_all=True))
    by_bob = Catalog(metastore.acting_as(bob), LocationStores()).table(name)
    assert by_bob.check_files(repair=True, older_than=at_once).deleted_files == 1
    assert [each.exists() for each in left] == [True, False]
    by_root = Catalog(metastore.acting_as(root), LocationStores()).table(name)
    assert by_root.check_files(repair=True, older_than=at_once).deleted_files == 1
