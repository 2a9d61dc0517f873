"""Dates and timestamps as ISO 8601 with microseconds and back, exact over their whole range."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from lakelog.log.codecs.byte_columns import Mask

_FIRST_DAY: Final = -719_528
"""0000-01-01 as days since 1970-01-01."""
_LAST_DAY: Final = 2_932_896
"""9999-12-31. Years outside these two do not have four digits."""
_DAY_US: Final = 86_400_000_000


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


def from_iso_texts(texts: pa.Array, target: pa.DataType) -> tuple[pa.Array, Mask]:
    """What `to_iso_texts` wrote, as `target`, and which values are no such time (they are then NULL). Pure.

    Also takes what others write: a space for the T, fewer digits of a second, an offset like `+02:00` for an instant.

    Args:
        texts: Strings; NULL stays NULL.
        target: date32, or a timestamp of microseconds with or without zone.
    """
    is_date = pt.is_date(target)
    plain = pa.date32() if is_date else pa.timestamp("us")
    body, offsets_us = _split_zones(texts) if not is_date and target.tz is not None else (texts, None)
    shape = r"^\d{4}-\d\d-\d\d$" if is_date else r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,6})?$"
    usual = pc.match_substring_regex(body, shape).fill_null(False)
    try:
        found = pc.if_else(usual, body, pa.scalar(None, pa.string())).cast(plain)
    except pa.ArrowInvalid:
        # There is a day or an hour that there is none of: rare, and worth a look at each.
        usual = pa.array(np.zeros(len(texts), dtype=np.bool_))
        found = pa.nulls(len(texts), plain)
    others = pc.and_(pc.invert(usual), texts.is_valid())
    if others.true_count:
        numbers = _read_far(body.filter(others), "D" if is_date else "us")
        found = pc.replace_with_mask(found, others, pa.array(numbers).cast(plain))
    wrong = np.asarray(pc.and_(texts.is_valid(), found.is_null()))
    if offsets_us is not None:
        found = pc.subtract(found.view(pa.int64()), offsets_us)
    return found.view(target), wrong


def _split_zones(texts: pa.Array) -> tuple[pa.Array, pa.Array | None]:
    """Instants without their zone, and what to take away for it in microseconds; None: nothing."""
    texts = pc.replace_substring_regex(texts, "Z$", "")
    zone = r"(?P<sign>[+-])(?P<hours>\d\d):?(?P<minutes>\d\d)$"
    if not pc.any(pc.match_substring_regex(texts, zone)).as_py():
        return texts, None
    parts = pc.extract_regex(texts, zone)
    minutes = pc.add(
        pc.multiply(pc.struct_field(parts, "hours").cast(pa.int64()), 60),
        pc.struct_field(parts, "minutes").cast(pa.int64()),
    ).fill_null(0)
    signed = pc.if_else(pc.equal(pc.struct_field(parts, "sign"), "-").fill_null(False), pc.negate(minutes), minutes)
    return pc.replace_substring_regex(texts, zone, ""), pc.multiply(signed, 60_000_000)


def _read_far(texts: pa.Array, unit: str) -> npt.NDArray[np.datetime64]:
    shape = r"^[+-]?\d{4,7}-\d\d-\d\d" + ("$" if unit == "D" else r"[T ]\d\d:\d\d:\d\d(?:\.\d{1,6})?$")
    fits = np.asarray(pc.match_substring_regex(texts, shape))
    plain = pc.replace_substring_regex(texts, r"^\+", "").to_numpy(zero_copy_only=False).astype("U")
    plain[~fits] = "NaT"
    dtype = f"datetime64[{unit}]"
    try:
        return plain.astype(dtype)
    except ValueError:
        return np.array([_read_one(text, dtype) for text in plain.tolist()], dtype=dtype)


def _read_one(text: str, dtype: str) -> npt.NDArray[np.datetime64]:
    try:
        return np.array(text, dtype=dtype)
    except ValueError:
        return np.array("NaT", dtype=dtype)
