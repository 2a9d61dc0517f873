"""Which snapshots stand in a log before a time, by the ends of those that are known."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any, cast

from lakelog.client.metastore.metastore import Metastore
from lakelog.format.log.state import LogInfo, PublishState, SnapshotOffsets
from lakelog.format.tables.table import TableName
from lakelog.log.protocol import Log
from lakelog.reads.log.start import LoggedBefore, find_logged_before

INFO = LogInfo("t", TableName("shop", "orders"), "topic", "", 1, 2, False)


class Known:
    """A metastore and a log of so many ends, by snapshot."""

    def __init__(self, ends: Mapping[int, tuple[int, ...]], begins: tuple[int, ...], firsts: tuple[int, ...]) -> None:
        self.ends, self.begins, self.firsts = ends, begins, firsts
        self.calls = 0
        self.generation = 1

    def find(self) -> LoggedBefore | None:
        return find_logged_before(cast(Metastore, self), "t", 17, lambda options: cast(Log, self))

    def get_log(self, table_uuid: str) -> LogInfo:
        return INFO

    def get_publish_state(self, table_uuid: str) -> PublishState:
        last = max(self.ends, default=INFO.starts_after)
        return PublishState("t", self.generation, last, "", 0, "", self.ends.get(last, ()), last, 0)

    def find_log_offsets(self, table_uuid: str, *, until: int) -> SnapshotOffsets | None:
        self.calls += 1
        found = max((each for each in self.ends if each <= until), default=None)
        return None if found is None else SnapshotOffsets(found, "", self.ends[found])

    def open_reader(self, topic: str) -> Known:
        return self

    def list_offsets(self, **asked: Any) -> tuple[int, ...]:
        if asked.get("earliest"):
            return self.firsts
        assert asked == {"timestamp_ms": 17}
        return self.begins

    def close(self) -> None:
        pass


def test_the_first_snapshot_that_reaches_after_the_time_in_any_partition() -> None:
    draw = Random(4)
    for _ in range(500):
        ends: dict[int, tuple[int, ...]] = {}
        at = [0, 0, 0]
        for snapshot_id in range(3, 3 + draw.randrange(12)):
            at = [each + draw.choice([0, 0, 2, 5]) for each in at]
            # Of some the publisher died before it told.
            if draw.random() < 0.8:
                ends[snapshot_id] = tuple(at)
        begins = tuple(draw.randrange(1, each + 2) for each in at)
        known = Known(ends, begins, (0, 0, 0))
        behind = [each for each, end in ends.items() if any(x > y for x, y in zip(end, begins, strict=True))]
        before = [each for each in ends if each not in behind]
        assert known.find() == LoggedBefore(max(before, default=2), min(behind, default=None))
        assert known.calls <= 4


def test_a_log_without_an_answer() -> None:
    ends = {3: (4, 4), 4: (8, 8)}
    assert Known(ends, (4, 4), (0, 0)).find() == LoggedBefore(3, 4)
    # Partition 1 has lost what stood before 4, which may have been later.
    assert Known(ends, (4, 4), (0, 4)).find() is None
    assert Known(ends, (4, 5), (0, 4)).find() == LoggedBefore(3, 4)
    restarted = Known(ends, (4, 4), (0, 0))
    restarted.generation = 2
    assert restarted.find() is None


def test_a_partition_that_was_added() -> None:
    assert Known({3: (4,), 4: (8, 2)}, (8, 0), (0, 0)).find() == LoggedBefore(3, 4)
