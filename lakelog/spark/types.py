"""A table's columns as Spark types, with field ids by which Spark's Parquet reader finds them in old files."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
from pyarrow import types as pt
from pyspark.sql import types as st

from lakelog.errors import InternalError
from lakelog.format.types.schema import FIELD_ID_KEY

_FIELD_ID: Final = "parquet.field.id"
"""The key of a Spark field's metadata under which its Parquet reader and writer look for the id."""

_SINGLE_VALUED: Final[dict[pa.DataType, st.DataType]] = {
    pa.bool_(): st.BooleanType(),
    pa.int8(): st.ByteType(),
    pa.int16(): st.ShortType(),
    pa.int32(): st.IntegerType(),
    pa.int64(): st.LongType(),
    pa.float32(): st.FloatType(),
    pa.float64(): st.DoubleType(),
    pa.string(): st.StringType(),
    pa.binary(): st.BinaryType(),
    pa.date32(): st.DateType(),
    pa.timestamp("us", tz="UTC"): st.TimestampType(),
    pa.timestamp("us"): st.TimestampNTZType(),
}
_WHOLE: Final = (st.ByteType, st.ShortType, st.IntegerType, st.LongType)
_DIGITS: Final = {st.ByteType: 3, st.ShortType: 5, st.IntegerType: 10, st.LongType: 20}


def to_spark_schema(schema: pa.Schema, *, nullable: bool = False) -> st.StructType:
    """Returns columns as Spark types; fields inside structs keep their ids too. Pure.

    Args:
        schema: Columns of canonical types (`lakelog.format.types.types`).
        nullable: Make every column and field nullable, like the output of a Parquet scan or a Python function.
    """
    return st.StructType([_to_field(field, nullable) for field in schema])


def to_spark_type(data_type: pa.DataType, *, nullable: bool = False) -> st.DataType:
    """Returns the Spark type of a canonical type. Pure."""
    if data_type in _SINGLE_VALUED:
        return _SINGLE_VALUED[data_type]
    if pt.is_decimal128(data_type):
        return st.DecimalType(data_type.precision, data_type.scale)
    if pt.is_struct(data_type):
        fields = [data_type.field(place) for place in range(data_type.num_fields)]
        return st.StructType([_to_field(field, nullable) for field in fields])
    if pt.is_map(data_type):
        key = to_spark_type(data_type.key_type, nullable=nullable)
        item = to_spark_type(data_type.item_type, nullable=nullable)
        return st.MapType(key, item, nullable or data_type.item_field.nullable)
    if pt.is_list(data_type):
        element = data_type.value_field
        return st.ArrayType(to_spark_type(element.type, nullable=nullable), nullable or element.nullable)
    raise InternalError(f"Type {data_type} is not canonical, so that it has no Spark type.")


def is_widening(given: st.DataType, wanted: st.DataType) -> bool:
    """Whether Spark's own cast between two single-valued types keeps every value, so that no check is needed."""
    if isinstance(given, _WHOLE):
        if isinstance(wanted, _WHOLE):
            return _WHOLE.index(type(given)) < _WHOLE.index(type(wanted))
        if isinstance(wanted, st.DecimalType):
            return wanted.precision - wanted.scale >= _DIGITS[type(given)]
        return False
    if isinstance(given, st.DecimalType) and isinstance(wanted, st.DecimalType):
        more_digits = wanted.precision - wanted.scale >= given.precision - given.scale
        return more_digits and wanted.scale >= given.scale
    return isinstance(given, st.FloatType) and isinstance(wanted, st.DoubleType)


def same_values(given: st.DataType, wanted: st.DataType) -> bool:
    """Whether two types hold the same values in the same form, apart from NULL. Pure."""
    return bool(_without_nullability(given.jsonValue()) == _without_nullability(wanted.jsonValue()))


def forbids_null(given: st.DataType, wanted: st.DataType) -> bool:
    """Whether a type forbids NULL somewhere inside where another type of the same values allows it. Pure.

    Spark does not check for NULL where a type forbids it, and shows 0 or garbage instead.
    """
    match given, wanted:
        case st.StructType(), st.StructType():
            pairs = zip(given.fields, wanted.fields, strict=True)
            return any((b.nullable and not a.nullable) or forbids_null(a.dataType, b.dataType) for a, b in pairs)
        case st.ArrayType(), st.ArrayType():
            inside = forbids_null(given.elementType, wanted.elementType)
            return (wanted.containsNull and not given.containsNull) or inside
        case st.MapType(), st.MapType():
            inside = forbids_null(given.keyType, wanted.keyType) or forbids_null(given.valueType, wanted.valueType)
            return (wanted.valueContainsNull and not given.valueContainsNull) or inside
        case _:
            return False


def _to_field(field: pa.Field, nullable: bool) -> st.StructField:
    raw = (field.metadata or {}).get(FIELD_ID_KEY)
    metadata = {_FIELD_ID: int(raw)} if raw else {}
    data_type = to_spark_type(field.type, nullable=nullable)
    return st.StructField(field.name, data_type, nullable or field.nullable, metadata)


def _without_nullability(value: Any) -> Any:
    if isinstance(value, dict):
        left_out = ("nullable", "containsNull", "valueContainsNull", "metadata")
        return {key: _without_nullability(item) for key, item in value.items() if key not in left_out}
    if isinstance(value, list):
        return [_without_nullability(item) for item in value]
    return value
