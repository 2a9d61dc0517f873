from __future__ import annotations

import pytest

from lakelog.errors import HistoryDiverged
from lakelog.log.position import from_committed, to_metadata
from lakelog.log.records import NOTHING_PUBLISHED, LogPosition

UUID = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    ("position", "metadata"),
    [
        (NOTHING_PUBLISHED, ""),
        (LogPosition(7, UUID), UUID),
        (LogPosition(7, UUID, 0), f"{UUID} 0"),
        (LogPosition(1 << 40, UUID, 900_000_000_000), f"{UUID} 900000000000"),
    ],
)
def test_a_position_comes_back(position: LogPosition, metadata: str) -> None:
    assert to_metadata(position) == metadata
    assert from_committed("g", position.snapshot_id, metadata) == position


def test_nothing_was_committed() -> None:
    assert from_committed("g", -1001, "") is None


@pytest.mark.parametrize(
    ("offset", "metadata"),
    [(5, ""), (0, "x"), (5, UUID[:-1]), (5, f"{UUID} "), (5, f"{UUID} -1"), (5, f"{UUID} 1 2"), (5, f"{UUID}\n")],
)
def test_what_others_committed_is_no_position(offset: int, metadata: str) -> None:
    with pytest.raises(HistoryDiverged) as caught:
        from_committed("g", offset, metadata)
    assert caught.value.reason == "POSITION_UNREADABLE"
    assert "consumer group g" in caught.value.message
