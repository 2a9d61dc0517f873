"""Dropped tables, files and partitions on the wire: there and back again nothing is lost."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakelog.errors import InternalError
from lakelog.format.commit.facts import AttemptState
from lakelog.format.log.state import LogInfo
from lakelog.format.retention.dropped import DroppedTable, RestoredTable
from lakelog.format.retention.partition_expiry import PartitionFiles, PartitionPage
from lakelog.format.retention.table_files import AttemptAge, FileUse, FoundFiles, UsedFile, UsedPage
from lakelog.format.tables.table import TableInfo, TableName
from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.rpc.retention import from_proto_dropped, from_proto_restored, to_proto_dropped, to_proto_restored
from lakelog.rpc.table import from_proto_log, to_proto_log
from lakelog.rpc.table_files import (
    from_proto_attempt,
    from_proto_found_files,
    from_proto_partition_page,
    from_proto_used_file,
    from_proto_used_page,
    to_proto_found_files,
    to_proto_partition_page,
    to_proto_used_page,
)
from lakelog.rpc.v1 import table_files_pb2

NAME = TableName("shop", "orders")


@pytest.mark.parametrize("is_purged", [False, True])
def test_dropped_tables(is_purged: bool) -> None:
    dropped = DroppedTable("a" * 32, NAME, "file:///w/a/", 1, 2, is_purged)
    assert from_proto_dropped(to_proto_dropped(dropped)) == dropped


def test_logs() -> None:
    log = LogInfo("a" * 32, NAME, "topic", "id", 3, 7, True, {"log.system": "kafka"}, "why")
    assert from_proto_log(to_proto_log(log)) == log


def test_restored_tables() -> None:
    schema = TableSchema(0, assign_field_ids(pa.schema([("id", pa.int64())])), ("id",), ())
    info = TableInfo("a" * 32, NAME, "file:///w/a/", schema, {"bucket": "2"}, 7, 1, "why")
    restored = RestoredTable(info, 5, 3)
    assert from_proto_restored(to_proto_restored(restored)) == restored


def test_files_and_attempts() -> None:
    files = tuple(UsedFile(f"data/{use.value}", use, size) for use in FileUse for size in (None, 0, 5))
    attempts = tuple(AttemptAge(f"{place:032x}", state, place) for place, state in enumerate(AttemptState))
    found = FoundFiles(files, attempts)
    assert from_proto_found_files(to_proto_found_files(found)) == found
    page = UsedPage(files, "data:7:0")
    assert from_proto_used_page(to_proto_used_page(page)) == page


def test_partitions() -> None:
    page = PartitionPage((PartitionFiles(b"\x00\x01", 1, 2, 3, -4), PartitionFiles(b"", 1, 2, 3, 4)), 9, 10, True)
    assert from_proto_partition_page(to_proto_partition_page(page)) == page


def test_what_a_newer_metastore_says_is_refused() -> None:
    with pytest.raises(InternalError, match="the use 0 of a file"):
        from_proto_used_file(table_files_pb2.UsedFile(path="a"))
    with pytest.raises(InternalError, match="the state 0 of an attempt"):
        from_proto_attempt(table_files_pb2.AttemptAge(attempt_id="a"))
