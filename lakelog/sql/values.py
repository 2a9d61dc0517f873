"""The rows of VALUES, with the types of the columns they are written to.

A constant is accepted if it keeps its value: a whole number in any column of numbers that can hold it, a decimal in a
DOUBLE as the nearest one (0.1 has no exact one), a text in a date column if it is a date. Otherwise nothing is rounded
or cut.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

import pyarrow as pa
from pyarrow import types as pt

from lakelog.errors import InvalidArgument
from lakelog.format.filter.binding import bind_constant
from lakelog.format.filter.literals import to_float32
from lakelog.format.filter.syntax import Syntax
from lakelog.format.filter.tokens import Source
from lakelog.format.filter.tree import Constant
from lakelog.format.filter.types import cast_constant, family, type_name
from lakelog.format.types.defaults import write_default
from lakelog.sql.statements import Values
from lakelog.time_parsing import DAY_US, parse_date, parse_timestamp

_NESTED: Final = {"array": "an array", "map": "a map", **dict.fromkeys(("struct", "row", "named_struct"), "a struct")}


def to_rows(values: Values, fields: Sequence[pa.Field]) -> pa.Table:
    """Gives the rows of VALUES the types of the columns. Pure.

    Args:
        values: The rows as they were written.
        fields: The columns, in the order of the values.

    Raises:
        InvalidArgument: A row has another number of values, or one that does not fit; shows the place, the column and
            its type.
    """
    columns: list[list[Any]] = [[] for _ in fields]
    for number, row in enumerate(values.rows, 1):
        if len(row) != len(fields):
            names = ", ".join(field.name for field in fields)
            given = "1 value" if len(row) == 1 else f"{len(row)} values"
            wanted = "1 column" if len(fields) == 1 else f"{len(fields)} columns"
            values.source.fail(
                row[0].start,
                f"Row {number} has {given} for {wanted} ({names}). Give one value for each column, or name the columns "
                "after the table.",
            )
        for column, field, syntax in zip(columns, fields, row, strict=True):
            column.append(to_value(values.source, syntax, field))
    schema = pa.schema([field.remove_metadata() for field in fields])
    return pa.Table.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, fields, strict=True)], schema=schema
    )


def to_value(source: Source, syntax: Syntax, field: pa.Field) -> Any:
    """A constant as a Python value that pyarrow accepts for the field's type. Pure.

    Raises:
        InvalidArgument: It does not fit; shows the place.
    """
    if syntax.kind == "default":
        default = write_default(field)
        if default is None and not field.nullable:
            _fail(source, syntax, field, "It has no default, and the column is NOT NULL. Give a value")
        return None if default is None else default.as_py()
    if pt.is_nested(field.type):
        return _nested_value(source, syntax, field)
    if syntax.kind == "call" and syntax.value.lower() in _NESTED:
        kind = _NESTED[syntax.value.lower()]
        _fail(source, syntax, field, f"It is {kind}, and the column holds single values. Give one")
    constant = bind_constant(source, syntax)
    if constant.value is None:
        if not field.nullable:
            _fail(source, syntax, field, "It is NULL, and the column is NOT NULL. Give a value")
        return None
    try:
        return _coerce(constant, field.type)
    except ValueError as error:
        _fail(source, syntax, field, str(error))


def _nested_value(source: Source, syntax: Syntax, field: pa.Field) -> Any:
    if syntax.kind == "null":
        return to_value(source, syntax, pa.field(field.name, pa.null(), field.nullable))
    function = syntax.value.lower() if syntax.kind == "call" else ""
    parts = syntax.children
    if pt.is_map(field.type):
        if function != "map" or len(parts) % 2:
            _fail(source, syntax, field, "Write map(key, value, ...)")
        keys = pa.field(field.name, field.type.key_type, nullable=False)
        items = pa.field(field.name, field.type.item_type, field.type.item_field.nullable)
        pairs = zip(parts[::2], parts[1::2], strict=True)
        return [(to_value(source, key, keys), to_value(source, value, items)) for key, value in pairs]
    if pt.is_struct(field.type):
        children = [field.type.field(i) for i in range(field.type.num_fields)]
        if function == "named_struct" and len(parts) == 2 * len(children):
            parts = _named_parts(source, syntax, field, [child.name for child in children])
        elif function not in ("struct", "row") or len(parts) != len(children):
            _fail(source, syntax, field, f"Write struct(...) with {len(children)} values, or named_struct('name', ...)")
        return {
            child.name: to_value(source, part, child.with_name(f"{field.name}.{child.name}"))
            for child, part in zip(children, parts, strict=True)
        }
    if function != "array":
        _fail(source, syntax, field, "Write array(...)")
    element = field.type.value_field.with_name(field.name)
    return [to_value(source, part, element) for part in parts]


def _named_parts(source: Source, syntax: Syntax, field: pa.Field, names: list[str]) -> tuple[Syntax, ...]:
    by_name = {
        part.value.casefold(): value for part, value in zip(syntax.children[::2], syntax.children[1::2], strict=True)
    }
    missing = [name for name in names if name.casefold() not in by_name]
    if missing:
        _fail(source, syntax, field, f"There is no field '{missing[0]}'. Its fields are {', '.join(names)}")
    return tuple(by_name[name.casefold()] for name in names)


def _coerce(constant: Constant, data_type: pa.DataType) -> Any:
    value, wanted = constant.value, family(data_type)
    given = family(constant.type)
    if wanted == "number" and given == "number":
        assert isinstance(value, int | float | Decimal)
        return _coerce_number(value, data_type)
    if wanted == "time" and given == "text":
        return _coerce_text(str(value), data_type)
    if wanted == "time" and given == "time":
        assert isinstance(value, int)
        if pt.is_date(data_type) and not pt.is_date(constant.type) and value % DAY_US:
            raise ValueError("It has a time of day, which a DATE cannot hold")
        return cast_constant(constant, data_type).value
    if wanted != given:
        remedies = {("text", "number"): "Write it in single quotes", ("number", "text"): "Write it without quotes"}
        remedy = remedies.get((wanted, given), f"Write a constant of type {type_name(data_type)}")
        raise ValueError(f"It has type {type_name(constant.type)}. {remedy}")
    return value


def _coerce_number(value: int | float | Decimal, data_type: pa.DataType) -> int | float | Decimal:
    if pt.is_floating(data_type):
        number = float(value)
        nearest = to_float32(number) if pt.is_float32(data_type) else number
        if math.isinf(nearest) and not (isinstance(value, float) and math.isinf(value)):
            raise ValueError(f"It is beyond the numbers of {type_name(data_type)}")
        if isinstance(value, int) and int(nearest) != value:
            raise ValueError(f"A {type_name(data_type)} cannot hold all of its digits")
        return nearest
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{type_name(data_type)} has no such value")
    exact = Fraction(value)
    try:
        fitted = cast_constant(Constant(value, pa.float64()), data_type).value
    except ValueError:
        raise ValueError(f"It is beyond the numbers of {type_name(data_type)}") from None
    assert isinstance(fitted, int | Decimal)
    if Fraction(fitted) != exact:
        raise ValueError(f"{type_name(data_type)} cannot hold all of its digits. Round it yourself")
    return fitted


def _coerce_text(text: str, data_type: pa.DataType) -> int:
    if not pt.is_date(data_type):
        return parse_timestamp(text)
    days = parse_date(text)
    if parse_timestamp(text) != days * DAY_US:
        raise ValueError("It has a time of day, which a DATE cannot hold")
    return days


def _fail(source: Source, syntax: Syntax, field: pa.Field, explanation: str) -> Any:
    shown = "NULL" if pt.is_null(field.type) else type_name(field.type)
    try:
        source.fail(syntax.start, f"It is no value for column '{field.name}' of type {shown}. {explanation}.")
    except InvalidArgument as error:
        raise InvalidArgument(
            error.message, reason="VALUE_MISMATCH", metadata={**error.metadata, "column": field.name}
        ) from None
