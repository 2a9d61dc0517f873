"""Text becomes values, a column at a time; what cannot be understood is found without looking at single rows.

Arrow casts a whole column or raises. So texts that cannot be right are set aside by a regular expression first, and
what still raises (a number too large, a day that does not exist) is found by halving the column.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from lakelog.format.types.sql_types import to_sql_type
from lakelog.log.codecs.casts import cast_or_null, cast_where_possible
from lakelog.log.codecs.time_texts import from_iso_texts
from lakelog.records.text_options import EPOCH_FORMATS, TextOptions

Mask = npt.NDArray[np.bool_]

_WHOLE: Final = r"^[+-]?[0-9]+$"
_NUMBER: Final = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?$"
_HEXADECIMAL: Final = r"^0[xX][0-9a-fA-F]+$"
_NO_NUMBER: Final = r"(?i)^[+-]?(nan|inf(inity)?)$"
_ZONE: Final = r"\s*(Z|[+-][0-9]{2}:?[0-9]{2})$"
_COMPOSED: Final = {"%F": "%Y-%m-%d", "%D": "%m/%d/%y", "%T": "%H:%M:%S", "%R": "%H:%M", "%e": "%d"}
_DIGITS: Final = {"Y": "[0-9]{1,4}", "j": "[0-9]{1,3}", "d": r"\s*(?P<day>[0-9]{1,2})"}
_INSTANT: Final = pa.timestamp("us", "UTC")
_LOCAL: Final = pa.timestamp("us")


@dataclass(frozen=True)
class Parsed:
    """Values of a column.

    Args:
        values: NULL where the text was NULL or could not be understood.
        bad: Which texts could not be understood.
        wanted: What they should have been, for messages.
    """

    values: pa.Array
    bad: Mask
    wanted: str


def parse_text(texts: pa.Array, type_: pa.DataType, options: TextOptions, formats: Sequence[str] = ()) -> Parsed:
    """Returns texts as values of a type. Pure; linear, without a loop over rows that can be understood.

    Blanks around a value count for strings only, where an empty text is a value; for all other types it is NULL.

    Args:
        texts: Strings.
        type_: A canonical single-valued type other than binary.
        options: How text is to be understood.
        formats: Of this column's dates and timestamps; empty: those of `options`.
    """
    if pt.is_string(type_):
        return Parsed(texts, np.zeros(len(texts), bool), "text")
    formats = formats or (options.date_formats if pt.is_date(type_) else options.timestamp_formats)
    if pt.is_temporal(type_) and not formats:
        # The quick way, without a look at blanks.
        values, wrong = from_iso_texts(texts, type_, needs_zone=True)
        if not wrong.any():
            return Parsed(values, wrong, "")
    texts = pc.utf8_trim_whitespace(texts)
    texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
    values, wanted = _parse(texts, type_, options, tuple(formats))
    bad = _mask(pc.and_(texts.is_valid(), values.is_null()))
    return Parsed(values, bad, wanted)


def is_parsable(type_: pa.DataType) -> bool:
    """Whether `parse_text` knows a canonical type."""
    return not (pt.is_nested(type_) or pt.is_binary(type_))


def _parse(texts: pa.Array, type_: pa.DataType, options: TextOptions, formats: tuple[str, ...]) -> tuple[pa.Array, str]:
    if pt.is_integer(type_):
        numbers = _without_plus(_only(texts, f"{_WHOLE}|{_HEXADECIMAL}" if options.hexadecimal else _WHOLE))
        return cast_or_null(numbers, lambda part: part.cast(type_), type_), f"a whole number ({to_sql_type(type_)})"
    if pt.is_floating(type_):
        return _parse_floats(texts, type_), f"a number ({to_sql_type(type_)})"
    if pt.is_decimal(type_):
        numbers = _without_plus(_only(texts, _NUMBER))
        return cast_where_possible(numbers, type_)[0], f"a number that fits {to_sql_type(type_)}"
    if pt.is_boolean(type_):
        return _parse_booleans(texts, options)
    if pt.is_date(type_):
        if not formats:
            return from_iso_texts(texts, type_)[0], "a date as 2013-01-31 (DATE)"
        parsed = [_parse_time(texts, format_, None).cast(pa.date32(), safe=False) for format_ in formats]
        return pc.coalesce(*parsed), f"a date as {' or '.join(formats)}"
    return _parse_timestamps(texts, type_, options, formats)


def _parse_floats(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    named = pc.match_substring_regex(texts, _NO_NUMBER)
    numbers = _without_plus(pc.if_else(named, texts, _only(texts, _NUMBER)))
    values = cast_or_null(numbers, lambda part: part.cast(type_), type_)
    # A number beyond the type's range becomes infinite, which is not what was written.
    return pc.if_else(pc.and_(pc.is_inf(values), pc.invert(named)), pa.scalar(None, type_), values)


def _parse_booleans(texts: pa.Array, options: TextOptions) -> tuple[pa.Array, str]:
    lower = pc.utf8_lower(texts)
    is_true = pc.is_in(lower, value_set=pa.array(options.true_values, pa.string()))
    is_false = pc.is_in(lower, value_set=pa.array(options.false_values, pa.string()))
    values = pc.if_else(is_true, True, pc.if_else(is_false, False, pa.scalar(None, pa.bool_())))
    return values, f"one of {', '.join((*options.true_values, *options.false_values))}"


def _parse_timestamps(
    texts: pa.Array, type_: pa.DataType, options: TextOptions, formats: tuple[str, ...]
) -> tuple[pa.Array, str]:
    zone = options.timezone if type_ == _INSTANT else None
    if not formats:
        return _parse_iso(texts, type_, options, zone)
    parsed = [_parse_format(texts, format_, type_, zone) for format_ in formats]
    wanted = f"a time as {' or '.join(formats)}"
    if (
        type_ == _INSTANT
        and zone is None
        and not any(_has_zone(format_) or format_ in EPOCH_FORMATS for format_ in formats)
    ):
        wanted += f" with a zone (%z{options.advise('timezone', '; or say in {} which one is meant')})"
    return pc.coalesce(*parsed), wanted


def _parse_iso(texts: pa.Array, type_: pa.DataType, options: TextOptions, zone: str | None) -> tuple[pa.Array, str]:
    if type_ == _LOCAL:
        # "Z" says that it is an instant, which the column does not hold.
        wanted = "a time without zone or offset, as 2013-01-31 23:59:59.123456 (TIMESTAMP_NTZ)"
        return from_iso_texts(texts, type_)[0], wanted
    instants, wrong = from_iso_texts(texts, type_, needs_zone=True)
    if zone is None:
        advice = options.advise("timezone", " (or say {})")
        return instants, f"a time with its offset, as 2013-01-31T23:59:59Z or +02:00 (TIMESTAMP){advice}"
    others = pc.if_else(pa.array(wrong), texts, pa.scalar(None, pa.string()))
    naive = _in_zone(from_iso_texts(others, _LOCAL)[0], zone)
    return pc.coalesce(instants, naive), f"a time as 2013-01-31 23:59:59 that exists in {zone}"


def _parse_format(texts: pa.Array, format_: str, type_: pa.DataType, zone: str | None) -> pa.Array:
    if format_ in EPOCH_FORMATS:
        factor = EPOCH_FORMATS[format_]
        whole = cast_or_null(_only(texts, _WHOLE), lambda part: part.cast(pa.int64()), pa.int64())
        micros = cast_or_null(whole, lambda part: pc.multiply_checked(part, factor), pa.int64())
        return micros.cast(type_)
    if _has_zone(format_):
        return _parse_time(texts, format_, _INSTANT) if type_ == _INSTANT else pa.nulls(len(texts), type_)
    naive = _parse_time(texts, format_, None)
    if type_ == _LOCAL:
        return naive
    return pa.nulls(len(texts), type_) if zone is None else _in_zone(naive, zone)


def _parse_time(texts: pa.Array, format_: str, type_: pa.DataType | None) -> pa.Array:
    """Times by `strptime`, NULL where the text is of another form or names a day that its month does not have."""
    parsed = pc.strptime(texts, format=format_, unit="us", error_is_null=True)
    if type_ is not None:
        parsed = parsed.cast(type_)
    local, local_texts, local_format = parsed, texts, format_
    if _has_zone(format_):
        local_format = format_.replace("%z", "").rstrip()
        local_texts = pc.replace_substring_regex(texts, _ZONE, "")
        local = pc.strptime(local_texts, format=local_format, unit="us", error_is_null=True)
    pattern = _day_pattern(local_format)
    if pattern is None:
        return parsed
    # SUBTLE: strptime takes 31 February and makes 3 March of it, so the day is compared with the written one.
    days = pc.struct_field(pc.extract_regex(local_texts, pattern=pattern), "day")
    same = pc.equal(days.cast(pa.int64()), pc.day(local))
    return pc.if_else(pc.fill_null(same, False), parsed, pa.scalar(None, parsed.type))


def _day_pattern(format_: str) -> str | None:
    for short, long in _COMPOSED.items():
        format_ = format_.replace(short, long)
    if format_.count("%d") != 1:
        return None
    pieces = re.split(r"%(.)", format_)
    pattern = ""
    for place, piece in enumerate(pieces):
        if place % 2 == 0:
            pattern += re.sub(r"(\\ |\s)+", r"\\s*", re.escape(piece))
        else:
            pattern += _DIGITS.get(piece, r"\s*[0-9]{1,2}" if piece in "mHMSyIk" else ".*")
    return f"^{pattern}"


def _in_zone(naive: pa.Array, zone: str) -> pa.Array:
    """Instants; NULL for times that a change of the clocks leaves out or has twice."""
    return cast_or_null(naive, lambda part: pc.assume_timezone(part, timezone=zone).cast(_INSTANT), _INSTANT)


def _has_zone(format_: str) -> bool:
    return "%z" in format_


def _only(texts: pa.Array, pattern: str) -> pa.Array:
    return pc.if_else(pc.match_substring_regex(texts, pattern), texts, pa.scalar(None, pa.string()))


def _without_plus(texts: pa.Array) -> pa.Array:
    return pc.if_else(pc.starts_with(texts, "+"), pc.utf8_slice_codeunits(texts, 1), texts)


def _mask(values: pa.Array) -> Mask:
    return np.asarray(values.to_numpy(zero_copy_only=False), bool)
