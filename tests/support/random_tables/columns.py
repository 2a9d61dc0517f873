"""Column types with values that are easily confused, and how each is written in SQL."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Any, Final

import pyarrow as pa

_DAY: Final = dt.date(1970, 1, 1)
_EPOCH: Final = dt.datetime.fromisoformat("1970-01-01")
_EDGES: Final = tuple(
    dt.datetime.fromisoformat(text) for text in ("0001-01-02", "9999-12-30 23:59:59.999999", "1900-01-01")
)
_TEXTS: Final = (
    *(
        "",
        " ",
        "a",
        "A",
        "ab",
        "b",
        "NULL",
        "null",
        "ż",
        "zażółć",
        "𝄞",
        "\U0010ffff",
        "\ud7ff",
        "\ue000",
        "a\x00",
        "a\x00b",
    ),
    *(
        "a=b/c%2F",
        "..",
        "/",
        "__HIVE_DEFAULT_PARTITION__",
        "it's",
        '"',
        "\\",
        "a_b%",
        "\n",
        "x" * 70,
        "x" * 69 + "y",
        "x" * 300,
    ),
)


@dataclass(frozen=True)
class ColumnType:
    """A type of a table's columns.

    Args:
        data_type: Its canonical Arrow type.
        draw: Makes a value that is not NULL.
        literal: The value as an SQL constant; None: there are none.
        also: Other Arrow types that hold any of its values, as input may have.
        is_key: Whether keys and partitions may have it.
        is_ordered: Whether it compares.
    """

    data_type: pa.DataType
    draw: Callable[[Random], Any]
    literal: Callable[[Any], str] | None = None
    also: tuple[pa.DataType, ...] = ()
    is_key: bool = False
    is_ordered: bool = True


def _pool(*values: Any) -> Callable[[Random], Any]:
    return lambda random: random.choice(values)


def _integers(bits: int) -> Callable[[Random], int]:
    limit = 1 << (bits - 1)

    def draw(random: Random) -> int:
        if random.random() < 0.2:
            return random.choice((-limit, limit - 1, limit - 2, 1 - limit))
        return random.randrange(-4, 12) if random.random() < 0.7 else random.randrange(-limit, limit)

    return draw


def _decimals(precision: int, scale: int) -> Callable[[Random], Decimal]:
    def draw(random: Random) -> Decimal:
        most = 10**precision - 1
        small = random.random() < 0.6
        digits = random.randrange(-9, 20) if small else random.choice((most, -most, random.randrange(-most, most + 1)))
        digits = max(-most, min(most, digits))
        return Decimal((int(digits < 0), tuple(int(digit) for digit in str(abs(digits))), -scale))

    return draw


def _text(random: Random) -> str:
    return (
        random.choice(_TEXTS).encode("utf-8", "replace").decode()
        if random.random() < 0.6
        else f"k{random.randrange(30)}"
    )


def _bytes(random: Random) -> bytes:
    return random.choice(
        (b"", b"\x00", b"\x00\x00", b"\xff", b"\xff\x00", b"a", b"ab", b"a\x00", bytes(80), b"\xfe" * 66)
    )


def _date(random: Random) -> dt.date:
    if random.random() < 0.2:
        return random.choice((dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1582, 10, 10), dt.date(1969, 12, 31)))
    return _DAY + dt.timedelta(random.randrange(-5, 20))


def _moment(random: Random) -> dt.datetime:
    if random.random() < 0.2:
        return random.choice(_EDGES)
    return _EPOCH + dt.timedelta(
        microseconds=random.choice((0, 1, -1, 999_999, 1_000_000, 86_400_000_000)) * random.randrange(4)
    )


def _instant(random: Random) -> dt.datetime:
    return _moment(random).replace(tzinfo=dt.UTC)


_FLOATS: Final = (0.0, -0.0, 1.0, -1.5, 0.5, math.nan, math.inf, -math.inf, 2.0**24, 1e-30)


def _float_literal(value: float) -> str:
    if math.isnan(value) or math.isinf(value):
        return f"CAST('{'NaN' if math.isnan(value) else 'Infinity' if value > 0 else '-Infinity'}' AS DOUBLE)"
    return f"{value!r}D"


def text_literal(value: str) -> str:
    """A text as Spark and lakelog read it."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _nested(random: Random) -> dict[str, Any]:
    return {
        "a": None if random.random() < 0.3 else random.randrange(3),
        "b": None if random.random() < 0.3 else _text(random),
    }


def _full_pair(random: Random) -> dict[str, Any]:
    return {"a": random.randrange(3), "b": _text(random)}


def _list_of(draw: Callable[[Random], Any]) -> Callable[[Random], list[Any]]:
    return lambda random: [None if random.random() < 0.2 else draw(random) for _ in range(random.randrange(4))]


def _map_of(key: Callable[[Random], Any], value: Callable[[Random], Any]) -> Callable[[Random], list[tuple[Any, Any]]]:
    def draw(random: Random) -> list[tuple[Any, Any]]:
        keys = list(dict.fromkeys(key(random) for _ in range(random.randrange(4))))
        return [(each, None if random.random() < 0.2 else value(random)) for each in keys]

    return draw


_FULL_PAIR: Final = pa.struct([pa.field("a", pa.int32(), nullable=False), pa.field("b", pa.string(), nullable=False)])
_PAIR: Final = pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.string())])

KEY_TYPES: Final = (
    ColumnType(pa.bool_(), _pool(True, False), lambda v: str(v).upper(), is_key=True),
    ColumnType(pa.int8(), _integers(8), str, (pa.int64(), pa.int16(), pa.decimal128(10, 2)), is_key=True),
    ColumnType(pa.int16(), _integers(16), str, (pa.int32(), pa.int64()), is_key=True),
    ColumnType(
        pa.int32(), _integers(32), str, (pa.int64(), pa.float64(), pa.dictionary(pa.int8(), pa.int32())), is_key=True
    ),
    ColumnType(pa.int64(), _integers(64), str, (pa.decimal128(20, 0),), is_key=True),
    ColumnType(pa.decimal128(1, 0), _decimals(1, 0), str, (pa.int64(),), is_key=True),
    ColumnType(pa.decimal128(18, 3), _decimals(18, 3), str, (pa.decimal256(40, 5),), is_key=True),
    ColumnType(pa.decimal128(19, 0), _decimals(19, 0), str, (pa.decimal128(38, 0),), is_key=True),
    ColumnType(pa.decimal128(38, 38), _decimals(38, 38), None, (pa.decimal256(60, 38),), is_key=True),
    ColumnType(pa.decimal128(38, 10), _decimals(38, 10), "{:f}".format, (pa.decimal256(60, 20),), is_key=True),
    ColumnType(
        pa.string(),
        _text,
        text_literal,
        (pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())),
        is_key=True,
    ),
    ColumnType(pa.binary(), _bytes, lambda v: f"X'{v.hex()}'", (pa.large_binary(), pa.binary_view()), is_key=True),
    ColumnType(pa.date32(), _date, lambda v: f"DATE '{v.isoformat()}'", (), is_key=True),
    ColumnType(
        pa.timestamp("us", "UTC"),
        _instant,
        lambda v: f"TIMESTAMP '{v.replace(tzinfo=None).isoformat(' ')}Z'",
        (pa.timestamp("us", "Europe/Warsaw"),),
        is_key=True,
    ),
    ColumnType(pa.timestamp("us"), _moment, lambda v: f"TIMESTAMP_NTZ '{v.isoformat(' ')}'", (), is_key=True),
)
FLOAT_TYPES: Final = (
    ColumnType(pa.float32(), lambda r: r.choice(_FLOATS[:-1]), _float_literal, (pa.float64(),)),
    ColumnType(pa.float64(), lambda r: r.choice((*_FLOATS, 0.1, 1e300)), _float_literal, ()),
)
NESTED_TYPES: Final = tuple(
    ColumnType(data_type, draw, None, also, is_ordered=False)
    for data_type, draw, also in (
        (pa.list_(pa.field("element", pa.int64())), _list_of(_integers(64)), (pa.large_list(pa.int64()),)),
        (pa.list_(pa.field("element", pa.string())), _list_of(_text), (pa.large_list(pa.large_string()),)),
        (_PAIR, _nested, (pa.struct([pa.field("b", pa.large_string()), pa.field("a", pa.int64())]),)),
        (pa.list_(pa.field("element", _PAIR)), _list_of(_nested), ()),
        (_FULL_PAIR, _full_pair, (_PAIR,)),
        (
            pa.list_(pa.field("element", _FULL_PAIR)),
            _list_of(_full_pair),
            (pa.list_(pa.field("element", _PAIR)),),
        ),
        (
            pa.struct([pa.field("s", _FULL_PAIR), pa.field("n", pa.int8(), nullable=False)]),
            lambda r: {"s": None if r.random() < 0.3 else _full_pair(r), "n": r.randrange(5)},
            (),
        ),
        (
            pa.map_(
                pa.string(),
                pa.field("value", pa.list_(pa.field("element", pa.int32(), nullable=False)), nullable=False),
            ),
            lambda r: [(key, [1] * r.randrange(3)) for key in dict.fromkeys(_text(r) for _ in range(r.randrange(3)))],
            (),
        ),
        (pa.map_(pa.string(), pa.int32()), _map_of(_text, _integers(32)), (pa.map_(pa.string(), pa.int64()),)),
        (
            pa.map_(pa.int64(), pa.list_(pa.field("element", pa.float64()))),
            _map_of(_integers(64), _list_of(lambda r: r.choice(_FLOATS))),
            (),
        ),
        (
            pa.struct([pa.field("s", _PAIR), pa.field("l", pa.list_(pa.field("element", pa.decimal128(38, 10))))]),
            lambda r: {"s": None if r.random() < 0.3 else _nested(r), "l": _list_of(_decimals(38, 10))(r)},
            (),
        ),
    )
)
ALL_TYPES: Final = (*KEY_TYPES, *FLOAT_TYPES, *NESTED_TYPES)


@dataclass(frozen=True)
class TableColumn:
    """A column of a random table."""

    name: str
    type: ColumnType
    nullable: bool

    @property
    def field(self) -> pa.Field:
        return pa.field(self.name, self.type.data_type, self.nullable)

    def draw(self, random: Random, null_rate: float) -> Any:
        return None if self.nullable and random.random() < null_rate else self.type.draw(random)


def to_arrow(columns: Sequence[TableColumn], rows: Sequence[dict[str, Any]]) -> pa.Table:
    """The rows with the columns' canonical types; all nullable: what is wrong with NULLs is the product's to say."""
    return pa.table(
        [pa.array([row.get(column.name) for row in rows], column.type.data_type) for column in columns],
        schema=pa.schema([column.field.with_nullable(True) for column in columns]),
    )


def order(value: Any) -> Any:
    """Sorts the values of one type as semantics 1.5 has it: NaN above all numbers, the zeros equal, texts by bytes."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value.encode() if isinstance(value, str) else value


def convert(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    """The column in another type, where that is possible; else as it is."""
    if pa.types.is_struct(wanted):
        return pa.chunked_array([pa.array(column.to_pylist(), wanted)])
    if pa.types.is_dictionary(wanted):
        try:
            return pa.chunked_array([pa.array(column.to_pylist(), wanted)])
        except pa.ArrowException:
            return column
    try:
        return column.cast(wanted)
    except pa.ArrowException:
        return column
