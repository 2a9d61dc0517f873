"""Sizes of the batches in which rows reach Python: which rows need no counting, and what writes leave of a session."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as st

from lakelog.spark.session.arrow_batches import (
    BYTES_CONF,
    NOT_COUNTED,
    ROWS_CONF,
    NarrowRows,
    batch_settings,
    plan_narrow_rows,
)

LIMIT = 64 << 20
OWN = {ROWS_CONF: "500", BYTES_CONF: "1000b"}


class FakeSession:
    """The settings of a session."""

    def __init__(self) -> None:
        self.settings = dict(OWN)
        self.conf = SimpleNamespace(get=self.settings.get, set=self.settings.__setitem__)


def session() -> tuple[SparkSession, dict[str, str]]:
    made = FakeSession()
    return cast(SparkSession, made), made.settings


def row_of(*types: st.DataType) -> st.StructType:
    return st.StructType([st.StructField(f"c{place}", each) for place, each in enumerate(types)])


@pytest.mark.parametrize(
    ("row", "batch_rows"),
    [
        (row_of(st.LongType(), st.DoubleType()), 4096),
        # 16 KiB of text fill the batch with as many rows.
        (row_of(st.StringType()), 4096),
        (row_of(st.StringType(), st.BinaryType()), 4096),
        (row_of(*[st.LongType()] * 2048, st.StringType()), LIMIT // (2 * (16 << 10))),
        (row_of(*[st.DecimalType(38, 0)] * 5000), LIMIT // 80_000),
        (row_of(), 4096),
    ],
)
def test_batches_of_narrow_rows_are_as_small_as_counted_ones(row: st.StructType, batch_rows: int) -> None:
    assert plan_narrow_rows(row) == NarrowRows(batch_rows)


@pytest.mark.parametrize(
    "row",
    [
        row_of(st.ArrayType(st.LongType())),
        row_of(st.LongType(), st.StructType([st.StructField("x", st.LongType())])),
        row_of(st.MapType(st.StringType(), st.LongType())),
        row_of(*[st.StringType()] * 65),
    ],
)
def test_rows_that_nothing_bounds_are_counted(row: st.StructType) -> None:
    assert plan_narrow_rows(row) is None


def test_writes_at_one_time_leave_the_session_as_it_was() -> None:
    spark, settings = session()
    with contextlib.ExitStack() as one, contextlib.ExitStack() as other:
        one.enter_context(batch_settings(spark, NarrowRows(4096)))
        assert settings == {ROWS_CONF: "4096", BYTES_CONF: str(NOT_COUNTED)}
        other.enter_context(batch_settings(spark, NarrowRows(300)))
        assert settings == {ROWS_CONF: "300", BYTES_CONF: str(NOT_COUNTED)}
        one.close()
        # The first is done, the second still needs them.
        assert settings == {ROWS_CONF: "300", BYTES_CONF: str(NOT_COUNTED)}
    assert settings == OWN


def test_a_write_whose_bytes_are_counted_decides_for_all() -> None:
    spark, settings = session()
    with batch_settings(spark, NarrowRows(4096)):
        with contextlib.suppress(RuntimeError), batch_settings(spark, None):
            assert settings == {ROWS_CONF: "65536", BYTES_CONF: OWN[BYTES_CONF]}
            raise RuntimeError
        assert settings == {ROWS_CONF: "4096", BYTES_CONF: str(NOT_COUNTED)}
    assert settings == OWN
