"""Which Arrow types a table may have, and the one canonical form of each.

What belongs here: the types that Parquet, Arrow and Spark share without loss. `canonical_type` maps every variant with
exactly the same values (large strings, dictionaries, coarser timestamps ...) to its canonical type and refuses the rest
with the type to use instead. `sql_types.py` has the SQL form of types, and `cast.py` casts values to a table's types.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Final

import pyarrow as pa
from pyarrow import types as pt

from lakelog.errors import InvalidArgument

MAX_FIELDS: Final = 10_000
"""Fields of a schema, nested ones counted; planning and Spark's own analysis are linear or worse in it."""

MAX_TYPE_DEPTH: Final = 32
"""Levels of nesting; Parquet readers recurse over them, so a hostile type could exhaust a thread's stack."""

MAX_NAME_LENGTH: Final = 255
"""Characters of the name of a column or nested field; longer ones are mistakes, and fit into no list or message."""

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")

INSTANT: Final[pa.DataType] = pa.timestamp("us", tz="UTC")
"""An instant: Spark's and SQL's TIMESTAMP."""

LOCAL_TIMESTAMP: Final[pa.DataType] = pa.timestamp("us")
"""A wall-clock time without zone: TIMESTAMP_NTZ."""

_CANONICAL_PRIMITIVES: Final[frozenset[pa.DataType]] = frozenset(
    {
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
        INSTANT,
        LOCAL_TIMESTAMP,
    }
)

HARMLESS_EXTENSIONS: Final = frozenset({"arrow.json", "arrow.uuid"})
"""Extension types whose storage has the same meaning without the name; all others would silently change it."""

_REFUSED: Final[tuple[tuple[Callable[[pa.DataType], bool], str], ...]] = (
    (lambda t: t == pa.uint8(), "cast it to int16"),
    (lambda t: t == pa.uint16(), "cast it to int32"),
    (lambda t: t == pa.uint32(), "cast it to int64"),
    (lambda t: t == pa.uint64(), "cast it to decimal128(20, 0), or to int64 if the values fit"),
    (pt.is_float16, "cast it to float32"),
    (pt.is_date64, "cast it to date32"),
    (pt.is_time, "store int64 microseconds since midnight, or a string"),
    (pt.is_duration, "store int64 microseconds, the unit in the column's name"),
    (pt.is_interval, "store int32 months and int64 microseconds in two columns"),
    (pt.is_null, "give the column the type its values shall have; a column of NULLs fits any type"),
    (pt.is_union, "use a struct with one nullable field for each alternative"),
    (pt.is_run_end_encoded, "decode it with pyarrow.compute.run_end_decode"),
)


def canonical_type(data_type: pa.DataType, path: str) -> pa.DataType:
    """Returns the canonical table type with exactly the values of `data_type`. Pure.

    Args:
        data_type: Any Arrow type, nested ones included.
        path: Name of the column, for messages; nested fields are added as `column.field`, `column[]`, `column{key}`.

    Returns:
        One of bool, int8/16/32/64, float32/64, decimal128(1 <= p <= 38, 0 <= s <= p), string, binary, date32,
        timestamp[us], timestamp[us, UTC], or list (child `element`), struct, map of such. The nullability of nested
        fields is kept, their metadata is dropped.

    Raises:
        InvalidArgument: The type has no canonical form; names the path, the type and what to use instead.
    """
    return _canonical(data_type, path, 1)


def canonical_schema(schema: pa.Schema) -> pa.Schema:
    """Returns `schema` with every column's canonical type; names, order, nullability and schema metadata are kept.

    Raises:
        InvalidArgument: Lists every column that is refused, not only the first; also for no columns, names that are
            empty, doubled, too long or hold control characters, and more than `MAX_FIELDS` fields.
    """
    if len(schema) == 0:
        raise InvalidArgument("The schema has no columns; a table needs at least one.")
    problems = _name_problems(list(schema), "column")
    fields: list[pa.Field] = []
    for field in schema:
        try:
            fields.append(pa.field(field.name, canonical_type(field.type, field.name), field.nullable))
        except InvalidArgument as error:
            problems.append(error.message)
    if problems:
        raise InvalidArgument("\n".join(problems))
    total = sum(count_fields(field.type) for field in fields)
    if total > MAX_FIELDS:
        raise InvalidArgument(
            f"The schema has {total} fields, nested ones counted; at most {MAX_FIELDS} are possible. "
            "Split the table, or put rarely used fields into a map."
        )
    return pa.schema(fields, schema.metadata)


def count_fields(data_type: pa.DataType) -> int:
    """Returns the number of fields of a column of this type: 1 for itself plus all nested ones.

    The depth must be bounded, like that of a canonical type.
    """
    return 1 + sum(count_fields(data_type.field(i).type) for i in range(data_type.num_fields))


def is_primitive(data_type: pa.DataType) -> bool:
    """Whether a canonical type holds single values: everything except list, struct and map."""
    return not pt.is_nested(data_type)


def check_key_type(data_type: pa.DataType, path: str) -> None:
    """Checks that a canonical type may be part of a primary key, bucket key or partition (semantics 1.5).

    Raises:
        InvalidArgument: Floats, because NaN and -0.0 make equality a matter of opinion, and nested types.
    """
    if pt.is_floating(data_type):
        raise InvalidArgument(
            f"Key column '{path}' has type {data_type}: floating-point numbers cannot be keys, since equal-looking "
            "values differ. Use a decimal, an integer or a string."
        )
    if pt.is_nested(data_type):
        raise InvalidArgument(
            f"Key column '{path}' has type {data_type}: nested types cannot be keys. Use one of the fields inside, "
            "as a column of its own."
        )


def _canonical(data_type: pa.DataType, path: str, depth: int) -> pa.DataType:
    if depth > MAX_TYPE_DEPTH:
        raise InvalidArgument(
            f"The type of column '{path[:200]}' is nested deeper than {MAX_TYPE_DEPTH} levels. Flatten it, or store "
            "the inner levels as a JSON string."
        )
    if data_type in _CANONICAL_PRIMITIVES:
        return data_type
    if isinstance(data_type, pa.BaseExtensionType):
        return _from_extension(data_type, path, depth)
    if pt.is_dictionary(data_type):
        return _canonical(data_type.value_type, path, depth + 1)
    if pt.is_nested(data_type) and not pt.is_union(data_type):
        return _canonical_nested(data_type, path, depth)
    if pt.is_decimal(data_type):
        return _canonical_decimal(data_type, path)
    if pt.is_timestamp(data_type):
        return _canonical_timestamp(data_type, path)
    if pt.is_large_string(data_type) or pt.is_string_view(data_type):
        return pa.string()
    if pt.is_large_binary(data_type) or pt.is_binary_view(data_type) or pt.is_fixed_size_binary(data_type):
        return pa.binary()
    for is_refused, remedy in _REFUSED:
        if is_refused(data_type):
            raise _refusal(data_type, path, remedy)
    raise _refusal(data_type, path, "cast it to one of the types of the documentation's type table")


def _canonical_nested(data_type: pa.DataType, path: str, depth: int) -> pa.DataType:
    if pt.is_map(data_type):
        key = _canonical(data_type.key_type, path + "{key}", depth + 1)
        value = _canonical(data_type.item_type, path + "{value}", depth + 1)
        return pa.map_(pa.field("key", key, nullable=False), pa.field("value", value, data_type.item_field.nullable))
    if pt.is_struct(data_type):
        fields = [data_type.field(i) for i in range(data_type.num_fields)]
        if not fields:
            raise _refusal(data_type, path, "Parquet cannot store a struct without fields; add one")
        problems = _name_problems(fields, f"field of struct '{path}'")
        if problems:
            raise InvalidArgument(" ".join(problems))
        return pa.struct(
            [pa.field(f.name, _canonical(f.type, f"{path}.{f.name}", depth + 1), f.nullable) for f in fields]
        )
    if pt.is_run_end_encoded(data_type):
        raise _refusal(data_type, path, "decode it with pyarrow.compute.run_end_decode")
    element = data_type.value_field
    return pa.list_(pa.field("element", _canonical(element.type, path + "[]", depth + 1), element.nullable))


def _canonical_decimal(data_type: pa.DataType, path: str) -> pa.DataType:
    precision, scale = data_type.precision, data_type.scale
    if precision > 38:
        raise _refusal(data_type, path, "at most 38 digits are possible; cast it to decimal128(38, s), or to a string")
    if not 0 <= scale <= precision:
        raise _refusal(data_type, path, "the scale must lie between 0 and the precision; cast it to such a decimal128")
    return pa.decimal128(precision, scale)


def _canonical_timestamp(data_type: pa.DataType, path: str) -> pa.DataType:
    if data_type.unit == "ns":
        raise _refusal(
            data_type, path, "timestamps have microseconds; cast it to unit 'us', or store int64 nanoseconds"
        )
    return LOCAL_TIMESTAMP if data_type.tz is None else INSTANT


def _from_extension(data_type: pa.BaseExtensionType, path: str, depth: int) -> pa.DataType:
    if data_type.extension_name not in HARMLESS_EXTENSIONS:
        raise _refusal(data_type, path, f"cast it to its storage type {data_type.storage_type} if that says it all")
    return _canonical(data_type.storage_type, path, depth + 1)


def _name_problems(fields: list[pa.Field], what: str) -> list[str]:
    names = Counter(field.name for field in fields)
    doubled = sorted(name for name, count in names.items() if count > 1)
    problems = [f"The name of a {what} appears more than once: '{name}'. Rename one of them." for name in doubled]
    if "" in names:
        problems.append(f"The name of a {what} is empty. Give it a name.")
    for name in names:
        if len(name) > MAX_NAME_LENGTH:
            problems.append(
                f"The name of a {what} has {len(name)} characters: '{name[:40]}...'. Give it one of at most "
                f"{MAX_NAME_LENGTH}."
            )
        control = _CONTROL.search(name)
        if control is not None:
            problems.append(
                f"The name of a {what} holds the control character U+{ord(control[0]):04X}: {name[:80]!r}. Leave it "
                "out."
            )
    return problems


def _refusal(data_type: pa.DataType, path: str, remedy: str) -> InvalidArgument:
    return InvalidArgument(
        f"Column '{path}' has type {data_type}, which a table cannot have: {remedy}.",
        metadata={"column": path, "type": str(data_type)[:200]},
    )
