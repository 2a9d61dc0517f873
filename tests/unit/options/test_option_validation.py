"""Options of a table against each other, its columns and its keys."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pytest

from lakelog.errors import InvalidArgument
from lakelog.options.validate import check_alter, validate_table_options

COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("dt", pa.string()),
        ("seq", pa.timestamp("us")),
        ("kind", pa.string()),
        ("price", pa.float64()),
        ("tags", pa.list_(pa.string())),
    ]
)


def check(
    options: Mapping[str, str],
    primary_key: tuple[str, ...] = ("dt", "id"),
    partition_by: tuple[str, ...] = ("dt",),
    columns: pa.Schema = COLUMNS,
) -> None:
    validate_table_options(options, columns=columns, primary_key=primary_key, partition_by=partition_by)


def test_new_durations_have_a_unit_and_tables_keep_what_they_have() -> None:
    with pytest.raises(InvalidArgument, match=r"'snapshot.time-retained' = '3600' is.*'3600 s'.*'3600 ms'"):
        check({"snapshot.time-retained": "3600"})
    check({"snapshot.time-retained": "3600 s"})
    current = {"snapshot.time-retained": "3600"}
    keys = {"columns": COLUMNS, "primary_key": ("dt", "id"), "partition_by": ("dt",), "current": current}
    validate_table_options({**current, "bucket": "2"}, **keys)
    with pytest.raises(InvalidArgument, match="'7200 ms'"):
        validate_table_options({"snapshot.time-retained": "7200"}, **keys)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bucket": "1"},
        {"bucket": "65536", "bucket-key": "id"},
        {
            "num-sorted-run.compaction-trigger": "3",
            "num-levels": "128",
            "compaction.max-size-amplification-percent": "25",
            "compaction.size-ratio": "10",
            "compaction.total-size-threshold": "1 gb",
            "compaction.incremental-size-threshold": "100 mb",
        },
        {"merge-engine": "deduplicate", "changelog-producer": "none", "log.system": "none"},
        {"changelog-producer": "input"},
        {
            "changelog-producer": "lookup",
            "changelog-producer.row-deduplicate": "true",
            "changelog-producer.row-deduplicate-ignore-fields": "seq, price",
            "lookup-wait": "true",
        },
        {"changelog-producer": "lookup", "lookup-wait": "false", "write-only": "true"},
        {"sequence.field": "seq, price", "sequence.field.sort-order": "DESCENDING", "sequence.delete-retention": "2 d"},
        {"rowkind.field": "kind", "ignore-delete": "true", "ignore-update-before": "false"},
        {"target-file-size": "1 kb", "write-buffer-size": "64 mb", "file.compression": "lz4"},
    ],
)
def test_tables_with_a_key_may_have(options: dict[str, str]) -> None:
    check(options)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bucket": "-1"},
        {"bucket": "4", "bucket-key": "dt,id"},
        {"target-file-size": "1 gb"},
        {"compaction.min.file-num": "10", "source.split.open-file-cost": "1 mb"},
        {"bucket": "4", "bucket-key": "id", "compaction.min.file-num": "10"},
    ],
)
def test_append_tables_may_have(options: dict[str, str]) -> None:
    check(options, primary_key=())


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"bukcet": "1"}, ["'bukcet' is unknown", "'bucket'"]),
        ({"zzz": "1"}, ["'zzz' is unknown", "Known options are", "'sequence.field'"]),
        ({"bucket": "four"}, ["'bucket' = 'four'", "whole number"]),
        ({"bucket": "0"}, ["'bucket' = '0'", "1 to 65536"]),
        ({"bucket": "65537"}, ["1 to 65536"]),
        ({"bucket": "-2"}, ["1 to 65536"]),
        ({"bucket": "-1"}, ["Dynamic buckets are not in this version", "above 0"]),
        ({"bucket-key": "dt"}, ["'dt'", "(id)", "Choose"]),
        ({"bucket-key": "price"}, ["'price'", "(id)"]),
        ({"bucket-key": "idd"}, ["'idd'", "does not have", "'id'"]),
        (
            {"merge-engine": "aggregation"},
            ["'aggregation' is not in this version", "Give one of 'deduplicate', 'first-row'"],
        ),
        ({"merge-engine": "first-row", "sequence.field": "seq"}, ["'sequence.field' = 'seq'", "committed first stays"]),
        ({"merge-engine": "first-row", "changelog-producer": "input"}, ["'changelog-producer' = 'input'", "(none)"]),
        (
            {
                "merge-engine": "first-row",
                "changelog-producer": "lookup",
                "changelog-producer.row-deduplicate": "true",
            },
            ["'changelog-producer.row-deduplicate'", "no row is ever replaced"],
        ),
        ({"changelog-producer.row-deduplicate": "true"}, ["no effect without 'changelog-producer' = lookup"]),
        (
            {"changelog-producer": "lookup", "changelog-producer.row-deduplicate-ignore-fields": "seq"},
            ["no effect without 'changelog-producer.row-deduplicate'"],
        ),
        (
            {
                "changelog-producer": "lookup",
                "changelog-producer.row-deduplicate": "true",
                "changelog-producer.row-deduplicate-ignore-fields": "seq,sek",
            },
            ["'sek'", "'seq'"],
        ),
        ({"compaction.min.file-num": "5"}, ["small files of tables without", "'num-sorted-run.compaction-trigger'"]),
        ({"source.split.open-file-cost": "1 mb"}, ["small files of tables without", "sorted runs"]),
        ({"num-levels": "129"}, ["'num-levels' = '129'", "from 2 to 128"]),
        ({"num-sorted-run.compaction-trigger": "0"}, ["from 1 to 1000"]),
        ({"num-sorted-run.stop-trigger": "9"}, ["not in this version", "nor wait for compactions"]),
        ({"full-compaction.delta-commits": "0"}, ["from 1 to 1000000"]),
        ({"merge-engine": "first-row", "changelog-producer": "full-compaction"}, ["looks up (lookup)", "(none)"]),
        ({"compaction.optimization-interval": "soon"}, ["Give a duration such as '1 h'"]),
        ({"precommit-compact": "yes"}, ["Give true or false"]),
        ({"lookup-wait": "no"}, ["Give true or false"]),
        ({"write-only": "yes"}, ["Give true or false"]),
        ({"sequence.field": "sek"}, ["'sek'", "'seq'"]),
        ({"sequence.field": "Seq"}, ["'Seq'", "'seq'", "case count"]),
        ({"sequence.field": "tags"}, ["list<", "nested types have no order"]),
        ({"sequence.field": "id"}, ["part of the primary key"]),
        ({"sequence.field": "dt"}, ["part of the primary key"]),
        ({"sequence.field": "seq,seq"}, ["each column once"]),
        ({"sequence.field.sort-order": "asc"}, ["no effect without 'sequence.field'"]),
        ({"sequence.delete-retention": "1 d"}, ["no effect without 'sequence.field'"]),
        ({"rowkind.field": "seq"}, ["timestamp", "string column"]),
        ({"rowkind.field": "knd"}, ["'knd'", "'kind'"]),
        ({"rowkind.field": "dt"}, ["part of the primary key"]),
        ({"file.compression": "gzip"}, ["Give one of 'zstd', 'snappy', 'lz4', 'none'."]),
        ({"target-file-size": "1"}, ["from 1 kb"]),
        ({"scan.snapshot-id": "1"}, ["cannot be given here", "option of reads"]),
        ({"commit-user": "me"}, ["cannot be given here", "option of writes"]),
        ({"snapshot.expire.limit": "10"}, ["not in this version", "in small steps"]),
        ({"file.format": "orc"}, ["not in this version", "always Parquet"]),
        ({"manifest.target-file-size": "1 mb"}, ["not in this version", "no manifest files"]),
        ({"fields.a.aggregate-function": "sum"}, ["not in this version"]),
        ({"maxFilesPerTrigger": "1"}, ["cannot be given here", "Spark's streams"]),
    ],
)
def test_tables_with_a_key_may_not_have(options: dict[str, str], parts: list[str]) -> None:
    with pytest.raises(InvalidArgument) as caught:
        check(options)
    for part in parts:
        assert part in caught.value.message
    assert caught.value.metadata["option" if "does not have" not in caught.value.message else "column"]


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        *(
            ({key: "10"}, [f"'{key}' = '10'", "no sorted runs", "'compaction.min.file-num'"])
            for key in (
                "num-sorted-run.compaction-trigger",
                "num-levels",
                "compaction.max-size-amplification-percent",
                "compaction.size-ratio",
                "compaction.total-size-threshold",
                "compaction.incremental-size-threshold",
            )
        ),
        (
            {"bucket": "4", "bucket-key": "id", "source.split.open-file-cost": "1 mb"},
            ["'source.split.open-file-cost'", "only neighbours"],
        ),
        ({"compaction.min.file-num": "1"}, ["from 2 to 1000000"]),
        ({"bucket-key": "id"}, ["'bucket' is -1"]),
        ({"bucket": "-1", "bucket-key": "id"}, ["'bucket' is -1"]),
        ({"bucket": "4"}, ["give 'bucket-key'"]),
        ({"bucket": "0", "bucket-key": "id"}, ["1 to 65536"]),
        ({"bucket": "4", "bucket-key": "price"}, ["'price' has type double", "cannot be keys"]),
        ({"bucket": "4", "bucket-key": "tags"}, ["cannot be keys"]),
        ({"bucket": "4", "bucket-key": "nope"}, ["'nope'", "does not have"]),
        ({"merge-engine": "deduplicate"}, ["no primary key"]),
        ({"sequence.field": "seq"}, ["no primary key"]),
        ({"rowkind.field": "kind"}, ["no primary key"]),
        ({"ignore-delete": "true"}, ["no primary key"]),
        ({"changelog-producer": "input"}, ["'changelog-producer' = 'input'", "no primary key", "never change"]),
        ({"changelog-producer": "lookup"}, ["no primary key", "without a changelog"]),
    ],
)
def test_append_tables_may_not_have(options: dict[str, str], parts: list[str]) -> None:
    with pytest.raises(InvalidArgument) as caught:
        check(options, primary_key=(), partition_by=("dt",))
    for part in parts:
        assert part in caught.value.message


@pytest.mark.parametrize(
    ("primary_key", "partition_by", "part"),
    [
        (("id",), ("dt",), "lacks the partition column 'dt'"),
        (("dt",), ("dt",), "has only partition columns"),
        (("id", "id"), (), "The primary key names column 'id' twice"),
        (("idd",), (), "'idd', which the table does not have. The columns nearest to it are 'id'"),
        (("id",), ("nope",), "The list of partition columns has column 'nope'"),
    ],
)
def test_keys_that_cannot_be(primary_key: tuple[str, ...], partition_by: tuple[str, ...], part: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        check({}, primary_key, partition_by)
    assert part in caught.value.message


@pytest.mark.parametrize("name", ["_row_kind", "_SNAPSHOT_ID", "_commit_timestamp", "_replaces_older"])
def test_reserved_columns_are_refused(name: str) -> None:
    with pytest.raises(InvalidArgument, match="reserved name"):
        check({}, (), (), pa.schema([("id", pa.int64()), (name, pa.int64())]))


def test_columns_that_differ_in_case_only_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="'straße' and 'STRASSE'"):
        check({}, (), (), pa.schema([("straße", pa.int64()), ("STRASSE", pa.int64())]))


def test_values_of_unknown_options_are_not_repeated() -> None:
    for key in ("kafka.sasl.password", "pasword"):
        with pytest.raises(InvalidArgument) as caught:
            check({key: "s3cret"})
        assert "s3cret" not in caught.value.message
        assert "s3cret" not in str(caught.value.metadata)


def test_values_must_be_texts() -> None:
    with pytest.raises(InvalidArgument, match=r"'bucket' has a value of type int.*as text"):
        check({"bucket": 4})  # type: ignore[dict-item]


def test_what_may_change() -> None:
    check_alter(
        {"bucket": "4", "ignore-delete": "true"}, {"target-file-size": "1 mb", "bucket": " 4"}, ["ignore-delete"]
    )
    check_alter({}, {}, ["bucket", "write-buffer-size"])
    # The next compaction goes by them; files above the highest level stay until then.
    check_alter({"num-levels": "9"}, {"num-levels": "3", "num-sorted-run.compaction-trigger": "2"}, [])
    check_alter({"compaction.min.file-num": "9"}, {}, ["compaction.min.file-num"])
    check_alter({"sequence.field": "a,b"}, {"sequence.field": "a, b"}, [])
    # What a snapshot has it says itself, so that a producer may change.
    check_alter({"changelog-producer": "lookup"}, {"changelog-producer": "input"}, [])


@pytest.mark.parametrize(
    ("set_options", "unset", "parts"),
    [
        ({"bucket": "8"}, [], ["'bucket' cannot change", "buckets by this number"]),
        ({}, ["bucket"], ["'bucket' cannot change"]),
        ({"sequence.field": "b"}, [], ["'sequence.field' cannot change"]),
        ({"rowkind.field": "b"}, [], ["'rowkind.field' cannot change"]),
        ({"target-file-size": "big"}, [], ["'target-file-size' = 'big'"]),
        ({}, ["write-bufer-size"], ["'write-bufer-size' is unknown", "'write-buffer-size'"]),
        ({"file.compression": "lz4"}, ["file.compression"], ["set and unset at once"]),
        ({"snapshot.expire.limit": "1"}, [], ["not in this version"]),
    ],
)
def test_what_may_not_change(set_options: dict[str, str], unset: list[str], parts: list[str]) -> None:
    with pytest.raises(InvalidArgument) as caught:
        check_alter({"bucket": "4", "sequence.field": "a"}, set_options, unset)
    for part in parts:
        assert part in caught.value.message
