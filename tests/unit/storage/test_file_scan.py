from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from lakelog.format.filter.condition import parse_filter
from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.options.values import TableOptions
from lakelog.storage.merging.deletion_vectors import DeletionVectorCache
from lakelog.storage.merging.merge_policy import to_merge_policy
from lakelog.storage.objects.memory import MemoryStore
from lakelog.storage.parquet.live_file import LiveFile
from lakelog.storage.parquet.reader import DataFileReader
from lakelog.storage.parquet.row_groups import pick_row_groups
from lakelog.storage.scan.file_scan import FileScan, ScanColumns

from .data_files import write_data_file

SCHEMA = TableSchema(
    0,
    assign_field_ids(
        pa.schema(
            [
                pa.field("id", pa.int64(), nullable=False),
                pa.field("f", pa.float64()),
                pa.field("t", pa.string()),
                pa.field("d", pa.decimal128(9, 2)),
                pa.field("d38", pa.decimal128(38, 0)),
                pa.field("day", pa.date32()),
                pa.field("at", pa.timestamp("us", "UTC")),
                pa.field("flag", pa.bool_()),
                pa.field("b", pa.binary()),
            ]
        )
    ),
    primary_key=("id",),
)
POLICY = to_merge_policy(SCHEMA, TableOptions({}))


def make_table(ids: np.ndarray, version: str) -> pa.Table:
    days = pa.array(ids.astype(np.int32)).cast(pa.date32())
    columns = {
        "id": ids,
        "f": np.where(ids % 1000 == 7, np.nan, ids / 10),
        "t": [f"{version} {n:05d}" for n in ids],
        "d": pa.array([Decimal(int(n)) / 100 for n in ids], pa.decimal128(9, 2)),
        "d38": pa.array([Decimal(int(n) - 2500) * 10**30 for n in ids], pa.decimal128(38, 0)),
        "day": days,
        "at": pa.array(ids * 1_000_000).cast(pa.timestamp("us", "UTC")),
        "flag": ids >= 2500,
        "b": [n.to_bytes(4, "big") for n in ids.tolist()],
    }
    return pa.table(columns, schema=SCHEMA.arrow)


@pytest.fixture(scope="module")
def bucket() -> tuple[MemoryStore, list[LiveFile]]:
    store = MemoryStore()
    runs = [np.arange(5000), np.arange(0, 5000, 3), np.arange(2000, 2600)]
    files = [write_data_file(store, f"d/{n}", SCHEMA, make_table(ids, f"v{n}"), order=n) for n, ids in enumerate(runs)]
    return store, files


def read(bucket: tuple[MemoryStore, list[LiveFile]], condition: str, returned: tuple[str, ...]) -> pa.Table:
    store, files = bucket
    parsed = parse_filter(condition, SCHEMA.arrow)
    used = {*returned, *parsed.columns}
    columns = ScanColumns(
        tuple(field for field in SCHEMA.arrow if field.name in used),
        returned,
        parsed.to_arrow(),
        parsed.columns,
        parsed.to_predicate(SCHEMA.field_ids),
        parsed.to_predicate({"id": SCHEMA.field_ids["id"]}),
    )
    scan = FileScan(store, files, SCHEMA, columns, POLICY)
    table = pa.Table.from_batches(list(scan.read_batches()), scan.returned_schema)
    assert scan.count_rows() == table.num_rows
    return table


CONDITIONS = [
    "id = 4999",
    "id in (3, 2001, 17)",
    "id between 1990 and 2010",
    "id < 0",
    "f > 499.5",
    "f = cast('NaN' as double)",
    "t like 'v1 00%'",
    "t >= 'v2'",
    "d = 20.05",
    "d38 > 2400000000000000000000000000000000",
    "day = DATE '1976-01-01'",
    "at >= TIMESTAMP '1970-01-01 01:20:00'",
    "flag and id < 2510",
    "b = X'000003E8'",
    "t is null",
    "1 = 1",
    "id = 5 or t = 'v2 02001'",
]


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("returned", [("id", "t"), ("f",), ()])
def test_the_answer_equals_filtering_afterwards(
    bucket: tuple[MemoryStore, list[LiveFile]], condition: str, returned: tuple[str, ...]
) -> None:
    everything = read(bucket, "1 = 1", tuple(SCHEMA.arrow.names))
    assert everything.num_rows == 5000
    expected = everything.filter(parse_filter(condition, SCHEMA.arrow).to_arrow())
    found = read(bucket, condition, returned)
    assert found.num_rows == expected.num_rows
    if returned:
        order = [(name, "ascending") for name in returned]
        found, expected = found.sort_by(order), expected.select(list(returned)).sort_by(order)
        assert repr(found.to_pylist()) == repr(expected.to_pylist())


@pytest.mark.parametrize(
    ("condition", "groups"),
    [
        ("id = 4999", [4]),
        ("id in (3, 2001)", [0, 2]),
        ("t = 'v0 01000'", [1]),
        ("d = 20.05", [2]),
        ("d < 10", [0]),
        ("d38 > 2400000000000000000000000000000000", [4]),
        ("day < DATE '1972-01-01'", [0]),
        ("at >= TIMESTAMP '1970-01-01 01:20:00'", [4]),
        ("flag", [2, 3, 4]),
        ("b = X'000003E8'", [1]),
        ("t is null", []),
        ("f > 499.5", [0, 1, 2, 3, 4]),
    ],
)
def test_row_groups_without_a_match_are_left_out(
    bucket: tuple[MemoryStore, list[LiveFile]], condition: str, groups: list[int]
) -> None:
    store, files = bucket
    predicate = parse_filter(condition, SCHEMA.arrow).to_predicate(SCHEMA.field_ids)
    with DataFileReader(store, files[0]) as reader:
        assert pick_row_groups(reader, SCHEMA.arrow, predicate) == groups


def test_bounds_of_a_dropped_column_say_nothing_of_a_new_one_of_its_name(
    bucket: tuple[MemoryStore, list[LiveFile]],
) -> None:
    store, files = bucket
    fields = pa.schema([SCHEMA.arrow.field("id").with_metadata({"PARQUET:field_id": "77"})])
    # Of the new column all rows have NULL, of the old one none has.
    for condition, groups in (("id = 3", []), ("id = 9999", []), ("id is null", [0, 1, 2, 3, 4])):
        predicate = parse_filter(condition, fields).to_predicate({"id": 77})
        with DataFileReader(store, files[0]) as reader:
            assert pick_row_groups(reader, fields, predicate) == groups


def test_a_read_that_is_ended_early_leaves_no_thread(bucket: tuple[MemoryStore, list[LiveFile]]) -> None:
    import threading

    store, files = bucket
    before = threading.active_count()
    columns = ScanColumns(tuple(SCHEMA.arrow), tuple(SCHEMA.arrow.names))
    batches = FileScan(store, files, SCHEMA, columns, POLICY, DeletionVectorCache(0)).read_batches()
    next(batches)
    batches.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before
