"""Compactions whose inputs are gone when they are read, or whose files cannot be deleted: nothing is damaged by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakelog.format.commit.request import CommitRequest, CommitResult
from lakelog.format.jobs.job import JobState
from lakelog.format.retention.table_files import OrphanReason
from lakelog.sdk.catalog import Catalog
from metastore.testing import InProcessMetastore
from tests.integration.compactor.requesting import request, write_some
from tests.support.tables.attaching import attach_all, make_service
from tests.support.tables.faulty import FaultyMetastore, FaultyStores
from tests.support.tables.keyed import make, rows, shown


def test_what_was_committed_is_done_though_nothing_can_be_deleted(
    metastore: InProcessMetastore, catalog: Catalog, warehouse: Path
) -> None:
    table = make(catalog, "none")
    write_some(table)
    stores = FaultyStores()
    overwritten: list[int] = []

    class Overwriting(FaultyMetastore):
        def commit(self, wanted: CommitRequest) -> CommitResult:
            if not overwritten:
                table.overwrite(rows("+I 1|7|7").drop_columns(["_row_kind"]))
                overwritten.append(1)
            return self.inner.commit(wanted)

    request(metastore, table)
    stores.open(table.info.location)
    stores.fail_at("delete", 1)
    assert make_service(Overwriting(metastore), stores=stores).step()
    assert stores.failures == 1
    (job,) = metastore.list_jobs()
    assert (job.state, job.attempts) == (JobState.DONE, 0), job.reason
    left = table.check_files()
    assert left.orphan_files == 1
    assert [each.reason for each in left.orphans] == [OrphanReason.ABORTED]
    assert shown(table) == {(1, 7): 7}


@pytest.mark.parametrize("producer", ["none", "full-compaction"])
def test_what_expired_since_it_was_planned_is_no_damage(
    metastore: InProcessMetastore, catalog: Catalog, producer: str
) -> None:
    table = make(catalog, producer, **{"snapshot.time-retained": "0 ms", "snapshot.num-retained.min": "1"})
    write_some(table)
    folder = Path(table.location.removeprefix("file://"))
    gone: list[str] = []

    class Expiring(FaultyMetastore):
        """Between plan and rewrite all is replaced, and what was there is deleted."""

        def stage_attempt(self, *arguments: Any, **more: Any) -> Any:
            if not gone:
                gone.append("now")
                table.overwrite(rows("+I 1|7|7").drop_columns(["_row_kind"]))
                table.expire_snapshots()
                gone.extend(metastore.list_expired_files(table.uuid, 100))
                for path in gone[1:]:
                    (folder / path).unlink()
            return self.inner.stage_attempt(*arguments, **more)

    request(metastore, table)
    attach_all(Expiring(metastore))
    assert len(gone) > 4, "nothing was deleted"
    job = metastore.list_jobs()[0]
    assert (job.state, job.attempts) == (JobState.DONE, 0), job.reason
    assert shown(table) == {(1, 7): 7}
