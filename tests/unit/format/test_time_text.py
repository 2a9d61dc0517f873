from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from lakelog.format.types.time_text import to_time_texts


@pytest.mark.parametrize(
    ("column", "texts"),
    [
        (pa.array([dt.date(1, 1, 1), None, dt.date(9999, 12, 31)]), ["0001-01-01", None, "9999-12-31"]),
        (
            pa.array([11_248_737, 11_248_738], pa.int32()).view(pa.date32()),
            ["32767-12-31", "11248738 days since 1970-01-01"],
        ),
        (
            pa.array([-12_687_428, -(2**31)], pa.int32()).view(pa.date32()),
            ["-32767-01-01", "-2147483648 days since 1970-01-01"],
        ),
        (pa.array([1_356_998_400_000_005], pa.timestamp("us")), ["2013-01-01T00:00:00.000005"]),
        (
            pa.array([0, 2**63 - 1], pa.timestamp("us", "Europe/Berlin")),
            ["1970-01-01T00:00:00.000000Z", "9223372036854775807 µs since 1970-01-01"],
        ),
        (
            pa.array([-(2**63), 1], pa.timestamp("s")),
            ["-9223372036854775808 s since 1970-01-01", "1970-01-01T00:00:01.000000"],
        ),
        (pa.array([1_999, None], pa.timestamp("ns")), ["1970-01-01T00:00:00.000001", None]),
        (pa.array([None], pa.timestamp("ms")), [None]),
    ],
)
def test_times_as_text(column: pa.Array, texts: list[str | None]) -> None:
    assert to_time_texts(column).to_pylist() == texts
