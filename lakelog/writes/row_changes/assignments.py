"""New values of columns, as users give them, become expressions; what can never fit is refused. Pure."""

from __future__ import annotations

import datetime as dt
import difflib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from lakelog.annotations import Parameters
from lakelog.errors import InvalidArgument
from lakelog.format.filter.parameters import bind_parameters, find_parameters
from lakelog.format.filter.tokens import Source
from lakelog.format.tables.table import TableInfo
from lakelog.format.types.cast import cast_batch
from lakelog.format.types.defaults import write_default
from lakelog.options.declared.tables import SEQUENCE_FIELD
from lakelog.options.values import TableOptions
from lakelog.writes.row_changes.clauses import Assignments, ColumnDefault, Literal
from lakelog.writes.row_changes.expressions import Constant, Expression, Side, bind_expression

KEY_UPDATED: Final = "KEY_UPDATED"
"""The reason of an error about a column whose value decides which row it is, or where it lies."""


def bind_assignments(
    info: TableInfo, given: Assignments, sides: Sequence[Side], place: str, params: Parameters | None
) -> Mapping[str, Expression]:
    """Returns the new values by column of the table.

    Args:
        info: The table.
        given: As the user gave them: a text is an SQL expression, every other value is itself.
        sides: What names in expressions can mean.
        place: The clause or the call, for messages.
        params: Values of `:name` parameters; those that a text does not have are left out.

    Raises:
        InvalidArgument: A column does not exist or is named twice, or its value is not possible; named.
    """
    bound: dict[str, Expression] = {}
    for name, value in given.items():
        field = find_field(info, name)
        if field.name in bound:
            raise InvalidArgument(
                f"{place} gives column '{field.name}' two values. Name each column once.",
                metadata={"column": field.name},
            )
        if isinstance(value, str):
            where = f"'{field.name}' in {place}"
            bound[field.name] = bind_expression(bind_known(value, params), sides, where, field.type)
        elif isinstance(value, ColumnDefault):
            bound[field.name] = default_of(info, field)
        else:
            plain = value.value if isinstance(value, Literal) else value
            bound[field.name] = Constant(_to_scalar(plain, field, info))
    return bound


def default_of(info: TableInfo, field: pa.Field) -> Constant:
    """What a write stores that leaves a column out.

    Raises:
        InvalidArgument: The column has no default and is NOT NULL.
    """
    value = write_default(field)
    if value is None and not field.nullable:
        raise InvalidArgument(
            f"Column '{field.name}' of {info.name} has no default, and it is NOT NULL. Give it a value.",
            reason="SCHEMA_MISMATCH",
            metadata={"table": str(info.name), "column": field.name},
        )
    return Constant(pa.scalar(None, field.type) if value is None else value)


def bind_known(text: str, params: Parameters | None) -> str:
    """A text with its `:name` parameters as constants, if values are given at all.

    Raises:
        InvalidArgument: A name has no value, or a value cannot be used.
    """
    if params is None:
        return text
    source = Source(text)
    return bind_parameters(source, {name: value for name, value in params.items() if name in find_parameters(source)})


def check_params_used(texts: Sequence[str | None], params: Parameters | None) -> None:
    """Raises InvalidArgument if a parameter has a value but no place in any of the texts."""
    if params is None:
        return
    used = {name for text in texts if text is not None for name in find_parameters(Source(text))}
    unused = [str(name) for name in params if name not in used]
    if unused:
        raise InvalidArgument(
            f"No condition and no expression has a place for the value of :{unused[0]:.80}. Write the name with a "
            "colon where the value belongs, or leave it out of params.",
            reason="PARAMETER_UNUSED",
            metadata={"field": "params", "parameter": unused[0]},
        )


def find_field(info: TableInfo, name: str) -> pa.Field:
    """The table's column of a name, whose case does not count.

    Raises:
        InvalidArgument: There is none; names the nearest ones.
    """
    folded = name.casefold()
    for field in info.schema.arrow:
        if field.name.casefold() == folded:
            return field
    known = info.schema.arrow.names
    near = difflib.get_close_matches(name[:200], known, n=3, cutoff=0.5) or known[:20]
    raise InvalidArgument(
        f"Table {info.name} has no column '{name:.200}'; near it are {', '.join(near)}.",
        reason="UNKNOWN_COLUMN",
        metadata={"column": name[:200]},
    )


def check_updated_columns(info: TableInfo, names: Sequence[str], place: str) -> None:
    """Checks that an update leaves the columns alone that say which row it is.

    Raises:
        InvalidArgument: In a table with a primary key, one is of the key, a partition column, or of `sequence.field`.
    """
    if not info.schema.primary_key:
        return
    sequence = TableOptions(info.options).get(SEQUENCE_FIELD)
    for name in names:
        if name in info.schema.primary_key:
            what = "part of the primary key" if name not in info.schema.partition_by else "a partition column"
            remedy = "Delete the row and insert one of the new key, in one transaction"
        elif name in sequence:
            what = "part of 'sequence.field', which decides which row of a key counts"
            remedy = "Write the row with its new sequence value: INSERT INTO, table.upsert(rows)"
        else:
            continue
        raise InvalidArgument(
            f"Column '{name}' of {info.name} cannot be updated ({place}): it is {what}. {remedy}.",
            reason=KEY_UPDATED,
            metadata={"table": str(info.name), "column": name},
        )


def _to_scalar(value: Any, field: pa.Field, info: TableInfo) -> pa.Scalar:
    if isinstance(value, dt.datetime) and value.tzinfo is None and getattr(field.type, "tz", None):
        value = value.replace(tzinfo=dt.UTC)
    plain = field.remove_metadata()
    try:
        given = pa.array([value], field.type) if pa.types.is_nested(field.type) else pa.array([value])
        row = pa.RecordBatch.from_arrays([given], names=[field.name])
        return cast_batch(row, pa.schema([plain])).column(0)[0]
    except (pa.ArrowException, TypeError, ValueError, OverflowError, InvalidArgument) as error:
        kind = f"{field.type}{'' if field.nullable else ' NOT NULL'}"
        raise InvalidArgument(
            f"{value!r:.80} is no value for column '{field.name}' of {info.name}, which is {kind}. Give one that the "
            "column can hold without loss.",
            reason="VALUE_MISMATCH",
            metadata={"table": str(info.name), "column": field.name},
        ) from error
