"""Dates and timestamps as ISO 8601 with microseconds and back, exact over their whole range."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from lakelog.log.codecs.byte_columns import Mask
from lakelog.log.codecs.casts import cast_or_null, cast_where_possible

_FIRST_DAY: Final = -719_528
"""0000-01-01 as days since 1970-01-01."""
_LAST_DAY: Final = 2_932_896
"""9999-12-31. Years outside these two do not have four digits."""
_DAY_US: Final = 86_400_000_000
_DATE: Final = r"\d{4}-\d\d-\d\d"
_TIME: Final = r"[T ]\d\d(?::\d\d(?::\d\d(?:\.\d{1,6})?)?)?"
_ZONED: Final = r"^(?P<body>.*[T ].*\d)(?:Z|(?P<sign>[+-])(?P<hours>[01]\d|2[0-3])(?::?(?P<minutes>[0-5]\d))?)$"


def to_iso_texts(column: pa.Array) -> pa.Array:
    """Dates like `2013-01-01`, timestamps like `2013-01-01T10:00:00.000000`, with a Z for instants. Pure.

    Years before 0 and beyond 9999 have a sign and as many digits as they need, at least four.
    """
    if pt.is_date(column.type):
        numbers, first, last, plain = column.view(pa.int32()), _FIRST_DAY, _LAST_DAY, column.type
    else:
        # Without its zone a timestamp is written 25 times as fast.
        numbers, first, last, plain = (
            column.view(pa.int64()), _FIRST_DAY * _DAY_US, (_LAST_DAY + 1) * _DAY_US - 1, pa.timestamp("us"),
        )  # fmt: skip
    bounds = pc.min_max(numbers)
    is_far = bounds["min"].is_valid and (bounds["min"].as_py() < first or bounds["max"].as_py() > last)
    if is_far:
        far = pc.or_(pc.less(numbers, first), pc.greater(numbers, last)).fill_null(False)
        texts = _write(pc.if_else(far, pa.scalar(0, numbers.type), numbers).view(plain))
        texts = pc.replace_with_mask(texts, far, _write_far(numbers.filter(far), pt.is_date(column.type)))
    else:
        texts = _write(numbers.view(plain))
    if pt.is_timestamp(column.type) and column.type.tz is not None:
        texts = pc.binary_join_element_wise(texts, "Z", "")
    return texts


def _write(plain: pa.Array) -> pa.Array:
    texts = plain.cast(pa.string())
    return texts if pt.is_date(plain.type) else pc.replace_substring(texts, " ", "T", max_replacements=1)


def _write_far(numbers: pa.Array, is_date: bool) -> pa.Array:
    texts = np.datetime_as_string(numbers.to_numpy().astype("datetime64[D]" if is_date else "datetime64[us]"))
    # numpy counts the sign of a year before 0 among its four places.
    found = pc.replace_substring_regex(pa.array(texts.astype(object), pa.string()), r"^-(\d\d\d)-", r"-0\1-")
    return pc.if_else(pc.starts_with(found, "-"), found, pc.binary_join_element_wise("+", found, ""))


def from_iso_texts(texts: pa.Array, target: pa.DataType, *, needs_zone: bool = False) -> tuple[pa.Array, Mask]:
    """Times from their text, as `target`, and which texts are no such time (they are then NULL). Pure.

    It is the one reader of ISO times in columns: of logs, of files and of topics. It takes what `to_iso_texts` and
    `to_time_texts` write, and what others do: a space for the T, a time of day without seconds or minutes or none at
    all, fewer digits of a second, an offset like `+02:00` for an instant.

    Args:
        texts: Strings; NULL stays NULL.
        target: date32, or a timestamp of microseconds with or without zone.
        needs_zone: Whether an instant without Z or offset is wrong; else it is in UTC.
    """
    try:
        # The quick way, which takes nothing that the other one would not take, and wants an offset of each instant.
        return texts.cast(target), np.zeros(len(texts), dtype=np.bool_)
    except pa.ArrowInvalid:
        pass
    is_date = pt.is_date(target)
    plain, number = (pa.date32(), pa.int32()) if is_date else (pa.timestamp("us"), pa.int64())
    has_zone = not is_date and target.tz is not None
    body, offsets_us = _split_zones(texts) if has_zone else (texts, None)
    usual = pc.match_substring_regex(body, f"^{_DATE}$" if is_date else f"^{_DATE}(?:{_TIME})?$")
    found, _ = cast_where_possible(pc.if_else(usual, body, pa.scalar(None, pa.string())), plain)
    numbers = found.view(number).cast(pa.int64())
    others = pc.invert(usual).fill_null(False)
    if others.true_count:
        numbers = pc.replace_with_mask(numbers, others, _read_far(body.filter(others), is_date))
    if offsets_us is not None:
        numbers = _try(pc.subtract_checked, numbers, offsets_us if needs_zone else offsets_us.fill_null(0))
    if others.true_count:
        numbers = pc.coalesce(numbers, _read_counts(texts, "days" if is_date else "µs"))
    found = cast_where_possible(numbers, number)[0].view(target)
    return found, np.asarray(pc.and_(texts.is_valid(), found.is_null()))


def _split_zones(texts: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Instants without their zone, and their offset from UTC in microseconds; NULL: they have none."""
    parts = pc.extract_regex(texts, _ZONED)
    minutes = pc.add(
        pc.multiply(_to_counts(pc.struct_field(parts, "hours")), 60), _to_counts(pc.struct_field(parts, "minutes"))
    )
    signed = pc.if_else(pc.equal(pc.struct_field(parts, "sign"), "-"), pc.negate(minutes), minutes)
    return pc.coalesce(pc.struct_field(parts, "body"), texts), pc.multiply(signed, 60_000_000)


def _to_counts(digits: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(digits, ""), "0", digits).cast(pa.int64())


def _read_far(texts: pa.Array, is_date: bool) -> pa.Array:
    """Days or microseconds since 1970-01-01 of times outside of the years that Arrow reads; NULL: it is none."""
    time = "" if is_date else f"(?:{_TIME})?"
    parts = pc.extract_regex(texts, rf"^(?P<date>[+-]?\d{{4,7}}-\d\d-\d\d)(?P<time>{time})$")
    days = cast_or_null(pc.struct_field(parts, "date"), _to_days, pa.int64())
    if is_date:
        return days
    clock = pc.binary_join_element_wise("1970-01-01", pc.struct_field(parts, "time"), "")
    return _try(_to_micros, days, cast_where_possible(clock, pa.timestamp("us"))[0].view(pa.int64()))


def _to_days(dates: pa.Array) -> pa.Array:
    plain = pc.replace_substring_regex(dates, r"^\+", "").fill_null("NaT")
    days = plain.to_numpy(zero_copy_only=False).astype("U").astype("datetime64[D]")
    return pa.array(days.astype(np.int64), mask=np.isnat(days))


def _to_micros(days: pa.Array, clock: pa.Array) -> pa.Array:
    # From the day after where that is nearer to 1970, so that no step to the first microsecond of all is too large.
    is_before = pc.less(days, 0)
    days = pc.if_else(is_before, pc.add(days, 1), days)
    clock = pc.if_else(is_before, pc.subtract(clock, _DAY_US), clock)
    return pc.add_checked(pc.multiply_checked(days, _DAY_US), clock)


def _read_counts(texts: pa.Array, unit: str) -> pa.Array:
    """The numbers that `to_time_texts` writes for what lies beyond its calendar; NULL: it is none."""
    number = pc.struct_field(pc.extract_regex(texts, rf"^(?P<number>-?\d{{1,19}}) {unit} since 1970-01-01$"), "number")
    return cast_where_possible(number, pa.int64())[0]


def _try(combine: Callable[[pa.Array, pa.Array], pa.Array], left: pa.Array, right: pa.Array) -> pa.Array:
    """What `combine` makes of two columns of numbers, NULL where that raises."""
    rows = pa.StructArray.from_arrays([left, right], ["left", "right"])
    return cast_or_null(rows, lambda part: combine(part.field("left"), part.field("right")), pa.int64())
