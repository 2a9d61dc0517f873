"""Conditions on single columns that exclude partitions and files without a match.

A predicate is weaker than its filter: parts that it cannot express are left out of a conjunction, so pruning with it
never loses a row.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

MAX_COMPARISONS: Final = 1000
"""The most comparisons of a combined predicate (`combine.py`); each is tested for every file."""

MAX_VALUES: Final = 100_000
"""The most values and operands of a whole predicate."""


class Operator(enum.Enum):
    """What must be true of a row's value. All except IS_NULL are false for NULL."""

    IN = "IN"
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="
    NOT_EQUAL = "<>"
    IS_NULL = "IS NULL"
    IS_NOT_NULL = "IS NOT NULL"


@dataclass(frozen=True)
class Comparison:
    """A column against constants, encoded by `format.keys.encoding`; IN takes one or more, the others one or none."""

    field_id: int
    operator: Operator
    values: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class AllOf:
    """All operands must be true."""

    operands: tuple[Predicate, ...]


@dataclass(frozen=True)
class AnyOf:
    """At least one operand must be true."""

    operands: tuple[Predicate, ...]


Predicate = Comparison | AllOf | AnyOf
