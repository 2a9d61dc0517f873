"""Filters in Arrow: the same tree becomes an expression over columns, or a value if it has no columns.

SUBTLE: Arrow compares NaN as IEEE does (equal to nothing, neither below nor above), so comparisons of floating-point
numbers handle NaN explicitly here. Arrow's datasets also skip row groups of a Parquet file by statistics, which ignore
NaN: a group of 5.0 and NaN has 5.0 as its only value, and a search for values above 6.0 skips it. No expression can
prevent that; files must have no Parquet statistics of floating-point columns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from lakelog.format.filter.tree import (
    AllOf,
    AnyOf,
    Call,
    Column,
    Compare,
    Constant,
    InSet,
    IsNull,
    Matches,
    Node,
    Not,
    Value,
    is_nan,
)

# A pa.Scalar if a node has no columns, else a pc.Expression; pyarrow has no types of its own.
_Computed = Any

_COMPARE: Final[dict[str, Any]] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
# Without pa.scalar, which imports pandas if that is installed; importing lakelog must not wait for it.
_NULL_TRUTH: Final = pa.nulls(1, pa.bool_())[0]


def to_expression(node: Node) -> pc.Expression:
    """Returns the expression whose value for a row is the node's. Pure."""
    computed = _compute(node)
    return computed if isinstance(computed, pc.Expression) else pc.scalar(computed)


def fold_constant(node: Node) -> Constant:
    """Returns the value of a node without columns. Pure."""
    scalar = _compute(node)
    if not scalar.is_valid:
        return Constant(None, node.type)
    if pt.is_date(scalar.type):
        scalar = scalar.cast(pa.int32())
    elif pt.is_timestamp(scalar.type):
        scalar = scalar.cast(pa.int64())
    return Constant(scalar.as_py(), node.type)


def to_scalar(value: Value, data_type: pa.DataType) -> pa.Scalar:
    """Returns a constant of a filter as an Arrow scalar. Pure."""
    return pa.scalar(value, data_type)


def _compute(node: Node) -> _Computed:
    match node:
        case Column():
            return pc.field(*node.path) if len(node.path) > 1 else pc.field(node.path[0])
        case Constant():
            return to_scalar(node.value, node.type)
        case Call():
            return _compute_call(node)
        case Compare():
            return _compute_compare(node)
        case InSet():
            return _compute_in_set(node)
        case IsNull():
            return _call(pc.is_valid if node.negated else pc.is_null, _compute(node.operand))
        case Matches():
            found = _compute_matches(node)
            return _call(pc.invert, found) if node.negated else found
        case AllOf():
            return _balanced(pc.and_kleene, node.operands)
        case AnyOf():
            return _balanced(pc.or_kleene, node.operands)
        case Not():
            return _call(pc.invert, _compute(node.operand))


def _call(function: Any, *arguments: _Computed, **options: Any) -> _Computed:
    if any(isinstance(argument, pc.Expression) for argument in arguments):
        arguments = tuple(a if isinstance(a, pc.Expression) else pc.scalar(a) for a in arguments)
    return function(*arguments, **options)


def _balanced(function: Any, operands: tuple[Node, ...]) -> _Computed:
    """All operands joined pairwise, since Arrow recurses to the depth of an expression."""
    level = [_compute(operand) for operand in operands]
    while len(level) > 1:
        pairs = [_call(function, *level[i : i + 2]) for i in range(0, len(level) - 1, 2)]
        level = pairs + level[len(level) - len(level) % 2 :]
    return level[0]


def _compute_compare(node: Compare) -> _Computed:
    left = _compute(node.left)
    if not pt.is_floating(node.left.type):
        return _call(_COMPARE[node.operator], left, _compute(node.right))
    if isinstance(node.right, Constant) and not isinstance(node.left, Constant):
        return _compare_float_constant(node.operator, left, node.right)
    return _compare_floats(node.operator, left, _compute(node.right))


def _compare_float_constant(operator: str, left: _Computed, constant: Constant) -> _Computed:
    nan = _call(pc.is_nan, left)
    if not is_nan(constant.value):
        compared = _call(_COMPARE[operator], left, to_scalar(constant.value, constant.type))
        return _call(pc.or_kleene, compared, nan) if operator in (">", ">=") else compared
    if operator in ("=", ">="):
        return nan
    if operator in ("<>", "<"):
        return _call(pc.invert, nan)
    if operator == "<=":
        return _call(pc.or_kleene, _call(pc.is_valid, left), _NULL_TRUTH)
    return _call(pc.and_kleene, _call(pc.is_null, left), _NULL_TRUTH)


def _compare_floats(operator: str, left: _Computed, right: _Computed) -> _Computed:
    if operator in (">", "<="):
        # The order is total: a > b is b < a, and a <= b is its opposite.
        left, right = right, left
    left_nan, right_nan = _call(pc.is_nan, left), _call(pc.is_nan, right)
    if operator in ("=", "<>"):
        found = _call(pc.or_kleene, _call(pc.equal, left, right), _call(pc.and_kleene, left_nan, right_nan))
    else:
        above = _call(pc.and_kleene, right_nan, _call(pc.invert, left_nan))
        found = _call(pc.or_kleene, _call(pc.less, left, right), above)
    return _call(pc.invert, found) if operator in ("<>", "<=", ">=") else found


def _compute_in_set(node: InSet) -> _Computed:
    operand = _compute(node.operand)
    values = list(node.values)
    if pt.is_floating(node.operand.type) and 0.0 in values:
        # Sets compare bits, and the two zeros differ in them.
        values = [*(value for value in values if value != 0.0), 0.0, -0.0]
    value_set = pa.array(values, node.operand.type)
    found = _call(pc.is_in, operand, options=pc.SetLookupOptions(value_set))
    if node.negated:
        found = _call(pc.invert, found)
        return _call(pc.and_kleene, found, _call(pc.or_kleene, _call(pc.is_valid, operand), _NULL_TRUTH))
    return _call(pc.or_kleene, found, _call(pc.and_kleene, _call(pc.is_null, operand), _NULL_TRUTH))


def _compute_matches(node: Matches) -> _Computed:
    operand = _compute(node.operand)
    functions: dict[str, Any] = {
        "starts": pc.starts_with,
        "ends": pc.ends_with,
        "contains": pc.match_substring,
        "regex": pc.match_substring_regex,
    }
    return _call(functions[node.kind], operand, options=pc.MatchSubstringOptions(node.pattern))


def _compute_call(node: Call) -> _Computed:
    arguments = [_compute(argument) for argument in node.arguments]
    if node.function == "cast":
        return _compute_cast(arguments[0], node.arguments[0].type, node.type)
    if node.function in ("year", "month", "day"):
        # Without its zone, which is UTC, no time zone database is needed.
        plain = arguments[0] if pt.is_date(node.arguments[0].type) else arguments[0].cast(pa.timestamp("us"))
        return _call(_PARTS_OF_DATE[node.function], plain).cast(pa.int32())
    if node.function == "substring":
        start, stop = node.options
        return _call(pc.utf8_slice_codeunits, arguments[0], options=pc.SliceOptions(start, stop))
    if node.function == "length":
        count = pc.binary_length if pt.is_binary(node.arguments[0].type) else pc.utf8_length
        return _call(count, arguments[0])
    return _FUNCTIONS[node.function](*arguments)


def _compute_cast(argument: _Computed, source: pa.DataType, target: pa.DataType) -> _Computed:
    if pt.is_timestamp(source) and pt.is_date(target):
        argument = argument.cast(pa.timestamp("us"))
    # Which casts are allowed has been checked; the unsafe ones round to the nearest floating-point number.
    return argument.cast(target, safe=False)


def _divide(left: _Computed, right: _Computed) -> _Computed:
    zero = _call(pc.equal, right, pa.scalar(0.0))
    return _call(pc.divide, left, _call(pc.if_else, zero, pa.scalar(None, pa.float64()), right))


def _divide_whole(left: _Computed, right: _Computed) -> _Computed:
    # SUBTLE: Arrow returns 0 for the least number divided by -1, where Spark wraps around, as a negation does.
    quotient = _call(pc.divide, left, _no_zero(right))
    return _call(pc.if_else, _call(pc.equal, right, pa.scalar(-1)), _call(pc.negate, left), quotient)


def _remainder(left: _Computed, right: _Computed) -> _Computed:
    # The remainders by 1 and -1 are equal, and the latter could overflow.
    divisor = _call(pc.if_else, _call(pc.equal, right, pa.scalar(-1)), pa.scalar(1), _no_zero(right))
    return _call(pc.subtract, left, _call(pc.multiply, _call(pc.divide, left, divisor), divisor))


def _no_zero(divisor: _Computed) -> _Computed:
    return _call(pc.if_else, _call(pc.equal, divisor, pa.scalar(0)), pa.scalar(None, pa.int64()), divisor)


def _plain(function: Any) -> Callable[..., _Computed]:
    return lambda *arguments: _call(function, *arguments)


_PARTS_OF_DATE: Final[dict[str, Any]] = {"year": pc.year, "month": pc.month, "day": pc.day}
_FUNCTIONS: Final[dict[str, Callable[..., _Computed]]] = {
    "+": _plain(pc.add),
    "-": _plain(pc.subtract),
    "*": _plain(pc.multiply),
    "divide": _divide,
    "divide_whole": _divide_whole,
    "remainder": _remainder,
    "negate": _plain(pc.negate),
    "abs": _plain(pc.abs),
    "lower": _plain(pc.utf8_lower),
    "upper": _plain(pc.utf8_upper),
    "coalesce": _plain(pc.coalesce),
    "isnan": _plain(pc.is_nan),
}
