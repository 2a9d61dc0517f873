"""An overview has a bounded size, whatever is overdue."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from lakelog.format.jobs.overview import MAX_OVERDUE, Overview
from lakelog.format.retention.expiry import OverdueSnapshots, SnapshotLease, SnapshotLeaseKind
from metastore.waiting_work import overview
from metastore.waiting_work.overview import Overviews


def test_of_many_overdue_snapshots_the_oldest_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async def load(*_: object) -> Overview:
        return Overview(1, 1, 1, 1, 1, 1, 1, 1)

    monkeypatch.setattr(overview, "run_transaction", load)
    lease = SnapshotLease(SnapshotLeaseKind.CONSUMER, "c", 1)
    found = [OverdueSnapshots(f"shop.t{number}", lease, 1, number) for number in range(MAX_OVERDUE + 10)]
    answer = asyncio.run(Overviews(cast(Any, None), lambda: found).get_overview())
    assert answer.overdue == tuple(found[:MAX_OVERDUE])
