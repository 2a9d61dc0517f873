"""Places of removed rows as they come from Spark's tasks: file by file, and no more than the driver program holds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from lakelog.errors import InvalidArgument
from lakelog.spark.batch import live_rows
from lakelog.spark.row_changes import removal


def test_positions_of_a_file_may_come_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    removed: dict[str, list[int]] = {}

    class Writer:
        def __init__(self, store: object, attempt_id: str) -> None: ...

        def remove(self, file: Any, positions: Any) -> None:
            assert file.path not in removed
            removed[file.path] = positions.tolist()

        def finish(self) -> None: ...

    monkeypatch.setattr(removal, "RemovedRowsWriter", Writer)
    parts = [("b", [9, 7]), ("a", [1]), ("b", [3, 1, 2])]
    columns = [pa.array([path for path, _ in parts]), pa.array([rows for _, rows in parts], pa.list_(pa.int64()))]
    names = [live_rows.PATH_COLUMN, "positions"]
    places = pa.concat_tables(pa.Table.from_arrays([each.slice(row, 1) for each in columns], names) for row in range(3))
    files: Any = [SimpleNamespace(path=path) for path in "abc"]
    store: Any = None
    removal._write_positions(store, "attempt", places, files)
    assert removed == {"a": [1], "b": [1, 2, 3, 7, 9]}


def test_more_rows_than_the_driver_holds_are_refused() -> None:
    removal.check_removed_rows("s.t", removal.MOST_REMOVED_ROWS)
    with pytest.raises(InvalidArgument, match=r"67,108,865 rows of s\.t .* one for each partition") as caught:
        removal.check_removed_rows("s.t", removal.MOST_REMOVED_ROWS + 1)
    assert caught.value.reason == "TOO_MANY_REMOVED_ROWS"
