"""Small writes: rows that a DataFrame brings itself. The driver program writes them, because a job would take longer.

A job with Python tasks takes 0.15 s, however few rows it writes. If a DataFrame was made of rows of the driver program
(`createDataFrame` of Arrow or pandas, `VALUES`, `range`, and what projections and conditions make of them), Spark knows
how many they are at most, and hands them over within milliseconds. Then the driver program writes them as the SDK does.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame

from lakelog.spark.batch.row_layout import to_arrow

MAX_ROWS: Final = 5_000
"""Above this a job writes as fast: its tasks encode files beside each other."""

_GIVEN: Final = frozenset({"LocalRelation", "OneRowRelation", "Range"})
"""The nodes of a plan that need no storage and no executor."""


def collect_given_rows(df: DataFrame) -> pa.Table | None:
    """Returns the rows of a DataFrame, in their order, if it brings them itself and they are few; None: any other.

    Raises:
        InvalidArgument: A type has no Arrow type.
    """
    plan = _optimize(df)
    most = plan.maxRows()
    if most.isEmpty() or most.get() > MAX_ROWS:
        return None
    leaves = plan.collectLeaves()
    if not all(leaves.apply(place).nodeName() in _GIVEN for place in range(leaves.size())):
        return None
    to_arrow(df)
    return df.toArrow()


def _optimize(df: DataFrame) -> Any:
    """Spark's plan, which it keeps for the run that follows."""
    return df._jdf.queryExecution().optimizedPlan()
