"""Converts users' arguments to the values that lakelog works with."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Any, Final, get_args

import numpy as np
import pyarrow as pa

from lakelog.errors import InvalidArgument
from lakelog.format.tables.table import TableName
from lakelog.format.types.column_changes import ColumnChange
from lakelog.options.tag_name import find_tag_problem
from lakelog.time_parsing import parse_timestamp

MAX_NUMBER: Final = 2**63 - 1
"""The largest whole number that the metastore stores."""

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def to_epoch_ms(value: Any, name: str) -> int:
    """Returns a point in time in milliseconds since the epoch, rounded down. Pure.

    Args:
        value: A datetime with a time zone; a text such as `2024-05-01T12:00:00+02:00`, which is UTC if it names no
            zone, as in SQL; a date, which means its first moment in UTC; or whole milliseconds since the epoch.
        name: The argument, for the message.

    Raises:
        InvalidArgument: It is none of these; a datetime without a time zone would mean another time on each machine.
    """
    if isinstance(value, dt.datetime):
        if value.tzinfo is None:
            raise InvalidArgument(
                f"{name}={value.isoformat()} has no time zone. Add one, for instance "
                ".replace(tzinfo=datetime.timezone.utc).",
                metadata={"field": name},
            )
        return (value - _EPOCH) // dt.timedelta(milliseconds=1)
    if isinstance(value, int) and not isinstance(value, bool) and -MAX_NUMBER <= value <= MAX_NUMBER:
        return value
    if isinstance(value, dt.date):
        return (value - _EPOCH.date()) // dt.timedelta(milliseconds=1)
    why = ""
    if isinstance(value, str) and not value.strip().isdecimal():
        try:
            return parse_timestamp(value) // 1000
        except ValueError as error:
            why = f" ({error})"
    raise InvalidArgument(
        f"{name}={value!r:.80} is no point in time{why}: give a datetime with a time zone, a date, a text such as "
        f"'2024-05-01T12:00:00Z', or whole milliseconds since the epoch{_at_most(value)}.",
        metadata={"field": name},
    )


def check_snapshot_id(value: object, name: str) -> None:
    """Raises InvalidArgument unless the value is a snapshot's id, or 0 for the time before the first snapshot."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_NUMBER:
        raise InvalidArgument(
            f"{name}={value!r:.80} is no snapshot id: give a whole number, 0 or more{_at_most(value)}.",
            metadata={"field": name},
        )


def check_snapshot(value: object, name: str) -> None:
    """Raises InvalidArgument unless the value is a snapshot's id."""
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_NUMBER:
        raise InvalidArgument(
            f"{name}={value!r:.80} is no snapshot: these are numbered from 1{_at_most(value)}; see snapshots().",
            metadata={"field": name},
        )


def check_flag(value: object, name: str) -> None:
    """Raises InvalidArgument unless the value is True or False: a text such as 'no' would count as true."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidArgument(
            f"{name}={value!r:.80} is neither True nor False. Give one of them.", metadata={"field": name}
        )


def check_text(value: object, name: str, example: str) -> None:
    """Raises InvalidArgument unless the value is a text.

    Args:
        value: The value from the user.
        name: The argument, for the message.
        example: An allowed value, for the message.
    """
    if not isinstance(value, str):
        raise InvalidArgument(
            f"{name}={value!r:.80} is no text: give one in quotes, for instance {example!r}.", metadata={"field": name}
        )


def check_tag(value: object, name: str) -> None:
    """Raises InvalidArgument unless the value is a valid name of a tag."""
    check_text(value, name, "release-1")
    problem = find_tag_problem(str(value))
    if problem is not None:
        raise InvalidArgument(f"{name}={value!r:.80} is no name of a tag. {problem}", metadata={"field": name})


def to_list(values: Any, name: str, what: str) -> list[Any]:
    """Returns several values from the user as a list; InvalidArgument for a single one.

    Args:
        values: Any iterable except a text.
        name: The argument, for the message.
        what: What they are, for the message, for instance `column names`.
    """
    if isinstance(values, str):
        raise InvalidArgument(
            f"{name}={values!r:.80} is one text: give a list of {what}, here perhaps [{values!r:.80}].",
            metadata={"field": name},
        )
    if isinstance(values, bytes | Mapping) or not isinstance(values, Iterable):
        raise _no_list(values, name, what)
    return list(values)


def to_texts(values: Any, name: str, what: str) -> tuple[str, ...]:
    """Returns several texts; InvalidArgument for a single one and for other values. Arguments as in `to_list`."""
    texts = to_list(values, name, what)
    if not all(isinstance(each, str) for each in texts):
        raise _no_list(texts, name, what)
    return tuple(texts)


def to_column_changes(values: Any) -> tuple[ColumnChange, ...]:
    """Returns changes of columns; InvalidArgument for anything else."""
    changes = tuple(values) if isinstance(values, Iterable) and not isinstance(values, str) else (values,)
    wrong = [each for each in changes if not isinstance(each, get_args(ColumnChange))]
    if wrong:
        raise InvalidArgument(
            f"columns holds {wrong[0]!r:.80}, which is no change of a column: give a list of lakelog.AddColumn, "
            "DropColumn, RenameColumn, MoveColumn, WidenColumn, AllowNull, CommentColumn or SetDefault.",
            metadata={"field": "columns"},
        )
    return changes


def _no_list(values: object, name: str, what: str) -> InvalidArgument:
    return InvalidArgument(f"{name}={values!r:.80} is no list of {what}: give one, of texts.", metadata={"field": name})


def _at_most(value: object) -> str:
    """If the value is too large, the largest possible one."""
    return f" and at most {MAX_NUMBER}" if isinstance(value, int) and value > MAX_NUMBER else ""


def parse_table_name(name: str) -> TableName:
    """Splits `database.table`. Pure.

    Raises:
        InvalidArgument: It has another form. The metastore decides whether the parts are allowed.
    """
    database, dot, table = name.partition(".") if isinstance(name, str) else ("", "", "")
    if not dot or not database or not table or "." in table:
        catalog, *rest = name.split(".") if isinstance(name, str) else [""]
        other = ""
        if len(rest) == 2 and all((catalog, *rest)):
            other = (
                f" If '{catalog:.80}' is another catalog, connect to it: catalog.catalog('{catalog:.80}'), or lakelog "
                f"--catalog {catalog:.80}."
            )
        raise InvalidArgument(
            f"{name!r:.200} is no table's name: write database.table, for instance 'shop.orders'.{other}",
            metadata={"field": "name"},
        )
    return TableName(database, table)


def to_schema(schema: Any) -> pa.Schema:
    """Returns a pyarrow schema from anything with the Arrow C schema interface; InvalidArgument for other things."""
    if isinstance(schema, pa.Schema):
        return schema
    try:
        return pa.schema(schema)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidArgument(
            f"A {type(schema).__name__} is no schema: give a pyarrow.schema([...]).", metadata={"field": "schema"}
        ) from error


def to_option_texts(options: Mapping[str, Any]) -> dict[str, str]:
    """Options as text, from numbers, booleans, times and texts; InvalidArgument for other values."""
    if not isinstance(options, Mapping):
        raise InvalidArgument(
            f"options={options!r:.80} is a {type(options).__name__}: give a dict of values by key, as "
            "{'bucket': '4'}.",
            metadata={"field": "options"},
        )
    texts: dict[str, str] = {}
    for key, value in options.items():
        if isinstance(value, bool):
            texts[str(key)] = "true" if value else "false"
        elif isinstance(value, str | int):
            texts[str(key)] = str(value)
        elif isinstance(value, dt.date) and str(key).endswith("-millis"):
            texts[str(key)] = str(to_epoch_ms(value, str(key)))
        else:
            raise InvalidArgument(
                f"Option '{key}' is a {type(value).__name__}: give its value as text.", metadata={"option": str(key)}
            )
    return texts
