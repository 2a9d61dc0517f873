"""Which commit the attempt of a stream's batch is for, though its number is not known when it is opened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pyarrow as pa
import pytest

from lakelog.format.commit.request import StagedAttempt, WriterProgress
from lakelog.format.tables.table import TableInfo, TableName
from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.spark.source.writer import LakelogStreamWriter, StreamIdentity, WriteTarget
from lakelog.storage.write.row_normalizer import KindSource

SCHEMA = TableSchema(0, assign_field_ids(pa.schema([("v", pa.int64())])))
INFO = TableInfo("1" * 32, TableName("shop", "orders"), "file:///w/", SCHEMA, {}, 0, 0)


class _Metastore:
    def __init__(self, last: int | None) -> None:
        self._last = last
        self.staged: list[tuple[str, int | None]] = []

    def get_writer_progress(self, writer: str, table_uuid: str) -> WriterProgress:
        return WriterProgress(self._last, None, {}, 0)

    def stage_attempt(self, table_uuids: Sequence[str], writer: str, *, identifier: int | None) -> StagedAttempt:
        self.staged.append((writer, identifier))
        return StagedAttempt("a" * 32, (INFO,))


@pytest.mark.parametrize(("last", "expected"), [(None, 0), (0, 1), (41, 42)])
def test_the_attempt_is_for_the_batch_after_the_last_one(
    monkeypatch: pytest.MonkeyPatch, last: int | None, expected: int
) -> None:
    metastore = _Metastore(last)
    monkeypatch.setattr(WriteTarget, "metastore", property(lambda target: metastore))
    target = WriteTarget(cast("Any", None), INFO, None, KindSource.INSERTS)
    writer = LakelogStreamWriter(target, StreamIdentity("w", None))
    # It is pickled for each task.
    states = [writer.__getstate__() for _ in range(3)]
    assert metastore.staged == [("w", expected)]
    assert {state["_attempt"].attempt_id for state in states} == {"a" * 32}
