"""Updates are packed into one row, wherever a batch ends."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakelog.system_tables.rows.before_and_after import pack_updates

CHANGES = [
    ("+I", 1, 1, "a"),
    ("-U", 2, 1, "a"),
    ("+U", 2, 1, "b"),
    ("-D", 2, 2, None),
    # As `input` has them: one without the other, and one after that of another key.
    ("+U", 3, 3, "c"),
    ("-U", 3, 4, "d"),
    ("-U", 4, 5, "e"),
    ("+U", 4, 6, "f"),
    ("-U", 5, 7, "g"),
    ("+U", 6, 7, "h"),
]
PACKED = [
    ("+I", 1, [1], ["a"]),
    ("+U", 2, [1, 1], ["a", "b"]),
    ("-D", 2, [2], [None]),
    ("+U", 3, [3], ["c"]),
    ("-U", 3, [4], ["d"]),
    ("-U", 4, [5], ["e"]),
    ("+U", 4, [6], ["f"]),
    ("-U", 5, [7], ["g"]),
    ("+U", 6, [7], ["h"]),
]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 20])
def test_packing(size: int) -> None:
    names = ["_row_kind", "_snapshot_id", "k", "v"]
    table = pa.table(dict(zip(names, zip(*CHANGES, strict=True), strict=True)))
    batches = list(pack_updates(iter(table.to_batches(max_chunksize=size)), ["k"]))
    assert all(batch.num_rows for batch in batches)
    assert [tuple(row.values()) for batch in batches for row in batch.to_pylist()] == PACKED


def test_rows_without_a_key_stay_alone() -> None:
    batch = pa.record_batch({"_row_kind": ["-U", "+U"], "_snapshot_id": [1, 1], "k": [1, 1]})
    (packed,) = pack_updates(iter([batch]), ())
    assert packed.column("k").to_pylist() == [[1], [1]]
    assert list(pack_updates(iter([]), ["k"])) == []
