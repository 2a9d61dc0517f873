from __future__ import annotations

import pyarrow as pa
import pytest

from lakelog.errors import InvalidArgument
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table

from .shop import make_orders, names, orders


@pytest.fixture
def parts(catalog: Catalog) -> Table:
    schema = pa.schema([("dt", pa.string()), ("hour", pa.int32()), ("n", pa.int64())])
    table = catalog.create_table("shop.parts", schema, partition_by=["dt", "hour"])
    rows = {"dt": ["a", "a", "b", None], "hour": [1, 2, 1, 1], "n": [1, 2, 3, 4]}
    table.append(pa.table(rows, schema=schema))
    return table


def numbers(table: Table) -> list[int]:
    return sorted(table.scan().to_arrow().column("n").to_pylist())


def part_rows(*rows: tuple[str | None, int, int]) -> pa.Table:
    dts, hours, ns = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table(
        {"dt": pa.array(dts, pa.string()), "hour": pa.array(hours, pa.int32()), "n": pa.array(ns, pa.int64())}
    )


def test_overwrite_of_the_whole_table(parts: Table) -> None:
    parts.overwrite(part_rows(("z", 1, 9)))
    assert numbers(parts) == [9]
    parts.overwrite(part_rows())
    assert numbers(parts) == []
    assert parts.snapshots().column("kind").to_pylist() == ["APPEND", "OVERWRITE", "OVERWRITE"]
    assert parts.scan(snapshot_id=1).count() == 4


def test_static_overwrite(parts: Table) -> None:
    parts.overwrite(part_rows(("a", 7, 9)), {"dt": "a"})
    assert numbers(parts) == [3, 4, 9]
    parts.overwrite(pa.table({"n": [5]}), {"dt": "b", "hour": 1})
    assert numbers(parts) == [4, 5, 9]
    parts.overwrite(part_rows(), {"dt": None})
    assert numbers(parts) == [5, 9]
    with pytest.raises(InvalidArgument, match="Row 1 has dt='b', but only the partition dt='a'"):
        parts.overwrite(part_rows(("a", 1, 1), ("b", 1, 1)), {"dt": "a"})
    assert numbers(parts) == [5, 9]


def test_a_static_partition_may_be_given_as_text(catalog: Catalog, parts: Table) -> None:
    parts.overwrite(pa.table({"n": [5]}), {"dt": "b", "hour": "1"})
    assert numbers(parts) == [1, 2, 4, 5]
    days = catalog.create_table("shop.days", pa.schema([("day", pa.date32()), ("n", pa.int64())]), partition_by=["day"])
    days.append(pa.table({"day": pa.array([0, 1], pa.int32()).cast(pa.date32()), "n": [1, 2]}))
    days.overwrite(pa.table({"n": [3]}), {"day": "1970-01-02"})
    assert numbers(days) == [1, 3]
    with pytest.raises(InvalidArgument, match=r"partition has '1970-02-30' for column 'day', which is of type date32"):
        days.overwrite(pa.table({"n": [3]}), {"day": "1970-02-30"})


def test_dynamic_overwrite(parts: Table) -> None:
    parts.overwrite(part_rows(("a", 1, 10), ("c", 1, 11)), "dynamic")
    assert numbers(parts) == [2, 3, 4, 10, 11]
    assert parts.overwrite(part_rows(), "dynamic").snapshot_id is None
    assert numbers(parts) == [2, 3, 4, 10, 11]


@pytest.mark.parametrize(
    ("partition", "message"),
    [
        ("dinamic", "give a dict"),
        ({}, "names no partition"),
        ({"n": 1}, "'n' is no partition column"),
        ({"hour": "one"}, "hour"),
        ({"hour": object()}, "hour"),
        (["a"], "give a dict"),
    ],
)
def test_wrong_partitions_are_refused(parts: Table, partition: object, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        parts.overwrite(part_rows(), partition)  # type: ignore[arg-type]
    assert numbers(parts) == [1, 2, 3, 4]


def test_overwrite_of_tables_without_partitions(catalog: Catalog) -> None:
    table = make_orders(catalog)
    table.upsert(orders((1, "a", None), (2, "b", None)))
    table.overwrite(orders((3, "c", None), (3, "C", None)))
    assert names(table) == {3: "C"}
    for partition in ("dynamic", {"id": 1}):
        with pytest.raises(InvalidArgument, match="has no partitions"):
            table.overwrite(orders(), partition)


def test_a_partition_column_that_comes_twice_is_reported_with_the_rest(catalog: Catalog) -> None:
    columns = pa.schema([("dt", pa.string()), ("v", pa.int64())])
    table = catalog.create_table("shop.days", columns, partition_by=["dt"])
    twice = pa.table([pa.array(["a"]), pa.array(["a"]), pa.array([1])], names=["dt", "dt", "v"])
    with pytest.raises(InvalidArgument, match="dt: expected one column, got 2 columns of this name"):
        table.overwrite(twice, {"dt": "a"})
