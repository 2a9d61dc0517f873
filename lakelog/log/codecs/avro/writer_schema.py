"""A writer's schema of Avro, as others write records by it: what is read of them, and as which Arrow types.

| Avro | Arrow |
|---|---|
| boolean, int, long, float, double, string, bytes | boolean, int32, int64, float32, float64, string, binary |
| fixed, enum | binary, string |
| decimal (of bytes or fixed) | decimal128 |
| date; timestamp-millis, -micros, -nanos | date32; timestamp in that unit, UTC |
| local-timestamp-millis, -micros, -nanos | timestamp in that unit without zone |
| array, map, record | list, map of strings, struct |
| a union of null and one other type | that type, NULL where it is null |

Any other logical type is passed over, as Avro says: the value is what it is without it. Unions of several types, and
types that hold themselves, have no columns to go to and are refused.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from lakelog.errors import InvalidArgument

_MAX_DEPTH: Final = 32
_MOST_TYPES: Final = 10_000
_MAX_DIGITS: Final = 38

_PLAIN: Final[Mapping[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
}
_LOGICAL: Final[Mapping[tuple[str, str], pa.DataType]] = {
    ("int", "date"): pa.date32(),
    **{
        ("long", f"{local}timestamp-{word}"): pa.timestamp(unit, None if local else "UTC")
        for local in ("", "local-")
        for word, unit in (("millis", "ms"), ("micros", "us"), ("nanos", "ns"))
    },
}


@dataclass(frozen=True)
class AvroNode:
    """What one value is.

    Args:
        data_type: As what it is read.
        fixed_bytes: Of a fixed type; None: the length stands before the bytes.
        symbols: Of an enum.
        children: The fields of a record, the items of an array, the values of a map.
        branches: Of a union: how many types it has, and which one of them is null; None: it is no union.
    """

    data_type: pa.DataType
    fixed_bytes: int | None = None
    symbols: tuple[str, ...] = ()
    children: tuple[AvroNode, ...] = ()
    branches: tuple[int, int | None] | None = None


@dataclass(frozen=True)
class WriterSchema:
    """The fields of a record, in their order. Picklable."""

    names: tuple[str, ...]
    nodes: tuple[AvroNode, ...]

    @property
    def arrow(self) -> pa.Schema:
        """The columns that are read of it, all nullable."""
        return pa.schema([(name, node.data_type) for name, node in zip(self.names, self.nodes, strict=True)])


def read_writer_schema(text: str) -> WriterSchema:
    """Reads a schema. Pure.

    Args:
        text: JSON, as in a file `.avsc`.

    Raises:
        InvalidArgument: It is none, or holds what has no column to go to; names the field and what to do.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _refuse(f"it is no JSON: {error}") from error
    if not isinstance(found, dict) or found.get("type") not in ("record", "error"):
        raise _refuse('it is no record: give one as {"type": "record", "name": ..., "fields": [...]}')
    node, names = _Parser().read_record(found, "", "", 0)
    return WriterSchema(names, node.children)


@dataclass
class _Parser:
    """Reads the types of one schema; those with names may be meant again by these."""

    named: dict[str, AvroNode | None] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    count: int = 0

    def read(self, found: Any, path: str, space: str, depth: int) -> AvroNode:
        self._count(1, path)
        if depth > _MAX_DEPTH:
            raise _refuse(f"field '{path}' lies more than {_MAX_DEPTH} types deep; write it flatter")
        if isinstance(found, list):
            return self._read_union(found, path, space, depth)
        if isinstance(found, str):
            return self._find(found, path, space)
        if not isinstance(found, dict) or "type" not in found:
            raise _refuse(f"field '{path}' has no type")
        name = found["type"]
        if isinstance(name, dict | list):
            return self.read(name, path, space, depth + 1)
        if name in ("record", "error"):
            return self.read_record(found, path, space, depth)[0]
        if name == "array":
            item = self.read(found.get("items"), f"{path}[]", space, depth + 1)
            return AvroNode(pa.list_(item.data_type), children=(item,))
        if name == "map":
            item = self.read(found.get("values"), f"{path}{{}}", space, depth + 1)
            return AvroNode(pa.map_(pa.string(), item.data_type), children=(item,))
        if name == "enum":
            return self._read_enum(found, path, space)
        if name == "fixed":
            return self._read_fixed(found, path, space)
        if name == "bytes" and found.get("logicalType") == "decimal":
            return AvroNode(_to_decimal(found, path))
        if not isinstance(name, str):
            raise _refuse(f"field '{path}' has no type")
        logical = _LOGICAL.get((name, str(found.get("logicalType"))))
        return self._find(name, path, space) if logical is None else AvroNode(logical)

    def read_record(
        self, found: Mapping[str, Any], path: str, space: str, depth: int
    ) -> tuple[AvroNode, tuple[str, ...]]:
        """A record, and the names of its fields."""
        full, space = self._declare(found, path, space)
        before = self.count
        fields = found.get("fields")
        if not isinstance(fields, list) or not fields:
            raise _refuse(f"the record {full} has no fields")
        names: list[str] = []
        nodes: list[AvroNode] = []
        for each in fields:
            if not isinstance(each, dict) or not isinstance(each.get("name"), str) or "type" not in each:
                raise _refuse(f"a field of the record {full} has no name or no type")
            names.append(each["name"])
            inner = f"{path}.{each['name']}" if path else each["name"]
            # A logical type stands inside of the type; one beside it is a mistake that Avro passes over.
            nodes.append(self.read(each["type"], inner, space, depth + 1))
        if doubled := sorted(name for name, count in Counter(names).items() if count > 1):
            raise _refuse(f"the record {full} has the field '{doubled[0]}' twice")
        struct = pa.struct([(name, node.data_type) for name, node in zip(names, nodes, strict=True)])
        node = AvroNode(struct, children=tuple(nodes))
        self.named[full] = node
        self.counts[full] = self.count - before
        return node, tuple(names)

    def _read_union(self, found: list[Any], path: str, space: str, depth: int) -> AvroNode:
        others = [place for place, each in enumerate(found) if each not in ("null", {"type": "null"})]
        if len(others) != 1 or len(found) > 2:
            raise _refuse(
                f"field '{path}' is a union of {len(found)} types, and a column has one: only null and one other type "
                "are possible"
            )
        inner = self.read(found[others[0]], path, space, depth + 1)
        if inner.branches is not None:
            raise _refuse(f"field '{path}' is a union inside of a union")
        null = 1 - others[0] if len(found) == 2 else None
        return AvroNode(inner.data_type, inner.fixed_bytes, inner.symbols, inner.children, (len(found), null))

    def _read_enum(self, found: Mapping[str, Any], path: str, space: str) -> AvroNode:
        full, _ = self._declare(found, path, space)
        symbols = found.get("symbols")
        if not isinstance(symbols, list) or not symbols or not all(isinstance(each, str) for each in symbols):
            raise _refuse(f"the enum {full} has no symbols")
        node = AvroNode(pa.string(), symbols=tuple(symbols))
        self.named[full] = node
        self.counts[full] = 0
        return node

    def _read_fixed(self, found: Mapping[str, Any], path: str, space: str) -> AvroNode:
        full, _ = self._declare(found, path, space)
        size = found.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise _refuse(f"the fixed type {full} has no size of 1 byte or more")
        is_decimal = found.get("logicalType") == "decimal"
        node = AvroNode(_to_decimal(found, path) if is_decimal else pa.binary(), size)
        self.named[full] = node
        self.counts[full] = 0
        return node

    def _declare(self, found: Mapping[str, Any], path: str, space: str) -> tuple[str, str]:
        """A name's full form and the namespace inside of it."""
        name = found.get("name")
        if not isinstance(name, str) or not name:
            raise _refuse(f"the {found['type']} of field '{path}' has no name" if path else "the record has no name")
        given = found.get("namespace")
        if "." not in name:
            space = given if isinstance(given, str) else space
            name = f"{space}.{name}" if space else name
        if name in self.named:
            raise _refuse(f"the name {name} is given to two types")
        self.named[name] = None
        return name, name.rpartition(".")[0]

    def _find(self, name: str, path: str, space: str) -> AvroNode:
        if name in _PLAIN:
            return AvroNode(_PLAIN[name])
        full = name if "." in name or not space else f"{space}.{name}"
        full = full if full in self.named else name
        if full not in self.named:
            why = "it stands in unions only" if name == "null" else "there is no such type"
            raise _refuse(f"field '{path}' has the type {str(name)[:100]!r}: {why}")
        node = self.named[full]
        if node is None:
            raise _refuse(f"field '{path}' holds the type {full} inside of itself, for which there is no column")
        self._count(self.counts[full], path)
        return node

    def _count(self, types: int, path: str) -> None:
        """SUBTLE: 40 records that each hold the one before them twice are 2^40 columns."""
        self.count += types
        if self.count > _MOST_TYPES:
            raise _refuse(
                f"it has more than {_MOST_TYPES} types up to field '{path}', those with names counted wherever they "
                "are meant; give a schema with the fields that the table has"
            )


def _to_decimal(found: Mapping[str, Any], path: str) -> pa.DataType:
    precision, scale = found.get("precision"), found.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision <= _MAX_DIGITS:
        raise _refuse(
            f"field '{path}' is a decimal of precision {precision} and scale {scale}; at most {_MAX_DIGITS} digits are "
            "possible, of them so many behind the point as there are at most"
        )
    return pa.decimal128(max(precision, 1), scale)


def _refuse(what: str) -> InvalidArgument:
    return InvalidArgument(f"The Avro schema cannot be used: {what}.", reason="INVALID_AVRO_SCHEMA")
