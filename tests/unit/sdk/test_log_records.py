"""Records of another history are found out and named, whoever reads them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from lakelog.errors import HistoryDiverged
from lakelog.log.records import FetchedRecords
from lakelog.reads.log.records import NO_SNAPSHOT, check_history, to_snapshot_ids
from tests.support.log.fetched import make_fetched

_OURS = b"a" * 32


def _make(ids: list[int | None], uuids: list[bytes | None]) -> FetchedRecords:
    records = make_fetched([b""] * len(ids))
    return replace(records, snapshot_ids=pa.array(ids, pa.int64()), uuids=pa.array(uuids, pa.binary()))


@pytest.mark.parametrize("uuids", [pa.scalar(_OURS), pa.array([_OURS] * 3)], ids=["one for all", "each its own"])
@pytest.mark.parametrize("foreign", [b"b" * 32, None])
def test_the_first_record_of_another_history_is_named(uuids: pa.Array | pa.Scalar, foreign: bytes | None) -> None:
    check_history(_make([4, 5, 6], [_OURS] * 3), uuids, "orders")
    with pytest.raises(HistoryDiverged, match=r"The log orders has records of a snapshot 5 that is another"):
        check_history(_make([4, 5, 6], [_OURS, foreign, foreign]), uuids, "orders")


def test_records_without_a_snapshot_are_of_none() -> None:
    assert np.array_equal(to_snapshot_ids(_make([4, None], [_OURS, None])), [4, NO_SNAPSHOT])
