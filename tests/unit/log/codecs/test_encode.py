"""What records look like (semantics 4.4), by hand and against Python's own JSON."""

from __future__ import annotations

import json
import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakelog.errors import InvalidArgument
from lakelog.format.types.schema import TableSchema
from lakelog.log.codecs import codec as codec_module
from lakelog.log.codecs.codec import EncodedChunk
from lakelog.log.codecs.json.text import to_json_texts, to_object_texts
from lakelog.log.codecs.row_sizes import find_largest_size, find_row_sizes
from tests.unit.log.codecs.any_rows import make_codec, tables, to_json_value
from tests.unit.log.codecs.order_records import DAY, ORDERS, TIMES, encode

SOURCE = '"source":{"db":"shop","table":"orders","snapshot":7,"bucket":2}'


def test_debezium_messages_in_the_mode_all() -> None:
    codec = make_codec(ORDERS)
    rows = [(DAY, 1, "a"), (DAY, 1, "a"), (DAY, 1, "b"), (DAY, 2, None), (DAY, 3, "c"), (DAY, 4, "d")]
    records = encode(codec, rows, [0, 1, 2, 3, 1, 2], 10).records
    assert [value.decode() for value in records.values.to_pylist()] == [
        f'{{"before":{before},"after":{after},{SOURCE},"op":"{op}","ts_ms":1700000000123}}'
        for before, after, op in (
            ("null", '{"dt":"2026-01-31","id":1,"v":"a"}', "c"),
            ('{"dt":"2026-01-31","id":1,"v":"a"}', '{"dt":"2026-01-31","id":1,"v":"b"}', "u"),
            ('{"dt":"2026-01-31","id":2,"v":null}', "null", "d"),
            ('{"dt":"2026-01-31","id":3,"v":"c"}', "null", "d"),
            ("null", '{"dt":"2026-01-31","id":4,"v":"d"}', "u"),
        )
    ]
    assert records.keys is not None
    assert records.keys[0].as_py() == b'{"id":1,"dt":"2026-01-31"}'
    assert records.indexes.tolist() == [10, 12, 13, 14, 15]
    assert records.kinds.tolist() == [0, 2, 3, 1, 2]
    assert (records.partition, records.sequences, len(records)) == (2, None, 5)


@pytest.mark.parametrize("value_format", ["debezium-json", "json"])
def test_tombstones_in_the_mode_upsert(value_format: str) -> None:
    codec = make_codec(ORDERS, value_format, is_upsert=True, sequence_fields=("v",))
    rows = [(DAY, 1, "a"), (DAY, 1, "b"), (DAY, 2, "x"), (DAY, 3, None)]
    records = encode(codec, rows, [1, 2, 3, 1]).records
    assert [value.is_valid for value in records.values] == [True, False, False]
    assert records.kinds.tolist() == [2, 3, 1]
    assert records.sequences is not None
    assert records.sequences.to_pylist() == [b'"b"', b'"x"', b"null"]


@pytest.mark.parametrize(
    ("descends", "values", "tombstones"),
    [
        (False, ("b", "a"), [True, False]),
        (False, ("b", None), [True, False]),
        (False, ("a", "a"), [False]),
        (False, (None, "a"), [False]),
        (True, ("b", "a"), [False]),
        (True, ("a", "b"), [True, False]),
        (True, ("a", None), [True, False]),
    ],
)
@pytest.mark.parametrize("value_format", ["debezium-json", "json"])
def test_an_old_row_that_beats_the_new_one_is_sent(
    value_format: str, descends: bool, values: tuple[str | None, str | None], tombstones: list[bool]
) -> None:
    codec = make_codec(ORDERS, value_format, is_upsert=True, sequence_fields=("v",), sequence_descends=descends)
    assert not codec.needs_followed
    records = encode(codec, [(DAY, 1, value) for value in values], [1, 2]).records
    assert [not value.is_valid for value in records.values] == tombstones


def test_append_tables_have_no_key_and_no_bucket() -> None:
    codec = make_codec(TableSchema(0, ORDERS.arrow))
    records = encode(codec, [(DAY, 1, "a")], [0], bucket=None).records
    assert records.keys is None
    assert json.loads(records.values[0].as_py())["source"]["bucket"] is None


def test_several_sequence_fields_are_an_array() -> None:
    codec = make_codec(ORDERS, sequence_fields=("v", "id"))
    sequences = encode(codec, [(DAY, 1, None)], [0]).records.sequences
    assert sequences is not None
    assert sequences.to_pylist() == [b"[null,1]"]


def test_values_of_each_type() -> None:
    for value, data_type, text in (
        (Decimal("0E-8"), pa.decimal128(38, 8), '"0.00000000"'),
        (Decimal("-1.5"), pa.decimal128(3, 1), '"-1.5"'),
        (float("nan"), pa.float32(), '"NaN"'),
        (float("-inf"), pa.float64(), '"-Infinity"'),
        (0.1, pa.float32(), "0.1"),
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), pa.timestamp("us", "UTC"), '"2026-01-02T03:04:05.000000Z"'),
        (1767323045000006, pa.timestamp("us"), '"2026-01-02T03:04:05.000006"'),
        (253402300800000000, pa.timestamp("us"), '"+10000-01-01T00:00:00.000000"'),
        (b"\x00\xff", pa.binary(), '"AP8="'),
        ('"\\\x00\x1f\n\x7f\u2028\U0001f600', pa.string(), '"\\"\\\\\\u0000\\u001f\\n\x7f\u2028\U0001f600"'),
        ([(True, None)], pa.map_(pa.bool_(), pa.int8()), '{"true":null}'),
        ([(-0.0, 1), (0.1, 2), (float("nan"), 3)], pa.map_(pa.float32(), pa.int8()), '{"-0.0":1,"0.1":2,"NaN":3}'),
        ([([1], "x")], pa.map_(pa.list_(pa.int8()), pa.string()), '[{"key":[1],"value":"x"}]'),
        ([], pa.list_(pa.int8()), "[]"),
    ):
        assert to_json_texts(pa.array([None, value], data_type)).to_pylist() == ["null", text]


def _is_in_python(column: pa.Array) -> bool:
    try:
        column.to_pylist()
    except (ValueError, OverflowError):
        return False
    return True


@settings(max_examples=50)
@given(tables(), st.integers(0, 3))
def test_rows_are_read_by_any_reader_of_json(made: tuple[TableSchema, pa.Table], skipped: int) -> None:
    schema, rows = made
    rows = rows.slice(skipped)
    names = [name for name in rows.column_names if _is_in_python(rows[name])]
    rows = rows.select(names)
    texts = to_object_texts(names, [rows[name].combine_chunks() for name in names]).to_pylist() if names else []
    assert (find_row_sizes(rows).tolist() if names else []) >= [0] * len(texts)
    largest = find_largest_size(rows)
    assert largest is None or all(largest >= bound for bound in find_row_sizes(rows).tolist())
    assert (largest is None) == any(map(pa.types.is_nested, rows.schema.types))
    for text, row, bound in zip(texts, rows.to_pylist(), find_row_sizes(rows), strict=False):
        expected = {name: to_json_value(row[name], schema.arrow.field(name).type) for name in names}
        assert same_json(json.loads(text), expected)
        assert len(text.encode()) <= bound


def same_json(found: Any, expected: Any) -> bool:
    """Equality to the bit of numbers; those of 32 bits have fewer digits."""
    if isinstance(expected, float) and isinstance(found, int | float):
        return struct.pack("d", found) == struct.pack("d", expected) or (
            struct.pack("f", found) == struct.pack("f", expected)
        )
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(same_json(found[name], expected[name]) for name in expected)
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(same_json, found, expected))
    return type(found) is type(expected) and bool(found == expected)


@pytest.mark.parametrize("limit", [1 << 30, 3000], ids=["as handed in", "cut to size"])
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=30),
    st.lists(st.integers(1, 5), min_size=1),
    st.booleans(),
    st.sampled_from(["debezium-json", "json"]),
)
def test_pieces_make_no_difference(
    limit: int, rows: list[tuple[int, int]], sizes: list[int], is_upsert: bool, value_format: str
) -> None:
    """Rows handed in piece by piece, perhaps too many at once, become the records of all of them."""
    rows = sorted(rows, key=lambda row: row[0])
    codec = make_codec(ORDERS, value_format, is_upsert=is_upsert)
    values = [(DAY, key, str(place)) for place, (key, _) in enumerate(rows)]
    kinds = [kind for _, kind in rows]
    whole = to_messages(encode(codec, values, kinds)) if rows else []
    found: list[Any] = []
    start, end, turn = 0, 0, 0
    while start < len(rows):
        end = min(len(rows), max(end, start) + sizes[turn % len(sizes)])
        turn += 1
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(codec_module, "_MAX_CHUNK_BYTES", limit)
            chunk = encode(codec, values[start:end], kinds[start:end], start, is_last=end == len(rows))
        found += to_messages(chunk)
        start += chunk.consumed
    assert found == whole


def to_messages(chunk: EncodedChunk) -> list[Any]:
    records = chunk.records
    assert records.keys is not None
    return list(
        zip(
            records.indexes.tolist(),
            records.kinds.tolist(),
            records.keys.to_pylist(),
            records.values.to_pylist(),
            strict=True,
        )
    )


def test_what_follows_in_other_files_is_found() -> None:
    codec = make_codec(ORDERS, is_upsert=True)
    keys = pa.table({"id": [1, 2, 3, 1, 3, 1], "dt": pa.array([DAY, DAY, DAY, DAY, date(2026, 2, 1), DAY])})
    assert codec.find_followed(keys).tolist() == [True, False, False, True, False, False]
    assert codec.find_followed(keys.slice(0, 0)).tolist() == []


def test_a_row_that_the_topic_does_not_take_is_refused() -> None:
    codec = make_codec(ORDERS)
    rows = pa.table({"dt": [DAY] * 3, "id": [1, 2, 3], "v": ["x", "y" * 500_000, "z" * 600_000]})
    codec.check_row_sizes(rows.slice(0, 2), 1 << 20)
    with pytest.raises(InvalidArgument) as caught:
        codec.check_row_sizes(rows, 1 << 20)
    assert caught.value.reason == "RECORD_TOO_LARGE"
    assert "Row 2 for table shop.orders" in caught.value.message
    assert "log.max-record-size" in caught.value.message
    # Without old rows a record holds one.
    make_codec(ORDERS, "json").check_row_sizes(rows, 1 << 20)


@settings(max_examples=50)
@given(tables())
def test_no_record_is_larger_than_the_check_says(made: tuple[TableSchema, pa.Table]) -> None:
    schema, rows = made
    codec = make_codec(schema, sequence_fields=schema.primary_key)
    kinds = np.tile(np.array([1, 2], dtype=np.int8), len(rows))
    twice = pa.concat_tables([rows.slice(i // 2, 1) for i in range(2 * len(rows))])
    records = codec.encode(twice, kinds, 0, partition=0, **TIMES).records
    assert records.keys is not None
    assert records.sequences is not None
    assert len(records) == len(rows)
    for place in range(len(records)):
        size = sum(len(part[place].as_py()) for part in (records.keys, records.values, records.sequences))
        with pytest.raises(InvalidArgument):
            codec.check_row_sizes(rows.slice(place, 1), size)
