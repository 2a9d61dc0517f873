"""Reads old files with a newer schema: columns are found by field id and cast, and those it lacks get their default."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyarrow import types as pt

from lakelog.errors import DataCorrupted
from lakelog.format.merge.runs import COMMIT_TIMESTAMP_COLUMN, REPLACES_OLDER_COLUMN
from lakelog.format.types.defaults import fill_initial
from lakelog.format.types.rowkind import ROW_KIND_COLUMN
from lakelog.format.types.schema import FIELD_ID_KEY

_OWN_COLUMNS = frozenset({ROW_KIND_COLUMN, COMMIT_TIMESTAMP_COLUMN, REPLACES_OLDER_COLUMN})
"""Columns that lakelog itself adds to the rows of a file."""


@dataclass(frozen=True)
class ColumnMapping:
    """Which columns of a file hold which columns of a read.

    Args:
        fields: The columns of the read, in order.
        sources: For each its index among the columns that are read from the file; None: the file has no such column.
        leaf_columns: Parquet's numbers of the single-valued columns to read, rising.
    """

    fields: tuple[pa.Field, ...]
    sources: tuple[int | None, ...]
    leaf_columns: tuple[int, ...]

    @property
    def schema(self) -> pa.Schema:
        """The columns of the read."""
        return pa.schema(self.fields)


def map_columns(file_schema: pa.Schema, fields: tuple[pa.Field, ...]) -> ColumnMapping:
    """Finds the columns of a read in a file. Pure.

    Args:
        file_schema: The file's columns as pyarrow shows them, with ids.
        fields: The columns to read, with ids; lakelog's own, such as `_row_kind`, are found by name.

    Raises:
        DataCorrupted: The file has an id twice.
    """
    places: dict[int | str, int] = {}
    leaf_ranges: list[range] = []
    leaf_count = 0
    for place, field in enumerate(file_schema):
        if (known_as := _known_as(field)) is not None:
            if known_as in places:
                raise DataCorrupted(f"Two of the file's columns are the table's column {known_as}.")
            places[known_as] = place
        leaves = _count_leaves(field.type)
        leaf_ranges.append(range(leaf_count, leaf_count + leaves))
        leaf_count += leaves
    found = [places.get(_known_as(field) or "") for field in fields]
    read = sorted({place for place in found if place is not None})
    return ColumnMapping(
        fields,
        tuple(None if place is None else read.index(place) for place in found),
        tuple(leaf for place in read for leaf in leaf_ranges[place]),
    )


def find_field(file_schema: pa.Schema, field: pa.Field) -> pa.Field | None:
    """The column of a file that holds a column of a read; None: it has none. Pure."""
    known_as = _known_as(field)
    return next((each for each in file_schema if known_as is not None and _known_as(each) == known_as), None)


def apply_mapping(batch: pa.RecordBatch, mapping: ColumnMapping) -> pa.RecordBatch:
    """Turns data read from a file into the columns of the read. Pure; copies only columns of another type.

    Args:
        batch: The columns of `mapping.leaf_columns`, assembled.
        mapping: As found for the file.

    Raises:
        pa.ArrowInvalid: A value does not fit the requested type.
    """
    columns = [
        fill_initial(field, batch.num_rows) if source is None else _conform(batch.column(source), field)
        for field, source in zip(mapping.fields, mapping.sources, strict=True)
    ]
    if not columns:
        # SUBTLE: without columns the number of rows would be lost, and with it the answer to count().
        return make_empty_rows(batch.num_rows)
    return pa.RecordBatch.from_arrays(columns, schema=mapping.schema)


def make_empty_rows(count: int) -> pa.RecordBatch:
    """This many rows without columns."""
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), count, [None]))


def _known_as(field: pa.Field) -> int | str | None:
    """A column's id, or its name if it is lakelog's own; None for a column that is not the table's."""
    if field.name in _OWN_COLUMNS:
        return str(field.name)
    raw = (field.metadata or {}).get(FIELD_ID_KEY)
    return int(raw) if raw else None


def _count_leaves(data_type: pa.DataType) -> int:
    if not pt.is_nested(data_type):
        return 1
    return sum(_count_leaves(data_type.field(place).type) for place in range(data_type.num_fields))


def _conform(values: pa.Array, field: pa.Field) -> pa.Array:
    """Returns `values` with the type of `field`; nested fields are found by id, or show their default if missing."""
    wanted = field.type
    if pt.is_dictionary(values.type):
        values = values.dictionary_decode()
    if _is_same(values.type, wanted):
        return values
    if pt.is_struct(wanted) and pt.is_struct(values.type):
        places = {_known_as(values.type.field(place)): place for place in range(values.type.num_fields)}
        children = []
        for place in range(wanted.num_fields):
            child = wanted.field(place)
            source = places.get(_known_as(child))
            children.append(
                fill_initial(child, len(values)) if source is None else _conform(values.field(source), child)
            )
        return pa.StructArray.from_arrays(children, type=wanted, mask=values.is_null())
    if pt.is_list(wanted) and pt.is_list(values.type):
        items = _conform(values.values, wanted.value_field)
        return _with_items(values, wanted, items)
    if pt.is_map(wanted) and pt.is_map(values.type):
        entries = pa.StructArray.from_arrays(
            [_conform(values.keys, wanted.key_field), _conform(values.items, wanted.item_field)],
            fields=[wanted.key_field, wanted.item_field],
        )
        return _with_items(values, wanted, entries)
    return values.cast(wanted)


def _is_same(stored: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether two types are equal, ids of nested fields included: a field of the same name may be another one."""
    if stored != wanted:
        return False
    fields = (
        (stored.field(place), wanted.field(place)) for place in range(stored.num_fields if pt.is_nested(stored) else 0)
    )
    return all(_known_as(left) == _known_as(right) and _is_same(left.type, right.type) for left, right in fields)


def _with_items(values: pa.Array, wanted: pa.DataType, items: pa.Array) -> pa.Array:
    """The same lists or maps with other items."""
    validity, offsets = values.buffers()[:2]
    return pa.Array.from_buffers(
        wanted, len(values), [validity, offsets], values.null_count, values.offset, children=[items]
    )
