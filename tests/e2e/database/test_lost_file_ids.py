"""C9: ids of files are given again after a failover that lost commits; what names the lost ones is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from compactor.compactions.bucket_work import (
    BucketWork,
    Strategy,
    list_bucket,
    plan_work,
)
from lakelog.clock import SystemClock
from lakelog.errors import HistoryDiverged
from lakelog.format.commit.request import CommitRequest, CommitResult
from lakelog.sdk.catalog import Catalog
from lakelog.storage.objects.stores import LocationStores
from tests.e2e.database.lost_files import BUCKET, compact
from tests.e2e.database.two_metastores import SCHEMA, TwoMetastores, read, write
from tests.support.tables.faulty import FaultyMetastore

pytestmark = pytest.mark.e2e


def set_protection(monkeypatch: pytest.MonkeyPatch, protected: bool) -> None:
    if not protected:
        monkeypatch.setattr("lakelog.format.commit.rules.check_history", lambda *_: None)


@pytest.mark.parametrize("protected", [True, False], ids=["protected", "control"])
def test_a_compaction_of_lost_files_replaces_no_others(
    both: TwoMetastores, monkeypatch: pytest.MonkeyPatch, protected: bool
) -> None:
    set_protection(monkeypatch, protected)
    table = both.make_table(**{"write-only": "true"})
    write(table, 1, "kept")
    both.pair.begin_to_lag()
    write(table, 2, "lost")
    work = plan_work(list_bucket(both.old, table.info, BUCKET, {}), BUCKET, Strategy.FULL)
    assert isinstance(work, BucketWork)
    both.fail_over()
    # As many files, with the same ids.
    new = write(both.other_catalog.table(table.name), 3, "new")
    assert new.snapshot_id == work.planned_at.snapshot_id
    if protected:
        with pytest.raises(HistoryDiverged, match="Plan again on the newest snapshot"):
            compact(both.old, table, work)
        assert read(table) == ["kept", "new"]
        again = plan_work(list_bucket(both.old, table.info, BUCKET, {}), BUCKET, Strategy.FULL)
        assert isinstance(again, BucketWork)
        assert not compact(both.old, table, again).results[0].dropped
        assert read(table) == ["kept", "new"]
    else:
        compact(both.old, table, work)
        assert read(table) == ["kept", "lost"], "a committed row is gone, and one that never was is there"


class StoppedClock(SystemClock):
    """However slow the machine is, attempts do not grow old."""

    def monotonic_s(self) -> float:
        return 0.0


class InterruptedMetastore(FaultyMetastore):
    """Does something before the next commit."""

    before_commit: Callable[[], object] | None = None

    def commit(self, request: CommitRequest, **settings: Any) -> CommitResult:
        if self.before_commit is not None:
            act, self.before_commit = self.before_commit, None
            act()
        return self.inner.commit(request, **settings)


@pytest.mark.parametrize("protected", [True, False], ids=["protected", "control"])
def test_a_changelog_against_lost_rows_is_not_committed(
    both: TwoMetastores, monkeypatch: pytest.MonkeyPatch, protected: bool
) -> None:
    """The write knows the row that it replaces, which was lost; its attempt was opened before, and was not lost."""
    set_protection(monkeypatch, protected)
    both.make_table(**{"changelog-producer": "lookup"})
    metastore = InterruptedMetastore(both.old)
    table = Catalog(metastore, LocationStores(), clock=StoppedClock()).table("shop.orders")
    for number in range(1, 5):
        write(table, number, "kept")
    # Four writes in a row have opened attempts for the next ones.
    both.pair.begin_to_lag()
    write(table, 5, "lost")

    def fail_over() -> None:
        both.fail_over()
        write(both.other_catalog.table(table.name), 5, "new")

    metastore.before_commit = fail_over
    change = pa.table({"k": [5], "v": ["changed"]}, schema=SCHEMA)
    if protected:
        with pytest.raises(HistoryDiverged, match="Plan again on the newest snapshot"):
            table.upsert(change, writer="w", identifier=6)
    table.upsert(change, writer="w", identifier=6)
    shown = table.changes().to_arrow().select(["_row_kind", "v"]).to_pylist()[-2:]
    assert [row["v"] for row in shown] == ["new" if protected else "lost", "changed"]
