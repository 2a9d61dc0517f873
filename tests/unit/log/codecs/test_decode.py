"""Records become rows again, and what is damaged is found and named."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakelog.errors import DataCorrupted
from lakelog.format.types.schema import TableSchema
from lakelog.log.codecs import changes
from lakelog.log.codecs.changes import read_json_rows
from lakelog.log.codecs.json.blocks import read_objects
from lakelog.log.codecs.json.scan import scan_json
from lakelog.log.codecs.json.strings import unescape_texts
from lakelog.log.codecs.json.values import Values
from tests.support.log.fetched import make_fetched, to_fetched
from tests.unit.log.codecs.any_rows import make_codec, tables
from tests.unit.log.codecs.order_records import DAY, ORDERS, TIMES, encode, same_rows


@contextlib.contextmanager
def reading(way: str) -> Iterator[None]:
    """What Arrow's reader takes must not depend on it."""
    with pytest.MonkeyPatch.context() as patch:
        if way == "the slow way":
            patch.setattr(changes, "read_objects", lambda texts, schema: None)
        yield


WAYS = pytest.mark.parametrize("way", ["either way", "the slow way"])


@WAYS
@settings(max_examples=50)
@given(tables(), st.sampled_from(["debezium-json", "json", "avro"]))
def test_rows_of_all_types_come_back_as_they_were(
    way: str, made: tuple[TableSchema, pa.Table], value_format: str
) -> None:
    schema, rows = made
    codec = make_codec(schema, value_format)
    kinds = np.zeros(len(rows), dtype=np.int8)
    records = codec.encode(rows, kinds, 0, partition=3, **TIMES).records
    with reading(way):
        found = codec.decode(to_fetched(records), topic="t")
    assert found.rows.column_names == rows.column_names
    assert same_rows(found.rows, rows)
    assert found.kinds.tolist() == kinds.tolist()
    assert found.before is None
    assert not (found.is_tombstone | found.has_before).any()


@WAYS
@settings(max_examples=50)
@given(tables(), st.data())
@pytest.mark.parametrize("is_upsert", [False, True])
def test_changes_come_back(is_upsert: bool, way: str, made: tuple[TableSchema, pa.Table], data: st.DataObject) -> None:
    schema, rows = made
    sequences = tuple(field.name for field in rows.schema if not pa.types.is_nested(field.type))[1:2]
    codec = make_codec(schema, is_upsert=is_upsert, sequence_fields=sequences)
    twice = pa.concat_tables([rows.slice(i // 2, 1) for i in range(2 * len(rows))])
    pairs = data.draw(st.lists(st.sampled_from([(1, 2), (3, 0), (1, 3)]), min_size=len(rows), max_size=len(rows)))
    kinds = np.array(pairs, dtype=np.int8).reshape(-1)
    records = codec.encode(twice, kinds, 0, partition=3, **TIMES).records
    with reading(way):
        found = codec.decode(to_fetched(records), topic="t")
    assert found.kinds.tolist() == records.kinds.tolist()
    expected = twice.take(pa.array(records.indexes))
    assert found.is_tombstone.tolist() == [is_upsert and kind in (1, 3) for kind in records.kinds.tolist()]
    reported = list(dict.fromkeys([*schema.primary_key, *codec.form.sequence_fields]))
    assert same_rows(found.rows.select(reported), expected.select(reported))
    rest = pa.array(~found.is_tombstone)
    assert same_rows(found.rows.filter(rest), expected.filter(rest))
    assert found.has_before.tolist() == [kind == 2 for kind in records.kinds.tolist()]
    if found.before is not None:
        there = pa.array(found.has_before)
        assert same_rows(found.before.filter(there), expected.filter(there))


def test_columns_that_are_not_asked_for_are_not_read() -> None:
    codec = make_codec(ORDERS)
    found = codec.decode(to_fetched(encode(codec, [(DAY, 1, "a")], [0]).records), topic="t", columns=["v", "id"])
    assert found.rows.to_pylist() == [{"v": "a", "id": 1}]


GOOD = b'{"dt":"2026-01-31","id":1,"v":"a"}'


@pytest.mark.parametrize(
    "damaged",
    [
        b"", b"null", b"7", b"[]", b'"x"', b"{", GOOD[:-1], GOOD + b"}", GOOD + GOOD, b"{" + GOOD + b"}",
        GOOD.replace(b'"v"', b'v"'), GOOD.replace(b":1", b":"), GOOD.replace(b":1", b":1.0"),
        GOOD.replace(b":1", b':"1"'),
        GOOD.replace(b":1", b":9223372036854775808"), GOOD.replace(b":1", b":01x"), GOOD.replace(b'"a"', b"1"),
        GOOD.replace(b'"a"', b'"\\x"'), GOOD.replace(b'"a"', b'"\\ud800"'), GOOD.replace(b'"a"', b'"\xc3"'),
        GOOD.replace(b'"a"', b'"\xff"'), GOOD.replace(b"01-31", b"02-30"), GOOD.replace(b'"a"', b"[1}"),
        GOOD.replace(b'"a"', b"nul"), GOOD.replace(b",", b",,"), GOOD.replace(b'"a"', b'"a",'),
        b"[" * 3000 + b"]" * 3000,
        GOOD.replace(b'"a"', b'"a'), b'"a",' + GOOD, b'"a","b":"c"',
        GOOD[:-1] + b',"x":{}]', GOOD + b',"b":"c"',
    ],
)  # fmt: skip
def test_a_damaged_record_is_named_and_harms_no_other(damaged: bytes) -> None:
    codec = make_codec(ORDERS, "json")
    assert read_objects(pa.array([GOOD, GOOD], pa.binary()), ORDERS.arrow) is not None
    assert read_objects(pa.array([GOOD, damaged, GOOD], pa.binary()), ORDERS.arrow) is None
    with pytest.raises(DataCorrupted) as caught:
        codec.decode(make_fetched([GOOD, damaged, GOOD]), topic="shop_orders")
    assert caught.value.metadata == {"topic": "shop_orders", "partition": "3", "offset": "101"}
    assert "(1 such records" in caught.value.message


def test_a_tombstone_without_a_readable_key_is_damaged() -> None:
    codec = make_codec(ORDERS, is_upsert=True)
    for key in (None, b"7", b'{"id":1}', b'{"id":"x","dt":"2026-01-31"}'):
        with pytest.raises(DataCorrupted, match="key"):
            codec.decode(make_fetched([None], [key]), topic="t")
    # What cannot be read is no delete, though its key can be.
    with pytest.raises(DataCorrupted, match="The value"):
        codec.decode(make_fetched([b"7"], [b'{"id":1,"dt":"2026-01-31"}']), topic="t")
    with pytest.raises(DataCorrupted, match="kind"):
        codec.decode(make_fetched([None], [b'{"id":1,"dt":"2026-01-31"}'], [b"+X"]), topic="t")


@settings(max_examples=50)
@given(tables(), st.data())
def test_damage_is_never_more_than_an_error(made: tuple[TableSchema, pa.Table], data: st.DataObject) -> None:
    schema, rows = made
    codec = make_codec(schema, "json")
    text = codec.encode(rows, np.zeros(len(rows), np.int8), 0, partition=0, **TIMES).records.values[0].as_py()
    place = data.draw(st.integers(0, len(text) - 1))
    damage = data.draw(st.binary(max_size=3) | st.text('{}[]:,"\\x1', max_size=3).map(str.encode))
    damaged = text[:place] + damage + text[place + data.draw(st.integers(0, 3)) :]
    found = read_json_rows(pa.array([damaged, text], pa.binary()), schema.arrow)
    assert not found.wrong[1]
    for column in found.rows.columns:
        column.validate(full=True)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=8,
)
LAYOUTS = st.sampled_from([{}, {"indent": 3}, {"separators": (",", ":")}, {"ensure_ascii": False}])


@given(st.lists(st.tuples(JSON_VALUES, LAYOUTS), max_size=6))
def test_whatever_is_json_is_taken_for_it(values: list[tuple[Any, dict[str, Any]]]) -> None:
    texts = [json.dumps(value, **layout) for value, layout in values]
    assert not scan_json(pa.array(texts, pa.string())).damaged.any()


@given(st.lists(st.text('{}[]:,"\\ n1atrue', max_size=8) | st.text('[]{},:"1', max_size=9), max_size=6))
def test_whatever_is_no_json_is_found_to_be_none(texts: list[str]) -> None:
    """Words are looked at when they are read, so all count as numbers here."""

    def for_programs(text: str) -> bool:
        try:
            json.loads(text)
        except ValueError:
            return False
        return True

    damaged = scan_json(pa.array(texts, pa.string())).damaged
    assert not [text for text, wrong in zip(texts, damaged, strict=True) if wrong and for_programs(text)]
    plain = [t for t, wrong in zip(texts, damaged, strict=True) if not wrong and not set(t) & set('\\natrue1" ')]
    assert all(map(for_programs, plain))


@given(st.lists(st.text(), max_size=5))
def test_escapes_of_any_text_are_resolved(texts: list[str]) -> None:
    texts = [text.encode("utf-8", "replace").decode() for text in texts]
    escaped = [json.dumps(text)[1:-1].encode() for text in texts]
    found, wrong = unescape_texts(pa.array(escaped, pa.binary()))
    assert found.to_pylist() == texts
    assert not wrong.any()


def test_of_a_name_that_comes_twice_the_last_counts() -> None:
    values = Values.of_roots(scan_json(pa.array(['{"a":1,"a":2,"\\u0061":3}', "{}"])))
    assert values.find_members(["a"])[0].read_words().to_pylist() == ["3", None]
