"""Where streams of Spark begin that come out of a log: at its end, or at a time of its records (semantics 4.6)."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from lakelog.clock import SystemClock
from lakelog.errors import PermissionDenied
from lakelog.log.memory import MemoryCluster
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.spark.stream import beginning
from tests.integration.spark.log.driven_log import flat, of_files, stream_of
from tests.support.log.logging_tables import LogUses
from tests.support.log.orders_with_log import make, random_rows

HOUR_MS = 3_600_000


class SetClock(SystemClock):
    """Of the brokers: as late as a test says."""

    def __init__(self) -> None:
        self.late_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.late_ms


@pytest.fixture
def brokers_clock() -> SetClock:
    return SetClock()


@pytest.fixture
def cluster(brokers_clock: SetClock) -> MemoryCluster:
    return MemoryCluster(clock=brokers_clock)


@pytest.fixture(autouse=True)
def opened(uses: LogUses, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beginning, "open_table_log", uses)


@pytest.fixture
def table(catalog: Catalog) -> Table:
    return make(catalog, True, {"bucket": "2"})


def find_shown(rows: list[dict[str, Any]]) -> set[int]:
    return {row["_snapshot_id"] for row in rows}


def write(table: Table, seed: int) -> None:
    table.upsert(random_rows(Random(seed), 9, None))


@pytest.mark.parametrize(("mode", "ids"), [("latest", {2, 3}), ("latest-full", {1, 2, 3})])
def test_a_stream_begins_at_the_end_of_the_log(table: Table, publisher: Any, mode: str, ids: set[int]) -> None:
    by_hand = publisher(table)
    write(table, 1)
    by_hand.publish()
    # Committed, but not in the log: shown once it is.
    write(table, 2)
    stream = stream_of(table, scan__mode=mode)
    stream.options.pop("scan.snapshot-id")
    stream.start()
    assert stream.reader is not None
    stream.offsets.append(stream.reader.initialOffset())
    write(table, 3)
    by_hand.publish()
    assert find_shown(flat(stream.run())) == ids


def test_a_stream_begins_with_records_of_a_time(
    table: Table, publisher: Any, brokers_clock: SetClock, uses: LogUses
) -> None:
    by_hand = publisher(table)
    for seed, late_ms in ((1, 0), (2, HOUR_MS), (3, 2 * HOUR_MS)):
        brokers_clock.late_ms = late_ms
        write(table, seed)
        by_hand.publish()
    since = str(SystemClock().now_ms() + HOUR_MS // 2)

    def begin() -> set[int]:
        stream = stream_of(table, scan__timestamp_millis=since)
        stream.options.pop("scan.snapshot-id")
        return find_shown(flat(stream.run()))

    assert begin() == {2, 3}
    # Where the log cannot tell, the times of commits do.
    uses.refuses = PermissionDenied("No.")
    assert begin() == set()
    assert find_shown(of_files(table)) == {1, 2, 3}
