import pyarrow as pa
import pytest

from lakelog.errors import InvalidArgument
from lakelog.format.types.types import (
    MAX_FIELDS,
    MAX_TYPE_DEPTH,
    canonical_schema,
    canonical_type,
    check_key_type,
    count_fields,
)

INSTANT = pa.timestamp("us", "UTC")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (pa.bool_(), pa.bool_()),
        (pa.int8(), pa.int8()),
        (pa.float64(), pa.float64()),
        (pa.large_string(), pa.string()),
        (pa.string_view(), pa.string()),
        (pa.large_binary(), pa.binary()),
        (pa.binary_view(), pa.binary()),
        (pa.binary(7), pa.binary()),
        (pa.dictionary(pa.int8(), pa.large_string()), pa.string()),
        (pa.timestamp("s"), pa.timestamp("us")),
        (pa.timestamp("ms"), pa.timestamp("us")),
        (pa.timestamp("us", "Europe/Warsaw"), INSTANT),
        (pa.timestamp("s", "+02:00"), INSTANT),
        (pa.decimal32(5, 2), pa.decimal128(5, 2)),
        (pa.decimal64(15, 0), pa.decimal128(15, 0)),
        (pa.decimal128(38, 38), pa.decimal128(38, 38)),
        (pa.decimal256(38, 3), pa.decimal128(38, 3)),
        (pa.uuid(), pa.binary()),
        (pa.json_(), pa.string()),
        (pa.large_list(pa.large_string()), pa.list_(pa.string())),
        (pa.list_view(pa.int32()), pa.list_(pa.int32())),
        (pa.list_(pa.float32(), 3), pa.list_(pa.float32())),
        (pa.map_(pa.large_string(), pa.binary(2)), pa.map_(pa.string(), pa.binary())),
        (
            pa.struct([pa.field("a", pa.string_view(), nullable=False), pa.field("b", pa.timestamp("ms"))]),
            pa.struct([pa.field("a", pa.string(), nullable=False), pa.field("b", pa.timestamp("us"))]),
        ),
    ],
    ids=str,
)
def test_variants_become_the_canonical_type(given: pa.DataType, expected: pa.DataType) -> None:
    canonical = canonical_type(given, "c")
    assert canonical == expected
    assert canonical_type(canonical, "c") == canonical


def test_nullability_of_nested_fields_is_kept() -> None:
    strict = pa.list_(pa.field("item", pa.int32(), nullable=False))
    assert canonical_type(strict, "c").value_field == pa.field("element", pa.int32(), nullable=False)
    strict_map = pa.map_(pa.string(), pa.field("v", pa.int32(), nullable=False))
    assert canonical_type(strict_map, "c").item_field.nullable is False


@pytest.mark.parametrize(
    ("given", "remedy"),
    [
        (pa.uint8(), "int16"),
        (pa.uint16(), "int32"),
        (pa.uint32(), "int64"),
        (pa.uint64(), "decimal128(20, 0)"),
        (pa.float16(), "float32"),
        (pa.date64(), "date32"),
        (pa.time32("s"), "int64 microseconds"),
        (pa.time64("ns"), "int64 microseconds"),
        (pa.duration("us"), "int64"),
        (pa.month_day_nano_interval(), "int32 months"),
        (pa.timestamp("ns"), "'us'"),
        (pa.null(), "type its values shall have"),
        (pa.sparse_union([pa.field("a", pa.int32())]), "struct"),
        (pa.run_end_encoded(pa.int32(), pa.int64()), "run_end_decode"),
        (pa.decimal256(39, 0), "38 digits"),
        (pa.decimal128(5, -2), "scale"),
        (pa.decimal128(5, 7), "scale"),
        (pa.struct([]), "without fields"),
        (pa.bool8(), "storage type int8"),
    ],
    ids=str,
)
def test_refused_types_name_path_type_and_remedy(given: pa.DataType, remedy: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        canonical_type(pa.list_(pa.struct([("x", given)])), "col")
    assert "'col[].x'" in str(caught.value)
    assert str(given)[:20] in str(caught.value)
    assert remedy in str(caught.value)


def test_depth_is_bounded() -> None:
    nested = pa.int32()
    for _ in range(MAX_TYPE_DEPTH - 1):
        nested = pa.list_(nested)
    assert canonical_type(nested, "c") == nested
    with pytest.raises(InvalidArgument, match="deeper than 32 levels"):
        canonical_type(pa.list_(nested), "c")


def test_schema_lists_all_problems_at_once() -> None:
    schema = pa.schema([("a", pa.uint8()), ("b", pa.int32()), ("b", pa.float16()), ("", pa.int8())])
    with pytest.raises(InvalidArgument) as caught:
        canonical_schema(schema)
    for part in ("'a' has type uint8", "more than once: 'b'", "'b' has type halffloat", "is empty"):
        assert part in str(caught.value)


def test_schema_of_many_columns() -> None:
    wide = pa.schema([(f"c{i}", pa.large_string()) for i in range(5000)])
    assert canonical_schema(wide).types == [pa.string()] * 5000
    with pytest.raises(InvalidArgument, match=f"10001 fields.*at most {MAX_FIELDS}"):
        canonical_schema(pa.schema([(f"c{i}", pa.int32()) for i in range(MAX_FIELDS + 1)]))
    with pytest.raises(InvalidArgument, match="no columns"):
        canonical_schema(pa.schema([]))


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(
    ("name", "part"),
    [("x" * 256, "has 256 characters"), ("a\nb", r"control character U+000A: 'a\nb'"), ("a\x9fb", "U+009F")],
)
def test_names_that_cannot_be(name: str, part: str, nested: bool) -> None:
    data_type = pa.struct([(name, pa.int8())]) if nested else pa.int8()
    with pytest.raises(InvalidArgument) as caught:
        canonical_schema(pa.schema([("c" if nested else name, data_type)]))
    assert part in caught.value.message
    assert len(caught.value.message) < 200
    assert canonical_schema(pa.schema([("é" * 255, pa.int8()), ("a b.c`", pa.int8())])).names[1] == "a b.c`"


def test_doubled_struct_fields_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="struct 'c' appears more than once: 'x'"):
        canonical_type(pa.struct([pa.field("x", pa.int8()), pa.field("x", pa.int8())]), "c")


def test_count_fields_counts_nested_ones() -> None:
    assert count_fields(pa.int32()) == 1
    assert count_fields(pa.struct([("a", pa.int32()), ("b", pa.list_(pa.int8()))])) == 4


def test_key_types() -> None:
    for good in (pa.int8(), pa.string(), pa.binary(), pa.date32(), INSTANT, pa.decimal128(38, 2), pa.bool_()):
        check_key_type(good, "k")
    for bad in (pa.float32(), pa.list_(pa.int8()), pa.struct([("a", pa.int8())])):
        with pytest.raises(InvalidArgument, match="'k'"):
            check_key_type(bad, "k")
