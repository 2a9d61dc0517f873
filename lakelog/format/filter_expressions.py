"""Expressions of pyarrow as conditions of SQL: translated exactly, or refused. Pure.

pyarrow shows nothing of what an expression is made of, but pickles it: as a record batch of its constants, whose
schema's metadata are its words in order (`call`, `field_ref`, `literal`, `options`, `end`). These words are read here.
Comparisons mean what they mean in SQL: with NULL they are NULL, and NaN equals NaN and is the largest number.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Final, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import InvalidArgument
from lakelog.format.filter_parameters import to_constant

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
        InvalidArgument: It has a part that is not translated; names it.
    """
    try:
        batch = pa.ipc.open_file(expression.__reduce__()[1][0]).get_batch(0)
        return _Words(_read_words(batch.schema), batch).take()
    except pa.ArrowNotImplementedError:
        _refuse("a column that is named by its place instead of its name")
    except RecursionError:
        _refuse("more levels than can be read")


def _read_words(schema: pa.Schema) -> list[tuple[str, str]]:
    """The schema's metadata with all that stand under one name, which pyarrow's own dict loses.

    Read from the Arrow C data interface, whose layout is fixed: the third pointer of the struct leads to the count of
    pairs, and lengths and bytes of each key and value.
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


class _Words:
    def __init__(self, words: list[tuple[str, str]], constants: pa.RecordBatch) -> None:
        self._words = words
        self._constants = constants
        self._next = 0

    def take(self) -> str:
        """The next part."""
        kind, value = self._take_word()
        if kind == "literal":
            return _to_text(self._constants.column(int(value))[0])
        if kind == "field_ref":
            return _to_name(value)
        if kind == "nested_field_ref":
            return ".".join(_to_name(self._take_word()[1]) for _ in range(int(value)))
        if kind != "call":
            _refuse(f"a {kind}")
        return self._call(value)

    def _call(self, name: str) -> str:
        arguments: list[str] = []
        options: Mapping[str, object] = {}
        while self._words[self._next][0] != "end":
            if self._words[self._next][0] == "options":
                options = self._options(int(self._take_word()[1]))
            else:
                arguments.append(self.take())
        self._take_word()
        if name in _JOINS:
            left, right = arguments
            return f"({left} {_JOINS[name]} {right})"
        write = _CALLS.get(name)
        if write is None:
            _refuse(f"'{name}'")
        return write(arguments[0], options, name)

    def _options(self, column: int) -> Mapping[str, object]:
        scalar = self._constants.column(column)[0]
        return {name: value for name, value in scalar.items() if name != "_type_name"}

    def _take_word(self) -> tuple[str, str]:
        self._next += 1
        return self._words[self._next - 1]


def _to_name(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


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
