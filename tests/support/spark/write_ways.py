"""Small writes from Spark go through the driver program; here tests have them go through tasks, as large ones do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lakelog.spark.batch import given_rows


@contextmanager
def written_by_tasks(wanted: bool = True) -> Iterator[None]:
    """Inside it no rows are few."""
    kept = given_rows.MAX_ROWS
    vars(given_rows)["MAX_ROWS"] = -1 if wanted else kept
    try:
        yield
    finally:
        vars(given_rows)["MAX_ROWS"] = kept
