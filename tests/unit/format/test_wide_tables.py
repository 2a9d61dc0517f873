"""What is done for each write takes no time that grows with the square of the number of columns."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakelog.errors import InvalidArgument
from lakelog.format.tables.statistics import StatisticsCollector
from lakelog.format.types.cast import check_schema

_NAMES = [f"c{number}" for number in range(300)]


class CountingSchema:
    """A schema that counts how often all of its fields were gone through."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self.walks = 0

    def __getattr__(self, name: str) -> Any:
        self.walks += 1
        return getattr(self._schema, name)

    def __iter__(self) -> Any:
        self.walks += 1
        return iter(self._schema)


def test_a_schema_of_which_every_column_is_unknown() -> None:
    given = CountingSchema(pa.schema([(f"d{name}", pa.int8()) for name in _NAMES]))
    with pytest.raises(InvalidArgument, match="in 590 columns"):
        check_schema(given, pa.schema([(name, pa.int8()) for name in _NAMES]))
    assert given.walks < 10


def test_statistics_of_many_columns() -> None:
    table = pa.table({name: [1] for name in _NAMES})

    class Batch:
        schema = CountingSchema(table.schema)
        column = table.column

    collector = StatisticsCollector({name: place for place, name in enumerate(_NAMES, 1)})
    collector.update(Batch())
    assert Batch.schema.walks < 10
    assert len(collector.finish()) == 64
