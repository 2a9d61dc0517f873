"""Pruning predicates on the wire."""

from __future__ import annotations

from typing import Final

from lakelog.errors import InvalidArgument
from lakelog.format.tables.predicate import AllOf, AnyOf, Comparison, Operator, Predicate
from lakelog.rpc.messages import build, refusal
from lakelog.rpc.v1 import types_pb2

MAX_DEPTH: Final = 40
"""How deep predicates may be nested. Protobuf refuses more than 100 nested messages, and each level takes two. `all_of`
and `any_of` take any number of operands, so that no filter needs such a depth."""

_OPERATOR_TO_PROTO: Final = {
    Operator.IN: types_pb2.Comparison.OPERATOR_IN,
    Operator.LESS: types_pb2.Comparison.OPERATOR_LESS,
    Operator.LESS_OR_EQUAL: types_pb2.Comparison.OPERATOR_LESS_OR_EQUAL,
    Operator.GREATER: types_pb2.Comparison.OPERATOR_GREATER,
    Operator.GREATER_OR_EQUAL: types_pb2.Comparison.OPERATOR_GREATER_OR_EQUAL,
    Operator.NOT_EQUAL: types_pb2.Comparison.OPERATOR_NOT_EQUAL,
    Operator.IS_NULL: types_pb2.Comparison.OPERATOR_IS_NULL,
    Operator.IS_NOT_NULL: types_pb2.Comparison.OPERATOR_IS_NOT_NULL,
}
_OPERATOR_FROM_PROTO: Final = {int(number): operator for operator, number in _OPERATOR_TO_PROTO.items()}


def to_proto_predicate(predicate: Predicate) -> types_pb2.Predicate:
    """Translates a predicate.

    Raises:
        InvalidArgument: It is nested deeper than `MAX_DEPTH`.
    """
    return _to_proto(predicate, 1)


def from_proto_predicate(message: types_pb2.Predicate, field: str = "predicate") -> Predicate:
    """Translates a predicate back.

    Raises:
        InvalidArgument: A node is empty, has no operand or an unknown operator, or is nested too deep.
    """
    return _from_proto(message, field, 1)


def _to_proto(predicate: Predicate, depth: int) -> types_pb2.Predicate:
    if depth > MAX_DEPTH:
        raise _too_deep("predicate")
    match predicate:
        case Comparison(field_id, operator, values):
            comparison = build(
                types_pb2.Comparison, field_id=field_id, operator=_OPERATOR_TO_PROTO[operator], values=values
            )
            return types_pb2.Predicate(comparison=comparison)
        case AllOf(operands):
            return types_pb2.Predicate(all_of=_to_proto_list(operands, depth))
        case AnyOf(operands):
            return types_pb2.Predicate(any_of=_to_proto_list(operands, depth))


def _to_proto_list(operands: tuple[Predicate, ...], depth: int) -> types_pb2.PredicateList:
    return types_pb2.PredicateList(operands=[_to_proto(operand, depth + 1) for operand in operands])


def _from_proto(message: types_pb2.Predicate, field: str, depth: int) -> Predicate:
    if depth > MAX_DEPTH:
        raise _too_deep(field.split(".", 1)[0])
    match message.WhichOneof("node"):
        case "comparison":
            return _from_proto_comparison(message.comparison, f"{field}.comparison")
        case "all_of":
            return AllOf(_from_proto_list(message.all_of, f"{field}.all_of", depth))
        case "any_of":
            return AnyOf(_from_proto_list(message.any_of, f"{field}.any_of", depth))
        case _:
            raise refusal(field, "says nothing", "Set one of all_of, any_of, comparison")


def _from_proto_list(message: types_pb2.PredicateList, field: str, depth: int) -> tuple[Predicate, ...]:
    return tuple([_from_proto(operand, f"{field}[{i}]", depth + 1) for i, operand in enumerate(message.operands)])


def _from_proto_comparison(message: types_pb2.Comparison, field: str) -> Comparison:
    operator = _OPERATOR_FROM_PROTO.get(message.operator)
    if operator is None:
        problem = "is not given" if message.operator == 0 else f"has the unknown value {message.operator}"
        remedy = "Use one of the operators of lakelog.rpc.v1.Comparison.Operator; newer clients need a newer server"
        raise refusal(f"{field}.operator", problem, remedy)
    return Comparison(message.field_id, operator, tuple(message.values))


def _too_deep(field: str) -> InvalidArgument:
    return refusal(
        field,
        f"is nested more than {MAX_DEPTH} deep",
        "Put the operands of nested ANDs and ORs into one list, or leave out what is deeper: a predicate may always "
        "say less than the filter",
    )
