"""Which files of earlier schemas Spark's own Parquet reader shows as lakelog does.

It finds columns by their ids, and fills in a default that stands in a field's metadata. Of wider types it can read what
is listed here, with its vectorised reader and without; inside of nested types it is not relied on.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
from pyarrow import types as pt

from lakelog.client.metastore.metastore import Metastore
from lakelog.format.types.defaults import initial_default
from lakelog.format.types.schema import TableSchema, field_id
from lakelog.format.types.widening import is_widening

_MAX_KNOWN: Final = 10_000
"""Pairs of versions whose comparison is remembered."""


@dataclass
class NativeVersions:
    """Compares versions of schemas, and remembers the result: versions never change. Threads may share it.

    A database that was set back gives the ids of lost versions again, so the version to read with is known by its
    columns.
    """

    _known: dict[tuple[str, int, int, str], bool] = field(default_factory=dict)

    def pick(
        self, metastore: Metastore, table_uuid: str, schema: TableSchema, written: Collection[int]
    ) -> frozenset[int]:
        """The versions whose files Spark reads by itself; asks the metastore for those that are not known yet.

        Args:
            metastore: Knows the versions.
            table_uuid: The table.
            schema: The schema to read with.
            written: Ids of the schemas that files were written with.
        """
        wanted = schema.schema_id, schema.digest
        keys = {each: (table_uuid, each, *wanted) for each in written if each != schema.schema_id}
        if any(key not in self._known for key in keys.values()):
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            for stored in metastore.list_schemas(table_uuid):
                if stored.schema_id in keys:
                    self._known[keys[stored.schema_id]] = is_native(stored, schema)
        return frozenset({schema.schema_id, *(each for each, key in keys.items() if self._known.get(key))})


def is_native(stored: TableSchema, wanted: TableSchema) -> bool:
    """Whether Spark's own reader shows files of one version with the columns of another. Pure."""
    before = {field_id(each): each for each in stored.arrow}
    for each in wanted.arrow:
        old = before.get(field_id(each))
        if old is None:
            if initial_default(each) is not None and to_sql_default(each) is None:
                return False
        elif not _reads(old.type, each.type):
            return False
    return True


def to_sql_default(column: pa.Field) -> str | None:
    """A column's initial default as Spark's SQL; None: there is none, or none that its readers take. Pure."""
    default = initial_default(column)
    return None if default is None else to_sql_constant(default)


def to_sql_constant(default: pa.Scalar) -> str | None:
    """A value as Spark's SQL; None: its readers take no default of this type, or no such text. Pure."""
    value = default.as_py()
    if pt.is_boolean(default.type) or pt.is_integer(default.type):
        return str(value).lower()
    if pt.is_floating(default.type):
        name = "FLOAT" if pt.is_float32(default.type) else "DOUBLE"
        text = repr(value) if math.isfinite(value) else "NaN" if math.isnan(value) else f"{'-' * (value < 0)}Infinity"
        return f"CAST('{text}' AS {name})"
    if pt.is_string(default.type) and value.isprintable() and not set(value) & {"'", "\\"}:
        return f"'{value}'"
    if pt.is_date32(default.type):
        return f"DATE '{value.isoformat()}'"
    if pt.is_timestamp(default.type):
        moment = value.replace(tzinfo=None).isoformat(" ")
        return f"TIMESTAMP '{moment}Z'" if default.type.tz else f"TIMESTAMP_NTZ '{moment}'"
    return None


def _reads(old: pa.DataType, new: pa.DataType) -> bool:
    if pt.is_nested(old):
        return pa.field("", old).equals(pa.field("", new), check_metadata=True)
    if old == new:
        return True
    if not is_widening(old, new) or new == pa.float32():
        return False
    if pt.is_integer(old) and pt.is_decimal(new):
        # It asks for room for any number of the physical type, whatever numbers the column's own type has.
        return bool(new.precision - new.scale >= (20 if old == pa.int64() else 10))
    return True
