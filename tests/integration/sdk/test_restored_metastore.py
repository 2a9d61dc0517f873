"""Subscriptions whose metastore was restored to an earlier state while they were behind."""

from __future__ import annotations

import threading
from contextlib import closing
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lakelog.client.metastore.metastore import SnapshotPage
from lakelog.errors import HistoryDiverged
from lakelog.reads.streams.open_stream import open_stream
from lakelog.reads.streams.request import StreamRequest
from lakelog.sdk.catalog import Catalog
from lakelog.storage.objects.stores import LocationStores
from metastore.testing import InProcessMetastore
from tests.support.tables.faulty import FaultyMetastore

from .shop import NUMBERS, make_log

HANGS_S = 20.0


class RestoredMetastore(FaultyMetastore):
    """From some moment on it knows the snapshots up to one only, as one whose database comes from a backup."""

    latest: int | None = None

    def list_snapshots(self, table_uuid: str, **bounds: Any) -> SnapshotPage:
        page = self.inner.list_snapshots(table_uuid, **bounds)
        if self.latest is None:
            return page
        kept = tuple(each for each in page.snapshots if each.snapshot_id <= self.latest)
        return replace(page, snapshots=kept, latest_snapshot_id=self.latest)


@pytest.mark.parametrize("metastore", ["memory"], indirect=True)
def test_a_reader_ahead_of_a_restored_metastore_is_refused(
    catalog: Catalog, metastore: InProcessMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakelog.reads.streams.follow.MAX_KNOWN", 2)
    table = make_log(catalog)
    for number in range(4):
        table.append(pa.table({"n": [number], "t": ["x"]}, NUMBERS))
    restored = RestoredMetastore(metastore)
    reader = Catalog(restored, LocationStores())
    request = StreamRequest({"scan.mode": "from-snapshot", "scan.snapshot-id": "1"})
    follower = open_stream(reader.context, [table.info], request, holder="test").follower
    # Who asks such a metastore for what comes next again and again never hears of it.
    guard = threading.Timer(HANGS_S, follower.close)
    guard.start()
    shown: list[int] = []

    def follow() -> None:
        with closing(follower.follow()) as changes:  # type: ignore[type-var]
            for progress in changes:
                shown.extend([progress.batch.snapshot_id] if progress.batch is not None else [])
                if shown == [1, 2]:
                    restored.latest = 1

    with pytest.raises(HistoryDiverged) as diverged:
        follow()
    guard.cancel()
    assert shown == [1, 2], "more than two are not known at once"
    assert str(diverged.value).startswith(
        "shop.log was read up to snapshot 2, but its newest one is 1: the metastore was restored to an earlier state."
    )
