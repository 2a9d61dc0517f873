"""Casts the values of one array to a canonical type without changing any of them.

`find_mismatch` says from the types alone what can never work, `convert_values` does the rest and raises `ValueLost`
for a value that does not fit. Both handle nested types; `cast.py` makes the messages for users.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from lakelog.format.types.types import HARMLESS_EXTENSIONS

_BEYOND_DECIMALS: Final = 1e38
"""No decimal of 38 digits is as large."""

_BELOW_DECIMALS: Final = 9e-39
"""No decimal of 38 digits is as small, but for 0."""


class ValueLost(Exception):
    """A value would change or is not allowed; `str` says why. Never leaves lakelog.format."""


def find_mismatch(given: pa.DataType, expected: pa.DataType) -> str | None:
    """Returns why values of a type cannot become the expected one and what to do, or None if they may.

    Args:
        given: Any Arrow type.
        expected: A canonical type.
    """
    given = _stored_type(given)
    if pt.is_null(given) or (given == expected and not pt.is_nested(given)):
        return None
    if pt.is_dictionary(given):
        return find_mismatch(given.value_type, expected)
    if pt.is_struct(expected) and pt.is_struct(given):
        return _struct_mismatch(given, expected)
    if pt.is_map(expected) and pt.is_map(given):
        return find_mismatch(given.key_type, expected.key_type) or find_mismatch(given.item_type, expected.item_type)
    if pt.is_list(expected) and _is_list(given):
        return find_mismatch(given.value_type, expected.value_type)
    if pt.is_timestamp(expected) and pt.is_timestamp(given):
        if (given.tz is None) == (expected.tz is None):
            return None
        if expected.tz is None:
            return "drop the zone with pyarrow.compute.local_timestamp"
        return "say which zone it is in with pyarrow.compute.assume_timezone"
    fits = (
        (pt.is_integer(given) and (pt.is_integer(expected) or pt.is_floating(expected) or pt.is_decimal(expected)))
        or (pt.is_floating(given) and (pt.is_floating(expected) or pt.is_integer(expected) or pt.is_decimal(expected)))
        or (pt.is_decimal(given) and (pt.is_decimal(expected) or pt.is_integer(expected) or pt.is_floating(expected)))
        or (_is_text(given) and pt.is_string(expected))
        or (_is_bytes(given) and pt.is_binary(expected))
        or (pt.is_date(given) and pt.is_date(expected))
    )
    if fits:
        return None
    if _is_text(given):
        return "text is not parsed; cast it yourself"
    return f"cast it to {expected} yourself, if that is what the values mean"


def convert_values(array: pa.Array, field: pa.Field) -> pa.Array:
    """Returns the values with the field's type. Pure; linear, without a loop over rows.

    Args:
        array: Values of a type in which `find_mismatch` finds nothing.
        field: Canonical type and nullability; the name is ignored.

    Raises:
        ValueLost: A value would change, is NULL where NULL is not allowed, or is text that is not UTF-8.
    """
    try:
        converted = _convert(array, field.type)
        # Finds text that is not UTF-8 and invalid offsets; 8 ns per row for strings, nothing for numbers.
        converted.validate(full=True)
    except pa.ArrowException as error:
        raise ValueLost(_reason(error, field.type)) from error
    # SUBTLE: check the converted values, since a dictionary may hold NULL without the array counting one.
    if not field.nullable and converted.null_count:
        raise ValueLost("the column is NOT NULL")
    return converted


def _convert(array: pa.Array, expected: pa.DataType) -> pa.Array:
    given = array.type
    if isinstance(given, pa.BaseExtensionType):
        return _convert(array.storage, expected)
    if pt.is_dictionary(given):
        return _convert(_decode_dictionary(array), expected)
    if pt.is_null(given):
        return pa.nulls(len(array), expected)
    if pt.is_struct(expected):
        return _convert_struct(array, expected)
    if pt.is_map(expected):
        return _convert_map(array, expected)
    if pt.is_list(expected):
        return _convert_list(array, expected)
    if given == expected:
        return array
    if pt.is_integer(given) and pt.is_decimal(expected):
        # Arrow requires room for every integer of the width; 256 bits have it, and the second step checks the values.
        return array.cast(pa.decimal256(20 + expected.scale, expected.scale)).cast(expected)
    if pt.is_decimal(given) and pt.is_floating(expected):
        return _decimals_to_floats(array, expected)
    if pt.is_floating(given) and pt.is_decimal(expected):
        return _floats_to_decimals(array, expected)
    if pt.is_float32(expected) and pt.is_float64(given):
        return _narrow_floats(array)
    return array.cast(expected)


def _decode_dictionary(array: pa.Array) -> pa.Array:
    plain = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}.get(given := array.type.value_type, given)
    if plain != given:
        # Arrow cannot take views, which polars' categories are, out of a dictionary.
        array = pa.DictionaryArray.from_arrays(array.indices, array.dictionary.cast(plain))
    return array.dictionary_decode()


def _convert_struct(array: pa.Array, expected: pa.DataType) -> pa.Array:
    # SUBTLE: flatten() gives children with the struct's own NULLs and offset applied, field(i) without them.
    children = dict(zip([f.name for f in array.type], array.flatten(), strict=True))
    fields = [expected.field(i) for i in range(expected.num_fields)]
    converted = []
    for field in fields:
        child = children.get(field.name)
        if child is None:
            child = pa.nulls(len(array), field.type)
        values = _convert(child, field.type)
        if not field.nullable and values.null_count > array.null_count:
            raise ValueLost(f"its field '{field.name}' is NOT NULL")
        converted.append(values)
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(converted, fields=fields, mask=mask)


def _convert_list(array: pa.Array, expected: pa.DataType) -> pa.Array:
    if array.type == expected and pt.is_primitive(expected.value_type) and expected.value_field.nullable:
        return array
    # flatten() leaves out entries of NULL lists and outside a slice, for all kinds of lists.
    elements = array.flatten()
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy()
    if len(elements) >= 2**31:
        raise pa.ArrowInvalid("the lists of one batch have more than 2**31 elements; write smaller batches")
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    values = _convert(elements, expected.value_type)
    if not expected.value_field.nullable and values.null_count:
        raise ValueLost("its elements are NOT NULL")
    mask = array.is_null() if array.null_count else None
    return pa.ListArray.from_arrays(offsets, values, type=expected, mask=mask)


def _convert_map(array: pa.Array, expected: pa.DataType) -> pa.Array:
    # SUBTLE: keys and items know nothing of the array's own offset; the offsets do.
    offsets = array.offsets.to_numpy()
    start, length = int(offsets[0]), int(offsets[-1] - offsets[0])
    items = _convert(array.items.slice(start, length), expected.item_type)
    if not expected.item_field.nullable and items.null_count:
        raise ValueLost("its map values are NOT NULL")
    return pa.MapArray.from_arrays(
        pa.array(offsets - start),
        _convert(array.keys.slice(start, length), expected.key_type),
        items,
        type=expected,
        mask=array.is_null() if array.null_count else None,
    )


def _narrow_floats(array: pa.Array) -> pa.Array:
    narrowed = array.cast(pa.float32())
    changed = pc.and_(pc.not_equal(narrowed.cast(pa.float64()), array), pc.invert(pc.is_nan(array)))
    if pc.any(changed).as_py():
        raise pa.ArrowInvalid("it has more digits than a float keeps")
    return narrowed


def _decimals_to_floats(array: pa.Array, expected: pa.DataType) -> pa.Array:
    """The nearest floats, if they represent the decimals: by their value, or by the shortest text for them."""
    # SUBTLE: through text, because Arrow's own cast of decimals with many digits does not give the nearest float.
    floats = array.cast(pa.string()).cast(expected)
    wide = pa.decimal128(38, array.type.scale)
    values = array.cast(wide)
    changed = pc.not_equal(floats.cast(pa.string()).cast(wide), values)
    if pc.any(changed).as_py():
        changed = pc.and_(changed, pc.not_equal(floats.cast(wide), values))
        if pc.any(changed).as_py():
            raise pa.ArrowInvalid(f"it has more digits than a {expected} keeps")
    return floats


def _floats_to_decimals(array: pa.Array, expected: pa.DataType) -> pa.Array:
    """Each float as the shortest decimal number that is that float, as 0.1, not as its exact binary value."""
    sizes = pc.abs(array)
    # SUBTLE: Arrow must not parse smaller numbers (`decimal_text`); no decimal has as many places anyway.
    fits = pc.and_(pc.less(sizes, _BEYOND_DECIMALS), pc.or_(pc.equal(sizes, 0), pc.greater(sizes, _BELOW_DECIMALS)))
    if not pc.all(fits, skip_nulls=True, min_count=0).as_py():
        raise ValueLost(f"{expected} has no such number; write NULL where there is none")
    try:
        # Of 256 bits, which hold the digits of every number below the bound with every scale.
        texts = array.cast(pa.string())
        return texts.cast(pa.decimal256(76, expected.scale)).cast(expected)
    except pa.ArrowInvalid as error:
        whole, scale = expected.precision - expected.scale, expected.scale
        raise ValueLost(
            f"{expected} keeps {whole} digits before the point and {scale} behind it; round it, or take a wider decimal"
        ) from error


def _struct_mismatch(given: pa.DataType, expected: pa.DataType) -> str | None:
    given_fields = {field.name: field for field in given}
    if len(given_fields) < given.num_fields:
        return "the struct has two fields of one name; rename one"
    for field in expected:
        if field.name not in given_fields:
            if not field.nullable:
                return f"add the field '{field.name}'; it is NOT NULL"
            continue
        mismatch = find_mismatch(given_fields[field.name].type, field.type)
        if mismatch is not None:
            return f"field '{field.name}': {mismatch}"
    unknown = [name for name in given_fields if expected.get_field_index(name) < 0]
    return f"drop the field '{unknown[0]}', which the table does not have" if unknown else None


def _stored_type(given: pa.DataType) -> pa.DataType:
    if isinstance(given, pa.BaseExtensionType) and given.extension_name in HARMLESS_EXTENSIONS:
        return given.storage_type
    return given


def _is_text(given: pa.DataType) -> bool:
    return bool(pt.is_string(given) or pt.is_large_string(given) or pt.is_string_view(given))


def _is_bytes(given: pa.DataType) -> bool:
    return bool(
        pt.is_binary(given) or pt.is_large_binary(given) or pt.is_binary_view(given) or pt.is_fixed_size_binary(given)
    )


def _is_list(given: pa.DataType) -> bool:
    kinds = (pt.is_list, pt.is_large_list, pt.is_fixed_size_list, pt.is_list_view, pt.is_large_list_view)
    return any(is_kind(given) for is_kind in kinds)


def _reason(error: pa.ArrowException, expected: pa.DataType) -> str:
    text = str(error)
    if "UTF8" in text:
        return "the text is not valid UTF-8; store it as binary, or repair it"
    return f"it cannot become {expected} without loss ({text.splitlines()[0][:200]})"
