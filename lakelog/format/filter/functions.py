"""The functions and arithmetic of filters, with Spark's meaning, and the types of their results.

Arithmetic never fails on single rows: integers are computed with 64 bits and wrap around, and division by zero gives
NULL, as in Spark without ANSI mode. Upper and lower case are mapped character by character.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa
from pyarrow import types as pt

from lakelog.format.filter.tree import AllOf, Call, Constant, IsNull, Matches, Node
from lakelog.format.filter.types import as_decimal_type, can_cast, cast_node, common_type, family, type_name

_SAME_FUNCTION: Final = {
    "char_length": "length",
    "character_length": "length",
    "len": "length",
    "lcase": "lower",
    "ucase": "upper",
    "dayofmonth": "day",
    "substr": "substring",
    "ifnull": "coalesce",
    "nvl": "coalesce",
}


def bind_call(name: str, arguments: Sequence[Node]) -> Node | None:
    """Binds a call of a function; None if there is no such function. Pure.

    Raises:
        ValueError: Wrong arguments; says which ones it accepts.
    """
    function = _SAME_FUNCTION.get(name.lower(), name.lower())
    known = _FUNCTIONS.get(function)
    if known is None:
        return None
    first, last, bind = known
    if not first <= len(arguments) <= last:
        raise ValueError(
            f"{name} takes {first if first == last else f'{first} or more'} arguments, not {len(arguments)}"
        )
    if pt.is_null(arguments[0].type) and function not in ("coalesce", "isnull", "isnotnull"):
        return Constant(None, pa.null())
    return bind(function, arguments)


def list_functions() -> list[str]:
    """Names of all functions, including synonyms, sorted."""
    return sorted([*_FUNCTIONS, *_SAME_FUNCTION])


def bind_arithmetic(operator: str, left: Node, right: Node) -> Node:
    """`+ - * / % DIV` of two numbers. Pure.

    Raises:
        ValueError: They are not numbers, or of types whose result has more than 38 digits.
    """
    for operand in (left, right):
        if family(operand.type) not in ("number", "null"):
            raise ValueError(f"{operator} takes numbers, and here stands a value of type {type_name(operand.type)}")
    if pt.is_null(left.type) or pt.is_null(right.type):
        return Constant(None, pa.null())
    whole = pt.is_integer(left.type) and pt.is_integer(right.type)
    if operator in ("%", "DIV"):
        if not whole:
            raise ValueError(f"{operator} takes whole numbers here. Cast other numbers, or compare them directly")
        return Call("remainder" if operator == "%" else "divide_whole", _cast_all(pa.int64(), left, right), pa.int64())
    floating = pt.is_floating(left.type) or pt.is_floating(right.type)
    if operator == "/":
        if not whole and not floating:
            raise ValueError("/ takes no decimals here. Cast one of them to DOUBLE")
        return Call("divide", _cast_all(pa.float64(), left, right), pa.float64())
    if whole or floating:
        data_type = pa.int64() if whole else pa.float32() if left.type == right.type == pa.float32() else pa.float64()
        return Call(operator, _cast_all(data_type, left, right), data_type)
    return _decimal_arithmetic(operator, left, right)


def bind_negation(operand: Node) -> Node:
    """`-` before a number. Pure.

    Raises:
        ValueError: It is not a number.
    """
    if pt.is_null(operand.type):
        return operand
    if family(operand.type) != "number":
        raise ValueError(f"- takes a number, and here stands a value of type {type_name(operand.type)}")
    return _widened("negate", operand)


def common_type_of(nodes: Sequence[Node]) -> pa.DataType:
    """The type to which all can be cast; NULL's type if all are NULL.

    Raises:
        ValueError: There is none.
    """
    result = pa.null()
    for node in nodes:
        if pt.is_null(node.type):
            continue
        found = node.type if pt.is_null(result) else common_type(result, node.type)
        if found is None:
            raise ValueError(f"Values of the types {type_name(result)} and {type_name(node.type)} do not go together")
        result = found
    return result


def _widened(function: str, operand: Node) -> Node:
    data_type = pa.int64() if pt.is_integer(operand.type) else operand.type
    return Call(function, _cast_all(data_type, operand), data_type)


def _cast_all(data_type: pa.DataType, *nodes: Node) -> tuple[Node, ...]:
    return tuple(cast_node(node, data_type) for node in nodes)


def _decimal_arithmetic(operator: str, left: Node, right: Node) -> Node:
    a, b = _decimal_type_of(left), _decimal_type_of(right)
    if operator == "*":
        precision, scale = a.precision + b.precision + 1, a.scale + b.scale
    else:
        scale = max(a.scale, b.scale)
        precision = max(a.precision - a.scale, b.precision - b.scale) + scale + 1
    if precision > 38:
        raise ValueError(
            f"{type_name(left.type)} {operator} {type_name(right.type)} has up to {precision} digits, more than the 38 "
            "that a decimal can have. Cast one of them to DOUBLE"
        )
    return Call(operator, (cast_node(left, a), cast_node(right, b)), pa.decimal128(precision, scale))


def _decimal_type_of(node: Node) -> pa.DataType:
    if isinstance(node, Constant) and isinstance(node.value, int):
        # An integer constant counts with the digits that it has, not with those of its type.
        return pa.decimal128(len(str(abs(node.value))), 0)
    return as_decimal_type(node.type)


def _text_function(function: str, arguments: Sequence[Node]) -> Node:
    _require(function, arguments[0], "text")
    return Call(function, tuple(arguments), pa.string())


def _length(function: str, arguments: Sequence[Node]) -> Node:
    if not pt.is_binary(arguments[0].type):
        _require(function, arguments[0], "text")
    return Call(function, tuple(arguments), pa.int32())


def _absolute(function: str, arguments: Sequence[Node]) -> Node:
    _require(function, arguments[0], "number")
    return _widened(function, arguments[0])


def _part_of_date(function: str, arguments: Sequence[Node]) -> Node:
    _require(function, arguments[0], "time")
    return Call(function, tuple(arguments), pa.int32())


def _substring(function: str, arguments: Sequence[Node]) -> Node:
    _require(function, arguments[0], "text")
    numbers = [node.value if isinstance(node, Constant) else None for node in arguments[1:]]
    if not all(isinstance(number, int) and not isinstance(number, bool) for number in numbers):
        raise ValueError("substring takes a text, a constant position that counts from 1, and a constant length")
    position = int(str(numbers[0]))
    length = int(str(numbers[1])) if len(numbers) > 1 else None
    start = position - 1 if position > 0 else position
    stop = None if length is None else start + max(length, 0)
    if start < 0 and stop is not None and stop >= 0:
        # A start that is counted from the end.
        stop = None
    return Call("substring", (arguments[0],), pa.string(), (start, stop))


def _coalesce(function: str, arguments: Sequence[Node]) -> Node:
    data_type = common_type_of(arguments)
    if pt.is_null(data_type):
        return Constant(None, data_type)
    for node in arguments:
        if not isinstance(node, Constant) and not can_cast(node.type, data_type):
            raise ValueError(f"A value of type {type_name(node.type)} cannot be brought to {type_name(data_type)}")
    return Call(function, _cast_all(data_type, *arguments), data_type)


def _fixed_match(function: str, arguments: Sequence[Node]) -> Node:
    _require(function, arguments[0], "text")
    pattern = arguments[1]
    if not isinstance(pattern, Constant) or not isinstance(pattern.value, str):
        raise ValueError(f"{function} takes a text and a constant text")
    kinds = {"startswith": "starts", "endswith": "ends", "contains": "contains"}
    return Matches(arguments[0], kinds[function], pattern.value)


def _is_null(function: str, arguments: Sequence[Node]) -> Node:
    return IsNull(arguments[0], negated=function == "isnotnull")


def _is_nan(function: str, arguments: Sequence[Node]) -> Node:
    if not pt.is_floating(arguments[0].type):
        raise ValueError(f"isnan takes a FLOAT or a DOUBLE, not a value of type {type_name(arguments[0].type)}")
    # False for NULL, unlike a comparison with NaN.
    return AllOf((IsNull(arguments[0], negated=True), Call(function, tuple(arguments), pa.bool_())))


def _require(function: str, node: Node, wanted: str) -> None:
    if family(node.type) != wanted:
        names = {"text": "a text", "number": "a number", "time": "a date or timestamp"}
        raise ValueError(f"{function} takes {names[wanted]}, not a value of type {type_name(node.type)}")


_Bind = Callable[[str, Sequence[Node]], Node]
_FUNCTIONS: Final[dict[str, tuple[int, int, _Bind]]] = {
    "lower": (1, 1, _text_function),
    "upper": (1, 1, _text_function),
    "length": (1, 1, _length),
    "substring": (2, 3, _substring),
    "startswith": (2, 2, _fixed_match),
    "endswith": (2, 2, _fixed_match),
    "contains": (2, 2, _fixed_match),
    "abs": (1, 1, _absolute),
    "year": (1, 1, _part_of_date),
    "month": (1, 1, _part_of_date),
    "day": (1, 1, _part_of_date),
    "coalesce": (1, 100, _coalesce),
    "isnull": (1, 1, _is_null),
    "isnotnull": (1, 1, _is_null),
    "isnan": (1, 1, _is_nan),
}
