"""Changes inside of nested types, and what becomes of the values that are there."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from random import Random
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as pt

from lakelog.format.types.column_changes import AddColumn, ColumnChange, DropColumn, RenameColumn, WidenColumn
from lakelog.format.types.widening import is_widening
from tests.support.random_tables.columns import KEY_TYPES, ColumnType

_NAMES: Final = ("a", "b", "c", "d.e")

_EXACT: Final = Context(prec=76)

Convert = Callable[[Any], Any]


@dataclass(frozen=True)
class Altered:
    """A change inside of a column.

    Args:
        change: What the metastore is asked for.
        type: The column's type afterwards.
        convert: What a value of before shows as.
    """

    change: ColumnChange
    type: ColumnType
    convert: Convert


@dataclass(frozen=True)
class _Inside:
    change: ColumnChange
    data_type: pa.DataType
    convert: Convert
    draw: Callable[[Any, Random], Any]


def alter_inside(column_type: ColumnType, path: Sequence[str], random: Random) -> Altered | None:
    """A random change inside of a nested column; None: none is possible where it looked."""
    found = _alter(column_type.data_type, list(path), random)
    if found is None:
        return None
    before = column_type.draw
    return Altered(
        found.change,
        ColumnType(found.data_type, lambda r: found.draw(before(r), r), None, (), is_ordered=False),
        _unless_null(found.convert),
    )


def as_read(value: Any, column_type: ColumnType) -> Any:
    """A value as a read returns it."""
    return pa.array([value], column_type.data_type)[0].as_py()


def to_wider(old: pa.DataType, new: pa.DataType) -> Convert:
    """What a value becomes by a widening."""
    if pt.is_decimal(new):
        unit = Decimal(1).scaleb(-new.scale)
        return _unless_null(lambda value: Decimal(value).quantize(unit, context=_EXACT))
    if pt.is_floating(new):
        return _unless_null(float)
    if pt.is_timestamp(new):
        return _unless_null(lambda value: dt.datetime.combine(value, dt.time()))
    return lambda value: value


def _alter(data_type: pa.DataType, path: list[str], random: Random) -> _Inside | None:
    if pt.is_list(data_type):
        return _in_items(_alter(data_type.value_type, [*path, "element"], random), data_type.value_field)
    if pt.is_map(data_type):
        return _in_values(_alter(data_type.item_type, [*path, "value"], random), data_type)
    if pt.is_struct(data_type):
        return random.choice((_add, _add, _drop, _rename, _descend, _descend))(data_type, path, random)
    wider = [each for each in KEY_TYPES if is_widening(data_type, each.data_type)]
    if not wider:
        return None
    target = random.choice(wider)
    widened = to_wider(data_type, target.data_type)
    return _Inside(
        WidenColumn(path, target.data_type), target.data_type, widened, lambda value, _: _unless_null(widened)(value)
    )


def _in_items(found: _Inside | None, field: pa.Field) -> _Inside | None:
    if found is None:
        return None
    convert, draw = _unless_null(found.convert), found.draw

    return _Inside(
        found.change,
        pa.list_(pa.field("element", found.data_type, field.nullable)),
        lambda values: [convert(each) for each in values],
        lambda values, r: [None if each is None else draw(each, r) for each in values],
    )


def _in_values(found: _Inside | None, data_type: pa.MapType) -> _Inside | None:
    if found is None:
        return None
    convert, draw = _unless_null(found.convert), found.draw
    return _Inside(
        found.change,
        pa.map_(data_type.key_type, pa.field("value", found.data_type, data_type.item_field.nullable)),
        lambda values: [(key, convert(each)) for key, each in values],
        lambda values, r: [(key, None if each is None else draw(each, r)) for key, each in values],
    )


def _add(data_type: pa.StructType, path: list[str], random: Random) -> _Inside | None:
    fields = _fields(data_type)
    free = [name for name in _NAMES if name not in {field.name for field in fields}]
    if not free:
        return None
    name, added = random.choice(free), random.choice(KEY_TYPES)
    default = as_read(added.draw(random), added) if random.random() < 0.6 else None
    field = pa.field(name, added.data_type, default is None or random.random() < 0.5)
    return _Inside(
        AddColumn([*path, name], added.data_type, field.nullable, default=default),
        pa.struct([*fields, field]),
        lambda value: value | {name: default},
        lambda value, r: value | {name: added.draw(r)},
    )


def _drop(data_type: pa.StructType, path: list[str], random: Random) -> _Inside | None:
    fields = _fields(data_type)
    if len(fields) < 2:
        return None
    name = random.choice(fields).name

    def convert(value: dict[str, Any]) -> dict[str, Any]:
        return {each: inside for each, inside in value.items() if each != name}

    kept = pa.struct([field for field in fields if field.name != name])
    return _Inside(DropColumn([*path, name]), kept, convert, lambda value, _: convert(value))


def _rename(data_type: pa.StructType, path: list[str], random: Random) -> _Inside | None:
    fields = _fields(data_type)
    free = [name for name in _NAMES if name not in {field.name for field in fields}]
    if not free:
        return None
    name, new = random.choice(fields).name, random.choice(free)

    def convert(value: dict[str, Any]) -> dict[str, Any]:
        return {new if each == name else each: inside for each, inside in value.items()}

    renamed = pa.struct([field.with_name(new) if field.name == name else field for field in fields])
    return _Inside(RenameColumn([*path, name], new), renamed, convert, lambda value, _: convert(value))


def _descend(data_type: pa.StructType, path: list[str], random: Random) -> _Inside | None:
    fields = _fields(data_type)
    place = random.randrange(len(fields))
    child = fields[place]
    found = _alter(child.type, [*path, child.name], random)
    if found is None:
        return None
    convert, draw = _unless_null(found.convert), found.draw
    fields[place] = child.with_type(found.data_type)
    return _Inside(
        found.change,
        pa.struct(fields),
        lambda value: value | {child.name: convert(value[child.name])},
        lambda value, r: value | {child.name: None if value[child.name] is None else draw(value[child.name], r)},
    )


def _fields(data_type: pa.StructType) -> list[pa.Field]:
    return [data_type.field(place) for place in range(data_type.num_fields)]


def _unless_null(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)
