import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa

from lakelog.cli.output.json_rows import to_json_lines

LOCAL = datetime(2013, 1, 1, 10, 0, 0, 5, UTC).replace(tzinfo=None)


def rows_of(table: pa.Table) -> list[dict[str, object]]:
    return [json.loads(line) for batch in table.to_batches() for line in to_json_lines(batch).splitlines()]


def test_every_type_has_one_form() -> None:
    table = pa.table(
        {
            "flag": pa.array([True, None]),
            "whole": pa.array([9_007_199_254_740_993, None]),
            "price": pa.array([Decimal("12345678901234567890123456789012345.678"), None], pa.decimal128(38, 3)),
            "day": pa.array([date(2013, 1, 1), None]),
            "instant": pa.array([datetime(2013, 1, 1, 10, tzinfo=UTC), None], pa.timestamp("us", tz="UTC")),
            "local": pa.array([LOCAL, None], pa.timestamp("us")),
            "raw": pa.array([b"\x00\xff", None]),
            "names": pa.array([["a", None], None], pa.list_(pa.string())),
            "counts": pa.array([[("x", 1)], None], pa.map_(pa.string(), pa.int32())),
            "by_number": pa.array([[(1, Decimal("0.5"))], None], pa.map_(pa.int32(), pa.decimal128(3, 1))),
            "point": pa.array(
                [{"x": 1.5, "at": LOCAL}, None], pa.struct({"x": pa.float64(), "at": pa.timestamp("us")})
            ),
        }
    )
    first, second = rows_of(table)
    assert first == {
        "flag": True,
        "whole": 9_007_199_254_740_993,
        "price": "12345678901234567890123456789012345.678",
        "day": "2013-01-01",
        "instant": "2013-01-01T10:00:00.000000Z",
        "local": "2013-01-01T10:00:00.000005",
        "raw": "AP8=",
        "names": ["a", None],
        "counts": {"x": 1},
        "by_number": [[1, "0.5"]],
        "point": {"x": 1.5, "at": "2013-01-01T10:00:00.000005"},
    }
    assert list(second.values()) == [None] * len(first)
    assert list(second) == table.column_names


def test_floats_that_json_lacks_are_strings() -> None:
    table = pa.table({"f": [1.5, float("nan"), float("inf"), float("-inf"), -0.0, 1e300, None]})
    assert [row["f"] for row in rows_of(table)] == [1.5, "NaN", "Infinity", "-Infinity", -0.0, 1e300, None]
    assert '"f": -0' in to_json_lines(table.slice(4, 1).to_batches()[0])


def test_small_decimals_are_written_without_exponent() -> None:
    small = [Decimal("0.0000001"), Decimal("0E-7"), None, Decimal("-12.0000000")]
    table = pa.table({"d": pa.array(small, pa.decimal128(10, 7))})
    assert [row["d"] for row in rows_of(table)] == ["0.0000001", "0.0000000", None, "-12.0000000"]


def test_texts_that_need_escapes_stay_one_line() -> None:
    values = ['say "x"', "back\\slash", "line\nbreak", "tab\t", "\x00\x1b[31m", "żółć", "", None, "\u2028"]
    table = pa.table({'na"me\n': values})
    text = "".join(to_json_lines(batch) for batch in table.to_batches())
    assert [json.loads(line)['na"me\n'] for line in text.rstrip("\n").split("\n")] == values


def test_a_batch_without_rows_or_columns() -> None:
    assert to_json_lines(pa.record_batch({"a": pa.array([], pa.int64())})) == ""


def test_a_negative_zero_keeps_its_sign() -> None:
    for data_type in (pa.float32(), pa.float64()):
        found = rows_of(pa.table({"x": pa.array([-0.0, 0.0, -1.0, None], data_type)}))
        assert [str(row["x"]) for row in found] == ["-0.0", "0", "-1", "None"]
