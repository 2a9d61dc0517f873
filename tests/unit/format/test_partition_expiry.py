"""Which partitions have expired."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from lakelog.format.keys.encoding import encode_partition
from lakelog.format.retention.partition_expiry import PartitionFiles, find_expired, read_time_ms, show_partition
from lakelog.format.types.schema import TableSchema
from lakelog.options.values import TableOptions

DAY_MS = 86_400_000
MAY_MS = 1_714_521_600_000  # 2024-05-01


def make(types: list[pa.DataType], values: list[Any]) -> tuple[bytes, TableSchema]:
    names = [f"p{place}" for place in range(len(types))]
    schema = TableSchema(0, pa.schema([*zip(names, types, strict=True), ("n", pa.int64())]), (), tuple(names))
    scalars = [pa.scalar(value, data_type) for value, data_type in zip(values, types, strict=True)]
    return encode_partition(scalars), schema


@pytest.mark.parametrize(
    ("types", "values", "options", "time_ms"),
    [
        ([pa.string()], ["2024-05-01"], {}, MAY_MS),
        ([pa.string()], ["2024-5-1"], {}, MAY_MS),
        ([pa.string()], ["2024-05-01 06:00:00"], {}, MAY_MS + 6 * 3_600_000),
        ([pa.string()], ["20240501"], {}, None),
        ([pa.string()], ["20240501"], {"partition.timestamp-formatter": "yyyyMMdd"}, MAY_MS),
        ([pa.int32()], [20240501], {"partition.timestamp-formatter": "yyyyMMdd"}, MAY_MS),
        ([pa.string()], [None], {}, None),
        ([pa.string()], ["germany"], {}, None),
        ([pa.date32()], [dt.date(2024, 5, 1)], {}, MAY_MS),
        ([pa.date32()], [None], {}, None),
        ([pa.date32()], [dt.date(1, 1, 1)], {}, -62_135_596_800_000),
        ([pa.timestamp("us")], [dt.datetime(2024, 5, 1, 6)], {}, MAY_MS + 6 * 3_600_000),  # noqa: DTZ001
        ([pa.timestamp("us", "UTC")], [dt.datetime(2024, 5, 1, 6, tzinfo=dt.UTC)], {}, MAY_MS + 6 * 3_600_000),
        ([pa.string(), pa.string()], ["2024-05-01", "germany"], {}, MAY_MS),
        ([pa.string(), pa.string()], ["germany", "2024-05-01"], {"partition.timestamp-pattern": "$p1"}, MAY_MS),
        (
            [pa.int32(), pa.int32(), pa.int32()],
            [2024, 5, 1],
            {"partition.timestamp-pattern": "$p0-$p1-$p2"},
            MAY_MS,
        ),
        (
            [pa.date32(), pa.int32()],
            [dt.date(2024, 5, 1), 6],
            {"partition.timestamp-pattern": "$p0 $p1:00:00"},
            MAY_MS + 6 * 3_600_000,
        ),
        (
            [pa.date32(), pa.int32()],
            [dt.date(2024, 5, 1), None],
            {"partition.timestamp-pattern": "$p0 $p1:00:00"},
            None,
        ),
    ],
)
def test_the_time_of_a_partition(
    types: list[pa.DataType], values: list[Any], options: dict[str, str], time_ms: int | None
) -> None:
    partition, schema = make(types, values)
    assert read_time_ms(partition, schema, TableOptions(options)) == time_ms
    assert list(show_partition(partition, schema).values()) == values


def test_what_is_older_has_expired() -> None:
    days = ["2024-04-29", "2024-04-30", "2024-05-01", "tomorrow", None]
    partitions = [PartitionFiles(make([pa.string()], [day])[0], 1, 10, 100, MAY_MS + place)
                  for place, day in enumerate(days)]  # fmt: skip
    schema = make([pa.string()], [None])[1]
    ages = find_expired(partitions, schema, TableOptions({}), MAY_MS - DAY_MS)
    assert [(each.partition, time_ms) for each, time_ms in ages.expired] == [
        (partitions[0].partition, MAY_MS - 2 * DAY_MS)
    ]
    assert ages.unknown == (partitions[3], partitions[4])
    by_update = TableOptions({"partition.expiration-strategy": "update-time"})
    ages = find_expired(partitions, schema, by_update, MAY_MS + 2)
    assert [each for each, _ in ages.expired] == partitions[:2]
    assert ages.unknown == ()
