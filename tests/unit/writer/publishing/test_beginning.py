"""Where a generation's first record stands in a topic that others have written to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakelog.clock import SystemClock
from lakelog.errors import Unavailable
from lakelog.format.log.state import LogInfo, PublishState
from lakelog.format.tables.table import TableName
from lakelog.log.columns import NO_RECORDS
from lakelog.log.records import FetchedRecords, LogPosition, TopicState
from writer.publishing.recovery import RecoveryFacts
from writer.publishing.topics.beginning import find_beginning, may_begin_later

INFO = LogInfo("0" * 32, TableName("shop", "orders"), "orders", "id", 2, 5, is_named=False)
MIRROR = PublishState(INFO.table_uuid, 2, 5, "u5", 0, "", (10, 4), 9, 0)
KNOWN = RecoveryFacts(None, MIRROR, TopicState("orders", "id", 2, 1), (0, 0), (20, 4))

Place = tuple[int, int, int | None, bytes | None]
"""A record's partition and offset, its snapshot and its attempt."""


class Reader:
    """Hands records out, some at a time; then it stands at the ends, or where it stood."""

    def __init__(self, chunks: Sequence[Sequence[Place]], ends: Sequence[int]) -> None:
        self.chunks, self.ends, self.at = list(chunks), ends, dict[int, int]()

    def assign(self, offsets: Mapping[int, int]) -> None:
        self.at = dict(offsets)

    def positions(self) -> dict[int, int]:
        return self.at

    def fetch(self, max_records: int, timeout_s: float) -> FetchedRecords:
        if not self.chunks:
            # Behind the last record ends of transactions stand.
            self.at = dict(enumerate(self.ends))
            return NO_RECORDS
        chunk = self.chunks.pop(0)
        for partition, offset, _, _ in chunk:
            self.at[partition] = offset + 1
        partitions, offsets, snapshots, attempts = zip(*chunk, strict=True) if chunk else ((), (), (), ())
        return replace(
            NO_RECORDS,
            partitions=np.array(partitions, np.int32),
            offsets=np.array(offsets, np.int64),
            snapshot_ids=pa.array(snapshots, pa.int64()),
            attempts=pa.array(attempts, pa.binary()),
        )


@pytest.mark.parametrize(
    ("known", "info", "expected"),
    [
        pytest.param(KNOWN, INFO, True, id="the topic goes on behind it"),
        pytest.param(replace(KNOWN, ends=(10, 4)), INFO, False, id="nothing came"),
        pytest.param(replace(KNOWN, ends=(9, 4)), INFO, False, id="it was cut"),
        pytest.param(replace(KNOWN, starts=(20, 4)), INFO, False, id="nothing is kept of what came"),
        pytest.param(replace(KNOWN, mirror=replace(MIRROR, offsets=())), INFO, True, id="it was empty"),
        pytest.param(replace(KNOWN, position=LogPosition(5, "u5")), INFO, False, id="it was begun"),
        pytest.param(replace(KNOWN, mirror=replace(MIRROR, snapshot_id=6)), INFO, False, id="it is published"),
        pytest.param(replace(KNOWN, mirror=replace(MIRROR, next_index=6)), INFO, False, id="a part is published"),
        pytest.param(KNOWN, replace(INFO, generation=1), False, id="nobody else has the topic"),
        pytest.param(KNOWN, replace(INFO, generation=1, is_named=True), True, id="others may have it"),
    ],
)
def test_it_may_begin_later_while_nothing_of_it_is_published(
    known: RecoveryFacts, info: LogInfo, expected: bool
) -> None:
    assert may_begin_later(info, known) is expected


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        pytest.param([[(0, 10, 4, None), (0, 11, 5, None)]], (20, 4), id="of before"),
        pytest.param([[(0, 10, None, None), (0, 12, None, None)]], (20, 4), id="of others"),
        pytest.param([[(0, 10, 5, None)], [(0, 12, 6, None), (0, 13, 7, None)]], (12, 4), id="of the generation"),
        pytest.param([[(0, 10, 5, None), (0, 11, None, b"a")], [(0, 12, 6, None)]], (11, 4), id="sent early"),
        pytest.param([[(0, 10, 5, None)], [(0, 20, 6, None), (1, 4, 6, None)]], (20, 4), id="behind the ends"),
        pytest.param([[]], (20, 4), id="ends of transactions alone"),
    ],
)
def test_it_begins_with_the_first_record_of_its_own(chunks: list[list[Place]], expected: tuple[int, ...]) -> None:
    reader: Any = Reader(chunks, KNOWN.ends)
    assert find_beginning(INFO, KNOWN, reader, SystemClock()) == expected


def test_nothing_is_read_after_its_first_record(monkeypatch: pytest.MonkeyPatch) -> None:
    early: list[list[Place]] = [[(0, place, None, b"a"), (0, place + 1, None, b"a")] for place in range(10, 20, 2)]
    reader: Any = Reader(early, KNOWN.ends)
    assert find_beginning(INFO, KNOWN, reader, SystemClock()) == (10, 4)
    assert len(reader.chunks) == 4, "of what is sent before its commit no more than the first is asked for"

    known = replace(KNOWN, ends=(20, 6))
    monkeypatch.setattr("writer.publishing.topics.beginning._FETCHED", 1)
    reader = Reader([[(0, 10, 6, None), (0, 11, 6, None)], [(1, 4, 5, None), (1, 5, 6, None)]], known.ends)
    assigned: list[Mapping[int, int]] = []
    assign = reader.assign

    def note(offsets: Mapping[int, int]) -> None:
        assigned.append(dict(offsets))
        assign(offsets)

    reader.assign = note
    assert find_beginning(INFO, known, reader, SystemClock()) == (10, 5)
    assert assigned == [{0: 10, 1: 4}, {1: 4}], "of a partition that is done nothing more comes"


def test_what_is_kept_later_begins_later() -> None:
    reader: Any = Reader([], KNOWN.ends)
    known = replace(KNOWN, starts=(15, 2), mirror=replace(MIRROR, offsets=(10,)))
    find_beginning(INFO, known, reader, SystemClock())
    reader.assign = lambda offsets: pytest.fail(str(offsets)) if offsets != {0: 15, 1: 2} else None
    find_beginning(INFO, known, reader, SystemClock())


def test_brokers_that_hand_out_nothing_are_not_waited_for_without_end() -> None:
    class Slow(SystemClock):
        now_s = 0.0

        def monotonic_s(self) -> float:
            self.now_s += 10
            return self.now_s

    reader: Any = Reader([[]] * 100, KNOWN.ends)
    with pytest.raises(Unavailable, match="though 10 offsets are left"):
        find_beginning(INFO, KNOWN, reader, Slow())
