"""The arguments of a procedure: by name or by place, each with its type. Pure."""

from __future__ import annotations

import difflib
import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from pyarrow import types as pt

from lakelog.format.filter.binding import bind_constant
from lakelog.format.filter.syntax import Syntax
from lakelog.format.filter.tokens import Source
from lakelog.format.filter.tree import Constant
from lakelog.sql.statements import Call
from lakelog.time_parsing import parse_timestamp

_US_PER_MS: Final = 1000


class Kind(enum.Enum):
    """The type of an argument; the value names it for people."""

    TEXT = "a text in quotes"
    WHOLE = "a whole number, 0 or more"
    FLAG = "true or false"
    TIME = "a time, as '2024-05-01 12:00:00' (UTC unless it says otherwise) or in milliseconds since 1970"
    VERSION = "a snapshot's number, or a tag in quotes"


@dataclass(frozen=True)
class Parameter:
    """A parameter of a procedure."""

    name: str
    kind: Kind
    required: bool = False


def read_arguments(call: Call, parameters: Sequence[Parameter]) -> dict[str, Any]:
    """The values by the parameters' names, without those that were not given or were NULL. Pure.

    Times are milliseconds since the epoch.

    Raises:
        InvalidArgument: An argument is unknown, given twice or missing, or its value does not fit; shows the place.
    """
    by_name = {parameter.name: parameter for parameter in parameters}
    known = ", ".join(_describe(parameter) for parameter in parameters)
    found: dict[str, Any] = {}
    seen: set[str] = set()
    for place, argument in enumerate(call.arguments):
        if not argument.name and place >= len(parameters):
            call.source.fail(argument.start, f"sys.{call.name} takes {len(parameters)} at most: {known}.")
        name = argument.name.lower() or parameters[place].name
        if name not in by_name:
            near = difflib.get_close_matches(name[:80], by_name, n=1)
            meant = f"Did you mean {near[0]}? " if near else ""
            call.source.fail(
                argument.start, f"sys.{call.name} takes no '{argument.name[:80]}'. {meant}It takes {known}."
            )
        if name in seen:
            call.source.fail(argument.start, f"'{name}' is given twice. Give it once.")
        seen.add(name)
        value = _read(call.source, argument.value, by_name[name])
        if value is not None:
            found[name] = value
    missing = [each.name for each in parameters if each.required and each.name not in found]
    if missing:
        call.source.fail(
            call.start, f"sys.{call.name} needs {' and '.join(missing)}. It takes {known}.", "MISSING_ARGUMENT"
        )
    return found


def _describe(parameter: Parameter) -> str:
    return parameter.name if parameter.required else f"[{parameter.name}]"


def _read(source: Source, syntax: Syntax, parameter: Parameter) -> Any:
    constant = bind_constant(source, syntax)
    if constant.value is None:
        return None
    try:
        return _coerce(constant, parameter.kind)
    except ValueError as error:
        _refuse(source, syntax, f"{parameter.name} is {parameter.kind.value}. {error}.")


def _refuse(source: Source, syntax: Syntax, explanation: str) -> NoReturn:
    source.fail(syntax.start, explanation, "VALUE_MISMATCH")


def _coerce(constant: Constant, kind: Kind) -> Any:
    """A value as Python has it; if it does not fit, the ValueError says what to do."""
    value, data_type = constant.value, constant.type
    is_text, is_whole = pt.is_string(data_type), pt.is_integer(data_type)
    if kind is Kind.TIME and pt.is_timestamp(data_type):
        return int(str(value)) // _US_PER_MS
    if kind is Kind.TIME and is_text:
        return parse_timestamp(str(value)) // _US_PER_MS
    fits = {
        Kind.TEXT: is_text,
        Kind.WHOLE: is_whole and int(str(value)) >= 0,
        Kind.FLAG: pt.is_boolean(data_type),
        Kind.TIME: is_whole,
        Kind.VERSION: is_text or is_whole,
    }
    if not fits[kind]:
        raise ValueError("Give one")
    return value
