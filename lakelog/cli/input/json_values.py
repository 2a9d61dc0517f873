"""Values of JSON as those of a table's types: the way back of `lakelog.cli.output.json_rows`. Pure."""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from lakelog.format.types.sql_types import to_sql_type

_FLOAT_NAMES: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_DATE: Final = r"([+-]?[0-9]{4,6}-[0-9]{2}-[0-9]{2})"
_DAY: Final = re.compile(_DATE)
_MOMENT: Final = re.compile(
    _DATE + r"[T ]([0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?)(Z|[+-][0-9]{2}:?[0-9]{2})?"
)
_COUNTED: Final = re.compile(r"(-?[0-9]{1,19}) (days|µs) since 1970-01-01")
"""How `lakelog.format.types.time_text` writes what lies beyond its calendar."""
_MAX_YEAR: Final = 290_000
"""About as far as 64 bits of microseconds reach; beyond it numpy would count wrongly and say nothing."""

_LONGEST_SHOWN: Final = 100


class Unfitting(ValueError):
    """A value that is none of its column's type; the text says what the column needs."""


def parse_object(text: str | bytes) -> dict[str, Any]:
    """Reads a JSON object; numbers become `Decimal`, so that nothing of them is lost, not even the sign of zero.

    Raises:
        ValueError: It is none; the text says why.
    """
    try:
        value = json.loads(
            text, parse_int=Decimal, parse_float=Decimal, parse_constant=_refuse_constant, object_pairs_hook=_unique
        )
    except UnicodeDecodeError as error:
        raise ValueError("it is no text in UTF-8") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"it is no JSON object in one line: {error.msg} at character {error.pos + 1}") from error
    except RecursionError as error:
        raise ValueError("its values are nested too deeply") from error
    if not isinstance(value, dict):
        raise ValueError('it is no JSON object; a line is to be one, such as {"id": 1}')
    return value


def from_json_value(value: Any, data_type: pa.DataType) -> Any:
    """A value that `parse_object` gave, as Arrow makes a canonical type of it; times are counts since the epoch.

    Raises:
        Unfitting: It is none of that type, or would not stay the same.
    """
    if value is None:
        return None
    if pt.is_nested(data_type):
        return _nested(value, data_type)
    fitted = _plain(value, data_type)
    if fitted is None:
        raise Unfitting(_needed(data_type))
    return fitted


def show_json(value: Any) -> str:
    """A value that `parse_object` gave, for messages; cut where it is long."""
    text = json.dumps(value, ensure_ascii=False, default=str) if not isinstance(value, Decimal) else str(value)
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"


def parse_day(text: str) -> int | None:
    """Days since the epoch of an ISO date, also of years beyond 9999; None: it is no such day."""
    return _count(text, "D") if _DAY.fullmatch(text) else _counted(text, "days", 32)


def parse_moment(text: str, *, has_zone: bool) -> int | None:
    """Microseconds since the epoch of an ISO time; None: it is none, or has a zone where there must be none.

    Args:
        text: A date and a time of day, with `Z` or an offset if and only if `has_zone`.
        has_zone: Whether an instant is wanted rather than what a clock on the wall shows.
    """
    match = _MOMENT.fullmatch(text)
    if match is None:
        return _counted(text, "µs", 64)
    if (match[3] is not None) is not has_zone:
        return None
    local_us = _count(f"{match[1]}T{match[2]}", "us")
    if local_us is None or not has_zone or match[3] == "Z":
        return local_us
    digits = match[3][1:].replace(":", "")
    hours, minutes = int(digits[:2]), int(digits[2:])
    if hours > 18 or minutes > 59:
        return None
    return local_us - (-1 if match[3][0] == "-" else 1) * (hours * 60 + minutes) * 60_000_000


def _counted(text: str, unit: str, bits: int) -> int | None:
    match = _COUNTED.fullmatch(text)
    if match is None or match[2] != unit:
        return None
    number, bound = int(match[1]), 1 << (bits - 1)
    return number if -bound <= number < bound else None


def _count(text: str, unit: str) -> int | None:
    year = text[: text.index("-", 1)]
    if abs(int(year)) > _MAX_YEAR:
        return None
    try:
        return int(np.array(text, f"datetime64[{unit}]").astype(np.int64))
    except ValueError:
        return None


def _plain(value: Any, data_type: pa.DataType) -> Any:
    """The value, or None where it does not fit."""
    if pt.is_boolean(data_type):
        return value if isinstance(value, bool) else None
    if isinstance(value, Decimal):
        return _number(value, data_type)
    if not isinstance(value, str):
        return None
    if pt.is_string(data_type):
        return value if _is_unicode(value) else None
    if pt.is_binary(data_type):
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            return None
    if pt.is_date(data_type):
        return parse_day(value)
    if pt.is_timestamp(data_type):
        return parse_moment(value, has_zone=data_type.tz is not None)
    if pt.is_floating(data_type):
        return _FLOAT_NAMES.get(value)
    if pt.is_decimal(data_type) and re.fullmatch(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?", value):
        return _number(Decimal(value), data_type)
    return None


def _number(value: Decimal, data_type: pa.DataType) -> Any:
    if pt.is_floating(data_type):
        number = float(value)
        return number if math.isfinite(_narrowed(number, data_type)) else None
    if pt.is_decimal(data_type):
        try:
            pa.scalar(value, data_type)
        except (pa.ArrowException, ValueError):
            return None
        return value
    # The size first: an exponent of a few characters could stand for gigabytes of digits.
    if pt.is_integer(data_type) and value.adjusted() < 20 and value == value.to_integral_value():
        bound = 1 << (data_type.bit_width - 1)
        return int(value) if -bound <= value < bound else None
    return None


def _narrowed(number: float, data_type: pa.DataType) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(number)) if pt.is_float32(data_type) else number


def _nested(value: Any, data_type: pa.DataType) -> Any:
    if pt.is_struct(data_type):
        if not isinstance(value, dict):
            raise Unfitting(_needed(data_type))
        unknown = next((name for name in value if data_type.get_field_index(name) < 0), None)
        if unknown is not None:
            raise Unfitting(f"{_needed(data_type)} without a field '{unknown[:_LONGEST_SHOWN]}'")
        fields = (data_type.field(i) for i in range(data_type.num_fields))
        return {field.name: from_json_value(value.get(field.name), field.type) for field in fields}
    if pt.is_map(data_type):
        return [
            (from_json_value(key, data_type.key_type), from_json_value(item, data_type.item_type))
            for key, item in _pairs(value, data_type)
        ]
    if not isinstance(value, list):
        raise Unfitting(_needed(data_type))
    return [from_json_value(item, data_type.value_type) for item in value]


def _pairs(value: Any, data_type: pa.DataType) -> list[Any]:
    if isinstance(value, Mapping) and pt.is_string(data_type.key_type):
        return list(value.items())
    if isinstance(value, list) and all(
        isinstance(pair, list) and len(pair) == 2 and pair[0] is not None for pair in value
    ):
        return value
    raise Unfitting(_needed(data_type))


def _needed(data_type: pa.DataType) -> str:
    name = to_sql_type(data_type)
    name = name if len(name) <= _LONGEST_SHOWN else name[:_LONGEST_SHOWN] + "…"
    if pt.is_boolean(data_type):
        return f"true or false ({name})"
    if pt.is_integer(data_type):
        return f"a whole number ({name})"
    if pt.is_floating(data_type):
        return f'a number, or "NaN", "Infinity" or "-Infinity" ({name})'
    if pt.is_decimal(data_type):
        return f'a number that fits {name}, as "1.25" or 1.25'
    if pt.is_string(data_type):
        return f"a text of valid Unicode ({name})"
    if pt.is_binary(data_type):
        return f"bytes in base64 ({name})"
    if pt.is_date(data_type):
        return f'a date as "2013-01-31" ({name})'
    if pt.is_timestamp(data_type):
        return f'a time as "2013-01-31T23:59:59.123456{"Z" if data_type.tz else ""}" ({name})'
    if pt.is_map(data_type):
        wanted = "an object" if pt.is_string(data_type.key_type) else "a list of [key, value]"
        return f"{wanted} ({name})"
    return f"{'an object' if pt.is_struct(data_type) else 'a list'} ({name})"


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        doubled = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key '{doubled[:_LONGEST_SHOWN]}' stands in it twice")
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f'{name} is no JSON; write it as "{name}"')
