"""The Arrow batches in which Spark passes rows to the Python tasks of a write.

Spark bounds a batch by its rows and by its bytes. It counts the bytes after each row by asking every column for its
size, which takes longer than all else that it does with the row: half of a bulk write. So where all rows are narrow,
the number of rows bounds the bytes as well, and Spark need not count them.

Objectives, which conflict: no counting; no batch that is much larger than Spark's own limit, whatever rows come. So:

1. Columns of a fixed width bound a row by themselves. Of strings and binaries Spark knows the lengths: a condition on
   each row ends the job at the first row that is wide.
2. Then the same rows are written again, in batches whose bytes are counted. A table that had a wide row has its bytes
   counted from the start after that, as have nested columns.
3. The settings belong to the session, and several writes can run in it. While one of them needs its bytes counted,
   Spark counts those of all.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, TypeVar

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st

from lakelog.recently_used import RecentlyUsed

T = TypeVar("T")

ROWS_CONF: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
BYTES_CONF: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
NOT_COUNTED: Final = 2**31 - 1
"""The value of `BYTES_CONF` with which Spark does not count."""

COUNTED_ROWS: Final = 65_536
"""Rows of a batch whose bytes are counted; with Spark's 10,000 a write takes a tenth longer."""

_MOST_ROWS: Final = 4_096
"""Rows of a batch whose bytes are not counted: what a core's cache holds of them is still there when they are sent."""

_BATCH_BYTES: Final = 64 << 20
"""Spark's own limit."""

WIDE_BYTES: Final = 16 << 10
"""What the strings and binaries of a narrow row have at most together."""

_MOST_LENGTHS: Final = 64
"""Strings and binaries of a row whose lengths are added up: Java does not compile expressions of any length."""

_WIDTHS: Final[dict[type[st.DataType], int]] = {
    st.BooleanType: 1,
    st.ByteType: 1,
    st.ShortType: 2,
    st.IntegerType: 4,
    st.LongType: 8,
    st.FloatType: 4,
    st.DoubleType: 8,
    st.DateType: 4,
    st.TimestampType: 8,
    st.TimestampNTZType: 8,
    st.DecimalType: 16,
}
_WIDE_ROW: Final = "lakelog: a row is wide, so that the bytes of batches must be counted."


@dataclass(frozen=True)
class NarrowRows:
    """How rows are passed on without counting their bytes.

    Args:
        batch_rows: The most rows of a batch.
    """

    batch_rows: int

    def check(self, rows: DataFrame) -> DataFrame:
        """The same rows, of which a wide one ends the job; no two names of columns differ in case only."""
        quoted = ("`" + each.name.replace("`", "``") + "`" for each in rows.schema if _has_length(each))
        lengths = " + ".join(f"ifnull(octet_length({name}), 0)" for name in quoted)
        if not lengths:
            return rows
        return rows.filter(f"IF({lengths} > {WIDE_BYTES}, CAST(raise_error('{_WIDE_ROW}') AS BOOLEAN), true)")


def plan_narrow_rows(schema: st.StructType) -> NarrowRows | None:
    """Plans batches of rows whose bytes need no counting; None: nothing bounds the rows. Pure."""
    lengths = sum(map(_has_length, schema))
    widths = [_WIDTHS.get(type(each.dataType)) for each in schema if not _has_length(each)]
    if None in widths or lengths > _MOST_LENGTHS:
        return None
    row_bytes = sum(width or 0 for width in widths) + (WIDE_BYTES if lengths else 0)
    return NarrowRows(max(1, min(_MOST_ROWS, _BATCH_BYTES // max(1, row_bytes))))


def is_wide_row(error: BaseException) -> bool:
    """Whether a job ended because a row is not narrow. Pure."""
    return isinstance(error, PySparkException) and _WIDE_ROW in str(error)


def _has_length(field: st.StructField) -> bool:
    return isinstance(field.dataType, st.StringType | st.BinaryType)


_wide_tables: Final[RecentlyUsed[str, bool]] = RecentlyUsed(1_000, lambda _: 1)


def run_on_batches(spark: SparkSession, df: DataFrame, table_uuid: str, run: Callable[[NarrowRows | None], T]) -> T:
    """Runs a job whose Python tasks take the rows of a DataFrame; twice if rows turn out to be wide.

    Args:
        spark: The session.
        df: The rows as they are first passed to Python.
        table_uuid: The table that they are written into.
        run: Runs the job; given narrow rows, it applies their `check` to the rows.
    """
    narrow = None if _wide_tables.get(table_uuid) else plan_narrow_rows(df.schema)
    if narrow is not None:
        try:
            with batch_settings(spark, narrow):
                return run(narrow)
        except PySparkException as error:
            if not is_wide_row(error):
                raise
            _wide_tables.put(table_uuid, True)
    with batch_settings(spark, None):
        return run(None)


@dataclass
class _Session:
    """The settings that a session had before, and what its running writes need."""

    rows: str
    bytes: str
    running: list[NarrowRows | None] = field(default_factory=list)


_lock = threading.Lock()
_sessions: Final[dict[SparkSession, _Session]] = {}


@contextmanager
def batch_settings(spark: SparkSession, narrow: NarrowRows | None) -> Iterator[None]:
    """Sets the size of batches for a write; the last concurrent write of the session restores its own settings."""
    with _lock:
        session = _sessions.get(spark)
        if session is None:
            session = _Session(spark.conf.get(ROWS_CONF) or "10000", spark.conf.get(BYTES_CONF) or str(_BATCH_BYTES))
            _sessions[spark] = session
        session.running.append(narrow)
        _apply(spark, session)
    try:
        yield
    finally:
        with _lock:
            session.running.remove(narrow)
            _apply(spark, session)
            if not session.running:
                del _sessions[spark]


def _apply(spark: SparkSession, session: _Session) -> None:
    rows, size = _choose_settings(session.rows, session.bytes, session.running)
    spark.conf.set(ROWS_CONF, rows)
    spark.conf.set(BYTES_CONF, size)


def _choose_settings(rows: str, size: str, running: Sequence[NarrowRows | None]) -> tuple[str, str]:
    """The settings that are safe for all running writes, given the session's own. Pure."""
    if not running:
        return rows, size
    batch_rows = [each.batch_rows for each in running if each is not None]
    if len(batch_rows) < len(running):
        return str(max(int(rows), COUNTED_ROWS)), size
    return str(min(batch_rows)), str(NOT_COUNTED)
