"""Translates pyarrow expressions exactly into SQL conditions, or refuses them. Pure.

pyarrow does not expose the structure of an expression, but pickles it: as a record batch of its constants, whose
schema's metadata are its words in order (`call`, `field_ref`, `literal`, `options`, `end`). This module reads these
words. Comparisons have their meaning in SQL: with NULL they are NULL, and NaN equals NaN and is the largest number.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import InvalidArgument
from lakelog.format.filter.parameters import to_constant

_JOINS: Final = {
    "equal": "=",
    "not_equal": "<>",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "and_kleene": "AND",
    "or_kleene": "OR",
}
_PATTERNS: Final = {"starts_with": "{}%", "ends_with": "%{}", "match_substring": "%{}%"}
_SUPPORTED: Final = "comparisons, & | ~, is_null, is_valid, isin, starts_with, ends_with and match_substring of columns"
_MATCH: Final = 0
_SKIP: Final = 1


def to_sql_condition(expression: pc.Expression) -> str:
    """Returns the SQL condition that selects the same rows.

    Raises:
        InvalidArgument: A part of it cannot be translated; names it.
    """
    try:
        batch = pa.ipc.open_file(expression.__reduce__()[1][0]).get_batch(0)
        return _write(_read_words(batch.schema), batch)
    except pa.ArrowNotImplementedError:
        _refuse("a column that is named by its place instead of its name")


def _read_words(schema: pa.Schema) -> list[tuple[str, str]]:
    """The schema's metadata with all entries of one name, which pyarrow's own dict loses.

    It reads them from the Arrow C data interface, whose layout is fixed: the third pointer of the struct points to the
    number of pairs, and to lengths and bytes of each key and value.
    """
    capsule = schema.__arrow_c_schema__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = (ctypes.c_void_p * 3).from_address(pointer(capsule, b"arrow_schema"))[2]
    if not address:
        return []
    place = int(address)

    def take_number() -> int:
        nonlocal place
        place += 4
        return ctypes.c_int32.from_address(place - 4).value

    def take_text() -> str:
        nonlocal place
        length = take_number()
        place += length
        return ctypes.string_at(place - length, length).decode()

    return [(take_text(), take_text()) for _ in range(take_number())]


def _write(words: Iterable[tuple[str, str]], constants: pa.RecordBatch) -> str:
    """Writes the words as SQL. Open calls are on a stack, since expressions in a chain are nested by thousands."""
    stack: list[_Call] = [_Call("")]
    path: list[str] = []
    left_of_path = 1
    for kind, value in words:
        if kind == "call":
            stack.append(_Call(value))
        elif kind == "options":
            options = constants.column(int(value))[0]
            stack[-1].options = {name: each for name, each in options.items() if name != "_type_name"}
        elif kind == "nested_field_ref":
            left_of_path = int(value)
        elif kind == "field_ref":
            path.append("`" + value.replace("`", "``") + "`")
            if len(path) == left_of_path:
                stack[-1].arguments.append(_Part(".".join(path)))
                path, left_of_path = [], 1
        elif kind == "literal":
            stack[-1].arguments.append(_Part(_to_text(constants.column(int(value))[0])))
        elif kind == "end":
            part = stack.pop().write()
            stack[-1].arguments.append(part)
        else:
            _refuse(f"a {kind}")
    return stack[0].arguments[0].text


@dataclass(frozen=True)
class _Part:
    """A part of a condition.

    Args:
        text: The part in SQL.
        joined_by: AND or OR if it is a chain of these, which needs no parentheses inside the same chain.
    """

    text: str
    joined_by: str = ""

    def within(self, operator: str) -> str:
        """The part as an operand of an operator that joins several."""
        return f"({self.text})" if self.joined_by and self.joined_by != operator else self.text


@dataclass
class _Call:
    """A function with the arguments read so far."""

    name: str
    arguments: list[_Part] = field(default_factory=list)
    options: Mapping[str, pa.Scalar] = field(default_factory=dict)

    def write(self) -> _Part:
        """Writes it as SQL when its arguments are complete."""
        operator = _JOINS.get(self.name)
        if operator is not None:
            left, right = (each.within(operator) for each in self.arguments)
            joined = f"{left} {operator} {right}"
            return _Part(joined, operator) if operator in ("AND", "OR") else _Part(f"({joined})")
        write = _CALLS.get(self.name)
        if write is None:
            _refuse(f"'{self.name}'")
        return _Part(write(self.arguments[0].within(""), self.options, self.name))


def _to_text(scalar: pa.Scalar) -> str:
    try:
        return to_constant(scalar, "the expression")
    except (InvalidArgument, ValueError, OverflowError):
        _refuse(f"a value of type {scalar.type}")


def _write_is_null(operand: str, options: Mapping[str, pa.Scalar], name: str) -> str:
    if options and options["nan_is_null"].as_py():
        _refuse("is_null(nan_is_null=True)")
    return f"({operand} IS NULL)"


def _write_is_in(operand: str, options: Mapping[str, pa.Scalar], name: str) -> str:
    # pyarrow's is_in is never NULL: a NULL is in the values, or it is not.
    values = options["value_set"].values
    behavior = options["null_matching_behavior"].as_py()
    if behavior not in (_MATCH, _SKIP):
        _refuse("this kind of is_in")
    listed = ",".join(_to_text(value) for value in values.drop_null())
    is_any = f"{operand} IN ({listed})" if listed else "FALSE"
    if values.null_count and behavior == _MATCH:
        return f"({operand} IS NULL OR {is_any})"
    return f"({operand} IS NOT NULL AND {is_any})"


def _write_like(operand: str, options: Mapping[str, pa.Scalar], name: str) -> str:
    if options["ignore_case"].as_py():
        _refuse(f"{name}(ignore_case=True)")
    text = options["pattern"].as_py()
    for special in ("\\", "%", "_"):
        text = text.replace(special, "\\" + special)
    return f"({operand} LIKE {to_constant(_PATTERNS[name].format(text), name)})"


_CALLS: Final[Mapping[str, Callable[[str, Mapping[str, pa.Scalar], str], str]]] = {
    "invert": lambda operand, options, name: f"(NOT {operand})",
    "is_valid": lambda operand, options, name: f"({operand} IS NOT NULL)",
    "is_null": _write_is_null,
    "is_in": _write_is_in,
    **dict.fromkeys(_PATTERNS, _write_like),
}


def _refuse(what: str) -> NoReturn:
    raise InvalidArgument(
        f"The filter cannot be used: its expression has {what}, which has no condition of SQL of the same meaning "
        f"here. Possible are {_SUPPORTED}. Else give the condition as SQL text.",
        reason="FILTER_INVALID",
        metadata={"field": "filter"},
    )
