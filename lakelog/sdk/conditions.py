"""Conditions as users give them: SQL with or without parameters, or a pyarrow expression."""

from __future__ import annotations

import pyarrow.compute as pc

from lakelog.annotations import Condition, Parameters
from lakelog.errors import InvalidArgument
from lakelog.format.filter.expressions import to_sql_condition
from lakelog.format.filter.parameters import bind_parameters
from lakelog.format.filter.tokens import Source


def to_condition(condition: Condition | None, params: Parameters | None) -> str | None:
    """Returns the condition as SQL text without parameters; None: no condition. Pure.

    Args:
        condition: As the user gave it.
        params: Values of its `:name` parameters.

    Raises:
        InvalidArgument: Values and parameters do not match, or the expression cannot be translated.
    """
    if isinstance(condition, str) and (params is not None or ":" in condition):
        return bind_parameters(Source(condition), {} if params is None else params)
    if params:
        raise InvalidArgument(
            "params are the values of the :names in a filter that is given as SQL text, which is missing here. Give "
            "filter='id = :id' or so, or leave params out.",
            metadata={"field": "params"},
        )
    return to_sql_condition(condition) if isinstance(condition, pc.Expression) else condition


def to_deletion(condition: Condition, params: Parameters | None) -> str:
    """Returns the condition of a deletion, which has to be given: without one, everything would be deleted. Pure.

    Raises:
        InvalidArgument: There is none; else as of `to_condition`.
    """
    sql = to_condition(condition, params)
    if sql is None or not sql.strip():
        raise InvalidArgument(
            "delete_where needs a condition, as filter='id = 7'. To delete all rows, give 'true', or overwrite the "
            "table with no rows.",
            metadata={"field": "filter"},
        )
    return sql
