from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakelog.format.commit.guards import Places
from lakelog.format.commit.request import BucketRef
from lakelog.format.filter.condition import parse_filter
from lakelog.format.keys.encoding import decode_partition, encode_key
from lakelog.format.tables.predicate import Comparison, Operator
from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.options.values import TableOptions
from lakelog.storage.write.routing import Routing, find_buckets, find_places, route_rows, to_routing

COLUMNS = pa.schema([("dt", pa.string()), ("hour", pa.int32()), ("id", pa.int64()), ("sub", pa.string())])


def make_schema(key: tuple[str, ...], partition_by: tuple[str, ...]) -> TableSchema:
    return TableSchema(0, assign_field_ids(COLUMNS), key, partition_by)


def test_each_row_goes_to_its_partition_and_bucket_in_order() -> None:
    random = np.random.default_rng(2)
    rows = 5000
    table = pa.table(
        {
            "dt": pa.array(random.choice(np.array(["a", "b", None], object), rows), pa.string()),
            "hour": pa.array(random.integers(0, 3, rows), pa.int32()),
            "id": random.integers(0, 100, rows),
            "sub": ["x"] * rows,
        }
    )
    schema = make_schema(("dt", "hour", "id"), ("dt", "hour"))
    routed = route_rows(table, to_routing(schema, TableOptions({"bucket": "4"})))
    assert len(routed) == 3 * 3 * 4
    seen: dict[tuple[object, ...], set[int]] = {}
    all_indices = []
    for part in routed:
        assert part.indices is not None
        assert (np.diff(part.indices) > 0).all()
        all_indices += part.indices.tolist()
        values = [value.as_py() for value in decode_partition(part.partition, [pa.string(), pa.int32()])]
        for row in table.take(pa.array(part.indices)).to_pylist():
            assert [row["dt"], row["hour"]] == values
            seen.setdefault((*values, row["id"]), set()).add(part.bucket)
    assert sorted(all_indices) == list(range(rows))
    assert all(len(buckets) == 1 for buckets in seen.values()), "a key lies in two buckets"


def test_rows_of_one_place_are_not_sorted_at_all() -> None:
    table = pa.table({"dt": ["a", "a"], "hour": pa.array([1, 1], pa.int32()), "id": [1, 2], "sub": ["x", "y"]})
    for schema, options in (
        (make_schema((), ()), TableOptions({})),
        (make_schema((), ("dt", "hour")), TableOptions({})),
        (make_schema(("id",), ()), TableOptions({})),
    ):
        (only,) = route_rows(table, to_routing(schema, options))
        assert (only.bucket, only.indices) == (0, None)
    assert route_rows(table.slice(0, 0), to_routing(make_schema((), ()), TableOptions({}))) == []


def test_partitions_come_in_the_order_of_their_first_row() -> None:
    table = pa.table(
        {"dt": ["b", "a", "b", None], "hour": pa.array([1] * 4, pa.int32()), "id": [1] * 4, "sub": [""] * 4}
    )
    routed = route_rows(table, to_routing(make_schema((), ("dt",)), TableOptions({})))
    found = [decode_partition(part.partition, [pa.string()])[0].as_py() for part in routed]
    assert found == ["b", "a", None]


def test_buckets_of_a_filter_are_those_of_its_keys() -> None:
    schema = make_schema(("id", "sub"), ())
    routing = to_routing(schema, TableOptions({"bucket": "16"}))

    def buckets(condition: str) -> tuple[int, ...]:
        return find_buckets(parse_filter(condition, schema.arrow).to_predicate(schema.field_ids), routing)

    for number in range(50):
        row = pa.table({"dt": [""], "hour": pa.array([0], pa.int32()), "id": [number], "sub": ["s"]})
        (only,) = route_rows(row, routing)
        assert buckets(f"id = {number} and sub = 's' and hour > 5") == (only.bucket,)
        assert only.bucket in buckets(f"id in ({number}, 77) and sub in ('s', 't')")
    assert buckets("id = 1") == ()
    assert buckets("id = 1 or sub = 's'") == ()
    assert buckets("id > 1 and sub = 's'") == ()
    assert find_buckets(None, routing) == ()


def test_buckets_of_a_long_list_are_those_of_its_keys() -> None:
    schema = make_schema(("id", "sub"), ())
    routing = to_routing(schema, TableOptions({"bucket": "20000"}))
    numbers = [7 * number for number in range(5000)]
    listed = ", ".join(map(str, numbers))
    predicate = parse_filter(f"id in ({listed}) and sub = 's'", schema.arrow).to_predicate(schema.field_ids)
    size = len(numbers)
    rows = pa.table({"dt": [""] * size, "hour": pa.array([0] * size, pa.int32()), "id": numbers, "sub": ["s"] * size})
    expected = tuple(sorted(part.bucket for part in route_rows(rows, routing)))
    assert find_buckets(predicate, routing) == expected
    assert 3000 < len(expected) < 5000


def test_places_of_a_filter_are_those_of_all_rows_that_fulfil_it() -> None:
    schema = make_schema(("id", "sub"), ("dt", "hour"))
    routing = to_routing(schema, TableOptions({"bucket": "16"}))

    def places(condition: str, routing: Routing = routing) -> Places | None:
        return find_places(parse_filter(condition, routing.schema.arrow).to_predicate(schema.field_ids), routing)

    rows = pa.table(
        {"dt": ["a", "a", "b"], "hour": pa.array([1, 2, 1], pa.int32()), "id": [1, 2, 3], "sub": ["s", "t", "u"]}
    )
    routed = route_rows(rows, routing)
    where = "dt in ('a', 'b') and hour in (1, 2)"
    by_partition, by_bucket = places(where), places(f"{where} and id in (1, 2, 3) and sub in ('s', 't', 'u')")
    assert by_partition is not None
    assert by_bucket is not None
    assert len(by_partition.partitions) == 4
    assert {each.partition for each in routed} < by_partition.partitions
    assert not by_partition.buckets
    assert {BucketRef(each.partition, each.bucket) for each in routed} <= by_bucket.buckets
    assert not by_bucket.partitions
    # Who can find rows anywhere guards everything.
    for condition in ("dt = 'a'", "dt = 'a' and hour > 1", "id = 1 and sub = 's'", "dt is null and hour = 1"):
        assert places(condition) is None
    assert places("dt = 'a' and hour = 1 or id = 1") is None
    assert places(f"dt in ({', '.join(repr(str(n)) for n in range(5001))}) and hour in (1, 2)") is None
    keyless = to_routing(make_schema((), ()), TableOptions({}))
    assert find_places(None, keyless) is None
    assert places("id = 1", keyless) is None


def test_buckets_are_found_for_times_that_python_does_not_know() -> None:
    columns = pa.schema([pa.field("at", pa.timestamp("us", "UTC"), nullable=False)])
    schema = TableSchema(0, assign_field_ids(columns), ("at",), ())
    routing = to_routing(schema, TableOptions({"bucket": "16"}))
    far = pa.array([400_000_000_000_000_000], pa.timestamp("us", "UTC"))  # The year 14645.
    predicate = Comparison(schema.field_ids["at"], Operator.IN, (encode_key([far[0]]),))
    (only,) = route_rows(pa.table({"at": far}), routing)
    assert find_buckets(predicate, routing) == (only.bucket,)
