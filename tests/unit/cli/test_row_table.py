from __future__ import annotations

import pyarrow as pa
import pytest

from lakelog.cli.row_table import _cells


@pytest.mark.parametrize(
    ("column", "texts"),
    [
        (pa.array([0, None], pa.int32()).cast(pa.date32()), ["1970-01-01", ""]),
        (pa.array([2**31 - 1, None, 0], pa.int32()).cast(pa.date32()), ["2147483647", "", "1970-01-01"]),
        (pa.array([2**63 - 1, None], pa.int64()).view(pa.timestamp("us", "UTC")), ["9223372036854775807", ""]),
    ],
)
def test_dates_beyond_the_years_of_python_are_shown(column: pa.Array, texts: list[str]) -> None:
    cells = [cell.text for cell in _cells(column, None)]
    assert len(cells) == len(texts)
    assert all(text in cell for cell, text in zip(cells, texts, strict=True))
