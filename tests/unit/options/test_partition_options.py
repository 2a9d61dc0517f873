"""When partitions expire: what may be said of it, and how times are written."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakelog.errors import InvalidArgument
from lakelog.options.timestamp_format import TimestampFormat, fill_in, find_columns
from lakelog.options.validate import validate_table_options

COLUMNS = pa.schema([("day", pa.string()), ("hour", pa.int32()), ("n", pa.int64())])
TIME = "partition.expiration-time"
DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("pattern", "text", "time_ms"),
    [
        ("yyyy-MM-dd", "1970-01-02", DAY_MS),
        ("yyyy-MM-dd", "1970-1-2", None),
        ("yyyy-M-d", "1970-1-2", DAY_MS),
        ("yyyy-M-d", "1970-01-02", DAY_MS),
        ("yyyyMMdd", "19700102", DAY_MS),
        ("uuuuMMddHH", "1970010201", DAY_MS + 3_600_000),
        ("dd.MM.yy", "01.02.24", 1_706_745_600_000),
        ("yyyy-MM-dd HH:mm:ss.SSS", "1970-01-01 00:00:01.250", 1250),
        ("yyyy-MM-dd'T'HH'h'", "1970-01-01T05h", 5 * 3_600_000),
        ("yyyy''", "1971'", 365 * DAY_MS),
        ("yyyy", "1971", 365 * DAY_MS),
        ("yyyy-MM-dd", "2023-02-29", None),
        ("yyyy-MM-dd", "2024-13-01", None),
        ("yyyy-MM-dd", "0000-01-01", None),
        ("yyyy-MM-dd", " 2024-01-01", None),
        ("yyyy-MM-dd", "２０２４-01-01", None),
        ("yyyy-MM-dd", "__DEFAULT_PARTITION__", None),
        ("yyyy-MM-dd", "", None),
    ],
)
def test_times_are_read(pattern: str, text: str, time_ms: int | None) -> None:
    assert TimestampFormat(pattern).read_ms(text) == time_ms


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("", "Give a pattern such as"),
        ("y" * 201, "at most 200"),
        ("MM-dd", "It has no year"),
        ("yyyy-ww", "'w' is not in this version"),
        ("yyyy-MM-MM", "the month twice"),
        ("yyyy'T", "a quote without its end"),
    ],
)
def test_what_is_no_pattern_is_refused(pattern: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TimestampFormat(pattern)


def test_values_fill_a_pattern() -> None:
    assert find_columns("$day $hour:00") == ["day", "hour"]
    assert fill_in("$day $hour:00", {"day": "2024-05-01", "hour": "7"}) == "2024-05-01 7:00"


def check(options: dict[str, str], partition_by: tuple[str, ...] = ("day", "hour")) -> None:
    validate_table_options(options, columns=COLUMNS, primary_key=(), partition_by=partition_by)


def test_what_fits_is_taken() -> None:
    check({TIME: "30 d"})
    check({TIME: "30 d", "partition.expiration-strategy": "update-time", "partition.expiration-check-interval": "1 s"})
    check(
        {
            TIME: "1 h",
            "partition.timestamp-pattern": "$day $hour:00:00",
            "partition.timestamp-formatter": "yyyyMMdd H:m:s",
        }
    )


@pytest.mark.parametrize(
    ("options", "partition_by", "message"),
    [
        ({TIME: "30 d"}, (), r"The table has no partitions\. Leave the option out"),
        ({TIME: "soon"}, ("day",), "Give a duration"),
        ({"partition.timestamp-formatter": "yyyy"}, ("day",), f"It has no effect without '{TIME}'"),
        ({TIME: "1 d", "partition.expiration-check-interval": "10 ms"}, ("day",), "Give at least '1 s'"),
        ({TIME: "1 d", "partition.expiration-strategy": "size"}, ("day",), "Give one of 'values-time', 'update-time'"),
        ({TIME: "1 d", "partition.timestamp-formatter": "ww"}, ("day",), "'w' is not in this version"),
        ({TIME: "1 d", "partition.timestamp-pattern": "$n"}, ("day",), "'n' is no partition column; these are day"),
        ({TIME: "1 d", "partition.timestamp-pattern": "day"}, ("day",), r"names no partition column.*Write '\$day'"),
        (
            {TIME: "1 d", "partition.expiration-strategy": "update-time", "partition.timestamp-pattern": "$day"},
            ("day",),
            "the values of partitions say nothing about their age",
        ),
        ({"partition.mark-done-action": "x"}, ("day",), "partitions are not marked when they are done"),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, str], partition_by: tuple[str, ...], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        check(options, partition_by)
