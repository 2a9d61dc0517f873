"""How a reader that began with one version of a schema goes on over later ones (semantics 7.6). Pure.

What it shows keeps its names and types; columns are known by their ids. A column that was added, renamed, moved or
commented on since makes no difference to it. One that was dropped, or has another type, ends it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa
from pyarrow import types as pt

from lakelog.format.types.defaults import initial_default
from lakelog.format.types.schema import TableSchema, field_id
from lakelog.format.types.sql_types import to_sql_type


def find_breaks(began: TableSchema, later: TableSchema, shown: Collection[str]) -> list[str]:
    """What a later version no longer has of some columns, or has in another type: a line a column. Pure.

    Args:
        began: The version that the reader began with.
        later: A version after it.
        shown: Names of columns in `began`.
    """
    return [line for field in began.arrow if field.name in shown for line in _compare([field], list(later.arrow), "")]


def continue_schema(began: TableSchema, later: TableSchema, shown: Collection[str]) -> TableSchema:
    """The schema by which a reader reads rows of a later version as it began. Pure.

    Args:
        began: The version that the reader began with.
        later: A version after it.
        shown: Names of columns in `began`, which it returns or compares with.

    Returns:
        All columns of the later version, and those shown ones that it lacks. Shown columns are as they were, except
        that they take NULL where they do now; the other ones are as they are now, under their earlier names. One of the
        two versions itself if it has the same columns; else its id is negative.
    """
    known = {field_id(field): field for field in began.arrow}
    taken = set(began.arrow.names)
    fields = []
    for field in later.arrow:
        old = known.get(field_id(field))
        if old is None:
            fields.append(field.with_name(_free_name(field, taken)))
        else:
            fields.append(_as_shown(old, field) if old.name in shown else field.with_name(old.name))
    left = {field_id(field) for field in later.arrow}
    fields += [field for field in began.arrow if field.name in shown and field_id(field) not in left]
    arrow = pa.schema(fields)
    for version in (later, began):
        if arrow.equals(version.arrow, check_metadata=True):
            return version
    names = {field_id(field): field.name for field in fields}
    key, partition = (
        tuple(names[later.field_ids[name]] for name in named) for named in (later.primary_key, later.partition_by)
    )
    # What is cached by a schema's id must be another one's.
    digest = hashlib.sha256(arrow.serialize()).digest()
    return TableSchema(-1 - int.from_bytes(digest[:7]), arrow, key, partition)


def is_stored_as(field: pa.Field, written: TableSchema) -> bool:
    """Whether files of a version hold a column in this type, or show it as NULL because they lack it. Pure."""
    stored = next((each for each in written.arrow if field_id(each) == field_id(field)), None)
    if stored is None:
        return initial_default(field) is None
    return bool(pa.field("", stored.type).equals(pa.field("", field.type), check_metadata=True))


def _free_name(field: pa.Field, taken: set[str]) -> str:
    """The name of a column that the reader does not know."""
    return f"{field.name}#{field_id(field)}" if field.name in taken else str(field.name)


def _as_shown(old: pa.Field, new: pa.Field) -> pa.Field:
    """A column as it was, with NULL where it can be by now."""
    shown = pa.field(old.name, _type_as_shown(old.type, new.type), old.nullable or new.nullable, old.metadata)
    return new if shown.equals(new, check_metadata=True) else shown


def _type_as_shown(old: pa.DataType, new: pa.DataType) -> pa.DataType:
    if not pt.is_nested(old) or old.id != new.id:
        return old
    if pt.is_map(old):
        parts = (_as_shown(old.key_field, new.key_field), _as_shown(old.item_field, new.item_field))
        return pa.map_(*parts)
    if pt.is_list(old):
        return pa.list_(_as_shown(old.value_field, new.value_field))
    by_id = {field_id(field): field for field in new.fields}
    return pa.struct([_as_shown(field, by_id.get(field_id(field), field)) for field in old.fields])


def _compare(old: Sequence[pa.Field], new: Sequence[pa.Field], prefix: str) -> Iterator[str]:
    by_id = {field_id(field): field for field in new}
    for field in old:
        name, now = f"{prefix}{field.name}", by_id.get(field_id(field))
        if now is None:
            yield f"{name}: was dropped"
        elif pt.is_nested(field.type) and field.type.id == now.type.id:
            yield from _compare(_parts(field.type), _parts(now.type), f"{name}.")
        elif field.type != now.type:
            yield f"{name}: {to_sql_type(field.type)} became {to_sql_type(now.type)}"


def _parts(data_type: pa.DataType) -> list[pa.Field]:
    if pt.is_map(data_type):
        return [data_type.key_field.with_name("key"), data_type.item_field.with_name("value")]
    if pt.is_list(data_type):
        return [data_type.value_field.with_name("element")]
    return list(data_type.fields)
