"""Small writes: rows that a DataFrame brings itself. The driver program writes them, because a job would take longer.

A job with Python tasks takes 0.15 s, however few rows it writes. If a DataFrame was made of rows of the driver program
(`createDataFrame` of Arrow or pandas, `VALUES`, and what projections and conditions make of them), Spark's plan has the
rows themselves, and hands them over within milliseconds. Then the driver program writes them as the SDK does. So it
does with numbers that Spark counts or computes (`range`).

The driver program's memory is bounded: rows that a plan would only make, such as `repeat('x', 1000000)`, must have a
fixed width.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as st

from lakelog.spark.batch.row_layout import to_arrow
from lakelog.spark.session.executors import is_on_this_machine

MAX_ROWS: Final = 5_000
"""Above this a job writes as fast: its tasks encode files beside each other."""

_GIVEN: Final = frozenset({"LocalRelation", "OneRowRelation", "Range"})
"""The leaves of a plan that need no storage and no executor."""

_PASSING: Final = frozenset(
    {"LocalRelation", "Union", "Filter", "Sort", "Repartition", "RepartitionByExpression", "GlobalLimit", "LocalLimit"}
)
"""Nodes that show rows of their children as they are."""

_FIXED_WIDTH: Final = (st.NumericType, st.BooleanType, st.DateType, st.TimestampType, st.TimestampNTZType)


def collect_given_rows(df: DataFrame, location: str) -> pa.Table | None:
    """Returns the rows of a DataFrame, in their order, if it brings them itself and they are few; None: any other.

    Args:
        df: The rows.
        location: The table's location.

    Raises:
        InvalidArgument: A type has no Arrow type.
    """
    if not are_written_here(df, location):
        return None
    execution: Any = df._jdf.queryExecution()
    # Of the plan as it was written: to optimize it can mean to plan the reads of other sources.
    if not all(name in _GIVEN for name in _iterate_leaves(execution.analyzed())):
        return None
    plan = execution.optimizedPlan()
    most = plan.maxRows()
    if most.isEmpty() or most.get() > MAX_ROWS:
        return None
    is_fixed = all(isinstance(field.dataType, _FIXED_WIDTH) for field in df.schema)
    if not is_fixed and not all(name in _PASSING for name in iterate_nodes(plan)):
        return None
    to_arrow(df)
    return df.toArrow()


def are_written_here(df: DataFrame, location: str) -> bool:
    """Whether the driver program may write into a table's location.

    Executors of other machines may see another folder there than this program: then they are to write, so that the
    difference is noticed.
    """
    return not location.startswith("file:") or is_on_this_machine(df.sparkSession.sparkContext.master or "")


def _iterate_leaves(plan: Any) -> Iterator[str]:
    leaves = plan.collectLeaves()
    return (leaves.apply(place).nodeName() for place in range(leaves.size()))


def iterate_nodes(plan: Any) -> Iterator[str]:
    """The names of the nodes of one of Spark's plans, from its root on."""
    yield plan.nodeName()
    children = plan.children()
    for place in range(children.size()):
        yield from iterate_nodes(children.apply(place))
