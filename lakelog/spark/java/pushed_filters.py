"""The conditions that Spark pushes into a scan, as conditions of lakelog, which exclude files. Pure.

Spark evaluates its conditions itself, so a part that has no certain meaning here is left out.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

from lakelog.format.filter.parameters import to_constant

_COMPARED: Final = {
    "EqualTo": "=",
    "EqualNullSafe": "<=>",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
}
_MOST_VALUES: Final = 10_000
"""A longer list of IN excludes few files, and takes long to parse."""

_VALUES: Final[dict[str, Callable[[str], object]]] = {
    "Boolean": lambda text: text == "true",
    "Byte": int,
    "Short": int,
    "Integer": int,
    "Long": int,
    "Double": float,
    "BigDecimal": Decimal,
    "String": str,
    "UTF8String": str,
    "Date": dt.date.fromisoformat,
    "LocalDate": dt.date.fromisoformat,
    "Instant": dt.datetime.fromisoformat,
    "LocalDateTime": dt.datetime.fromisoformat,
}
"""By the Java class of a value. SUBTLE: a float is left out: its text is not the double that it is compared as."""


class _Unknown(Exception):
    """A part without a certain meaning."""


def to_condition(filters: Sequence[Any]) -> str | None:
    """The condition that rows of all these filters fulfil; None: there is none.

    Args:
        filters: As `Driver.java` writes them: `["EqualTo", {"class": "String", "text": "id"}, {"class": ..}]`.
    """
    return _all_known(filters)


def to_exact_condition(filters: Sequence[Any]) -> str | None:
    """The condition that exactly the rows of all these filters fulfil; None: a part has no certain meaning here."""
    try:
        known = [_exact(each) for each in filters if each != ["AlwaysTrue"]]
    except (_Unknown, ValueError, ArithmeticError):
        return None
    return " AND ".join(f"({each})" for each in known) or "TRUE"


def to_value(given: Any) -> object:
    """A value of a filter; that of a class without one here is its text."""
    return None if given["class"] == "Null" else _VALUES.get(given["class"], str)(given["text"])


def _all_known(filters: Sequence[Any]) -> str | None:
    known = []
    for each in filters:
        try:
            text = _conjunction(each)
        except (_Unknown, ValueError, ArithmeticError):
            continue
        if text is not None:
            known.append(f"({text})")
    return " AND ".join(known) or None


def _conjunction(given: Any) -> str | None:
    """A condition, of which parts that AND adds may be left out."""
    return _all_known(given[1:]) if given[0] == "And" else _exact(given)


def _exact(given: Any) -> str:
    kind, *arguments = given
    if kind in _COMPARED:
        return f"{_column(arguments[0])} {_COMPARED[kind]} {_constant(arguments[1])}"
    if kind in ("And", "Or"):
        return f"({_exact(arguments[0])}) {kind.upper()} ({_exact(arguments[1])})"
    if kind == "Not":
        return f"NOT ({_exact(arguments[0])})"
    if kind in ("IsNull", "IsNotNull"):
        return f"{_column(arguments[0])} IS {'NOT ' if kind == 'IsNotNull' else ''}NULL"
    if kind == "In" and 0 < len(arguments[1]) <= _MOST_VALUES:
        return f"{_column(arguments[0])} IN ({', '.join(map(_constant, arguments[1]))})"
    raise _Unknown


def _column(given: Any) -> str:
    # Spark quotes the parts of a name that are no plain words; lakelog has reserved words, too.
    name = str(given["text"])
    return name if "`" in name else ".".join(f"`{part}`" for part in name.split("."))


def _constant(given: Any) -> str:
    if given["class"] not in _VALUES:
        raise _Unknown
    return to_constant(to_value(given), "value").strip()
