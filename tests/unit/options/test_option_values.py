"""Given options with their types."""

from __future__ import annotations

import pickle

import pytest

from lakelog.errors import InvalidArgument
from lakelog.options.declared.reads_and_writes import (
    COMMIT_USER,
    DYNAMIC_PARTITION_OVERWRITE,
    INCREMENTAL_BETWEEN,
    INCREMENTAL_BETWEEN_SCAN_MODE,
    SCAN_SNAPSHOT_ID,
    SCAN_TIMESTAMP_MILLIS,
)
from lakelog.options.declared.tables import SEQUENCE_FIELD, SEQUENCE_SORT_ORDER, WRITE_BUFFER_SIZE
from lakelog.options.values import ScanOptions, TableOptions, WriteOptions


def test_defaults_depend_on_the_key_where_they_do() -> None:
    options = TableOptions({})
    assert (options.bucket_count(True), options.bucket_count(False)) == (1, -1)
    assert options.target_file_size_bytes(True) == 134_217_728
    assert options.target_file_size_bytes(False) == 268_435_456
    assert options.get(WRITE_BUFFER_SIZE) == 268_435_456


def test_given_values_win() -> None:
    options = TableOptions({"bucket": "7", "target-file-size": "1 mb", "sequence.field": "a,b"})
    assert options.bucket_count(True) == 7
    assert options.target_file_size_bytes(False) == 1 << 20
    assert options.get(SEQUENCE_FIELD) == ("a", "b")
    assert options.get(SEQUENCE_SORT_ORDER) == "asc"


def test_read_options() -> None:
    assert ScanOptions({"scan.snapshot-id": "3"}).get(SCAN_SNAPSHOT_ID) == 3
    assert ScanOptions({"scan.timestamp-millis": "0"}).get(SCAN_TIMESTAMP_MILLIS) == 0
    ranged = ScanOptions({"incremental-between": "3,7", "incremental-between-scan-mode": "delta"})
    assert ranged.get(INCREMENTAL_BETWEEN) == (3, 7)
    assert ranged.get(INCREMENTAL_BETWEEN_SCAN_MODE) == "delta"
    assert ScanOptions({}).get(SCAN_SNAPSHOT_ID) is None


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"scan.snapshot-id": "3", "scan.timestamp-millis": "3"}, ["'scan.snapshot-id' and 'scan.timestamp-millis'"]),
        ({"scan.snapshot-id": "3", "incremental-between": "1,2"}, ["'scan.snapshot-id' and 'incremental-between'"]),
        ({"incremental-between-scan-mode": "delta"}, ["no effect without 'incremental-between'"]),
        ({"incremental-between": "1,2", "incremental-between-scan-mode": "difff"}, ["'difff' is not possible"]),
        ({"scan.snapshot-id": "0"}, ["from 1 to"]),
        ({"scan.timestamp-millis": "soon"}, ["2024-05-01T12:00:00Z: 'soon' is no timestamp", "zone after it."]),
        (
            {"scan.mode": "latest"},
            ["It is an option of subscriptions: give it to subscribe(), or in Spark to readStream"],
        ),
        ({"consumer-id": "me"}, ["option of subscriptions"]),
        ({"maxrowspertrigger": "1"}, ["'maxRowsPerTrigger'", "give it to readStream"]),
        ({"scan.snapshotid": "1"}, ["'scan.snapshot-id'"]),
        ({"bucket": "1"}, ["option of tables"]),
    ],
)
def test_read_options_that_cannot_be(options: dict[str, str], parts: list[str]) -> None:
    with pytest.raises(InvalidArgument) as caught:
        ScanOptions(options)
    for part in parts:
        assert part in caught.value.message


def test_write_options() -> None:
    options = WriteOptions({"commit-user": "me", "dynamic-partition-overwrite": "false"})
    assert options.get(COMMIT_USER) == "me"
    assert options.get(DYNAMIC_PARTITION_OVERWRITE) is False
    assert WriteOptions({}).get(DYNAMIC_PARTITION_OVERWRITE) is True
    with pytest.raises(InvalidArgument, match="1 to 256"):
        WriteOptions({"commit-user": "x" * 257})


def test_options_compare_by_value_and_travel() -> None:
    options = TableOptions({"bucket": "7"})
    assert pickle.loads(pickle.dumps(options)) == options
    assert hash(options) == hash(TableOptions({"bucket": "7"}))
    assert options != TableOptions({})
    assert TableOptions({}) != ScanOptions({})


def test_given_options_cannot_be_changed_from_outside() -> None:
    given = {"bucket": "7"}
    options = TableOptions(given)
    given["bucket"] = "8"
    assert options.bucket_count(True) == 7
    with pytest.raises(TypeError):
        options.given()["bucket"] = "8"  # type: ignore[index]
