import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.errors import InvalidArgument
from lakelog.format.types.sql_types import from_sql_type, to_sql_type
from lakelog.format.types.types import canonical_type

PRIMITIVES = st.sampled_from(
    [
        pa.bool_(),
        pa.int8(),
        pa.int16(),
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.string(),
        pa.binary(),
        pa.date32(),
        pa.timestamp("us"),
        pa.timestamp("us", "UTC"),
        pa.decimal128(38, 38),
        pa.decimal128(1, 0),
    ]
)
NAMES = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=6)


def nested(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    element = st.builds(lambda t, n: pa.field("element", t, n), inner, st.booleans())
    struct = st.lists(st.tuples(NAMES, inner, st.booleans()), min_size=1, max_size=3, unique_by=lambda f: f[0])
    return st.one_of(
        element.map(pa.list_),
        st.builds(lambda k, v: pa.map_(k, v.with_name("value")), inner, element),
        struct.map(lambda fields: pa.struct([pa.field(*f) for f in fields])),
    )


@given(st.recursive(PRIMITIVES, nested, max_leaves=6))
def test_round_trip(data_type: pa.DataType) -> None:
    canonical = canonical_type(data_type, "c")
    assert from_sql_type(to_sql_type(canonical)) == canonical


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("int", pa.int32()),
        (" Integer ", pa.int32()),
        ("LONG", pa.int64()),
        ("short", pa.int16()),
        ("BYTE", pa.int8()),
        ("REAL", pa.float32()),
        ("DOUBLE PRECISION", pa.float64()),
        ("VARCHAR(20)", pa.string()),
        ("CHARACTER VARYING(20)", pa.string()),
        ("TEXT", pa.string()),
        ("BYTES", pa.binary()),
        ("VARBINARY(10)", pa.binary()),
        ("BINARY", pa.binary()),
        ("DECIMAL", pa.decimal128(10, 0)),
        ("NUMERIC(5)", pa.decimal128(5, 0)),
        ("dec( 38 , 18 )", pa.decimal128(38, 18)),
        ("TIMESTAMP", pa.timestamp("us", "UTC")),
        ("TIMESTAMP(3)", pa.timestamp("us", "UTC")),
        ("TIMESTAMP_LTZ", pa.timestamp("us", "UTC")),
        ("TIMESTAMP WITH LOCAL TIME ZONE", pa.timestamp("us", "UTC")),
        ("TIMESTAMP WITH TIME ZONE", pa.timestamp("us", "UTC")),
        ("TIMESTAMP(6) WITHOUT TIME ZONE", pa.timestamp("us")),
        ("TIMESTAMP_NTZ", pa.timestamp("us")),
        (
            "STRUCT<a: INT, `b c`: STRING, `x``y` DATE>",
            pa.struct({"a": pa.int32(), "b c": pa.string(), "x`y": pa.date32()}),
        ),
        ("ROW<a INT NOT NULL>", pa.struct([pa.field("a", pa.int32(), nullable=False)])),
        ("MAP<STRING, ARRAY<INT>>", pa.map_(pa.string(), pa.list_(pa.int32()))),
    ],
)
def test_names_and_synonyms(text: str, expected: pa.DataType) -> None:
    assert from_sql_type(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "character 1 stands the end"),
        ("FOO", "character 1 stands 'FOO', expected a type such as BOOLEAN"),
        ("INT8", "expected a type such as"),
        ("INT INT", "character 5 stands 'INT', expected the end"),
        ("ARRAY<INT", "expected '>'"),
        ("ARRAY<INT>>", "expected the end"),
        ("MAP<STRING>", "expected ','"),
        ("STRUCT<>", "name of a field"),
        ("STRUCT<a: INT, a: INT>", "another name than 'a', which is taken"),
        ("STRUCT<a: INT NOT>", "NULL after NOT"),
        ("DECIMAL(39, 0)", "precision is 1 to 38"),
        ("DECIMAL(5, 6)", "the scale 0 to that"),
        ("DECIMAL(0)", "precision is 1 to 38"),
        ("DECIMAL(5, 2, 1)", "expected )"),
        ("DECIMAL(x)", "a whole number"),
        ("DECIMAL(99999999999999999999)", "a whole number"),
        ("TIMESTAMP(9)", "at most TIMESTAMP(6)"),
        ("TIMESTAMP WITH ZONE", "expected TIME"),
        ("INT; DROP", "character 4 stands '; DROP'"),
        ("`INT`", "expected a type"),
        ("ARRAY<" * 33 + "INT" + ">" * 33, "at most 32 levels"),
        ("STRUCT<" + ",".join(f"c{i} INT" for i in range(10_001)) + ">", "at most 10000 fields"),
        ("x" * 1_000_001, "longer than"),
    ],
    ids=lambda value: value[:30],
)
def test_errors_say_where_and_what(text: str, message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        from_sql_type(text)
    assert message in str(caught.value)


def test_types_without_sql_name_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="uint8 has no SQL name"):
        to_sql_type(pa.uint8())
