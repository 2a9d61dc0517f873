"""Partitions that a condition names are found by their names: the same ones that a test of each finds."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.format.commit.facts import TableHead
from lakelog.format.keys.encoding import MAX_PARTITION_BYTES, encode_values
from lakelog.format.tables.plan import PlanRequest
from lakelog.format.tables.predicate import AllOf, AnyOf, Comparison, Operator, Predicate
from lakelog.format.tables.prune import PreparedPredicate
from lakelog.format.types.schema import TableSchema, assign_field_ids
from metastore.plans import file_filter
from metastore.plans.file_filter import PartitionMatches, make_filter, name_partitions

DAY, PLACE, OTHER = 1, 2, 3
COLUMNS = (DAY, PLACE)
SCHEMA = TableSchema(
    0,
    assign_field_ids(pa.schema([("day", pa.int64()), ("place", pa.string()), ("other", pa.string())])),
    partition_by=("day", "place"),
)
HEAD = TableHead(1, "a" * 32, "shop.orders", 0, -1, True)


def encode(values: list[Any], data_type: pa.DataType) -> list[bytes]:
    found: list[bytes] = encode_values(pa.array(values, data_type)).to_pylist()
    return found


DAYS = encode([None, 0, 1, -1, 2**62], pa.int64())
PLACES = encode([None, "", "a", "a\0", "ab", "\x01", "x" * 3000], pa.string())
PARTITIONS = sorted(day + place for day in DAYS for place in PLACES if len(day + place) <= MAX_PARTITION_BYTES)

# Also what no column has, and what splits elsewhere than between the columns.
HOSTILE = [b"", b"\x00", b"\x01", b"\x00\x00", *DAYS, *PLACES, *(day + b"\x01" for day in DAYS), *PARTITIONS[:8]]
comparisons = st.builds(
    lambda column, operator, values: Comparison(
        column,
        operator,
        () if "NULL" in operator.value else tuple(values) if operator is Operator.IN else tuple(values[:1]),
    ),
    st.sampled_from([DAY, PLACE, OTHER]),
    st.sampled_from([Operator.IN, Operator.IN, Operator.IN, *Operator]),
    st.lists(st.sampled_from(HOSTILE), min_size=1, max_size=4, unique=True),
)
predicates: st.SearchStrategy[Predicate] = st.recursive(
    comparisons,
    lambda inner: st.builds(
        lambda kind, operands: kind(tuple(operands)),
        st.sampled_from([AllOf, AllOf, AnyOf]),
        st.lists(inner, min_size=1, max_size=4),
    ),
    max_leaves=8,
)


@dataclass
class Partitions:
    """A table's partitions, in place of a transaction."""

    known: list[bytes]

    async def list_partitions(self, table_id: int) -> list[bytes]:
        return self.known


def find(predicate: Predicate, known: list[bytes]) -> frozenset[bytes] | None:
    matches = PartitionMatches(PreparedPredicate(predicate))
    made = asyncio.run(make_filter(Partitions(known), HEAD, SCHEMA, PlanRequest("a" * 32), matches))  # type: ignore[arg-type]
    assert made is not None
    return made.partitions


@given(predicates, st.lists(st.sampled_from(PARTITIONS), unique=True).map(sorted))
def test_the_same_partitions_as_by_a_test_of_each(predicate: Predicate, known: list[bytes]) -> None:
    found = find(predicate, known)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(file_filter, "name_partitions", lambda *_: None)
        assert found == find(predicate, known)


def test_only_named_partitions_are_tested() -> None:
    known = sorted(day + place for day in encode([*range(1000)], pa.int64()) for place in PLACES[:3])
    wanted = AllOf((Comparison(DAY, Operator.IN, (DAYS[1], DAYS[2])), Comparison(PLACE, Operator.IS_NULL)))
    named = frozenset({DAYS[1] + b"\0", DAYS[2] + b"\0"})
    assert find(wanted, known) == named, "of more than are tested within a transaction"
    matches = PartitionMatches(PreparedPredicate(Comparison(DAY, Operator.IN, (DAYS[1],))))
    general = make_filter(Partitions(known), HEAD, SCHEMA, PlanRequest("a" * 32), matches)  # type: ignore[arg-type]
    assert asyncio.run(general) is None, "the control: a part that is not named"


@pytest.mark.parametrize(
    "predicate",
    [
        Comparison(DAY, Operator.IN, (DAYS[1],)),
        AnyOf((Comparison(DAY, Operator.IN, (DAYS[1],)), Comparison(PLACE, Operator.IN, (PLACES[1],)))),
        AllOf((Comparison(DAY, Operator.LESS, (DAYS[1],)), Comparison(PLACE, Operator.IN, (PLACES[1],)))),
        AllOf(
            (
                Comparison(DAY, Operator.IN, tuple(encode([*range(100)], pa.int64()))),
                Comparison(PLACE, Operator.IN, tuple(encode([*map(str, range(6))], pa.string()))),
            )
        ),
    ],
    ids=["a part", "either", "a range", "too many"],
)
def test_what_names_no_partitions(predicate: Predicate) -> None:
    assert name_partitions(PreparedPredicate(predicate), COLUMNS) is None


def test_long_values_do_not_multiply() -> None:
    long = Comparison(DAY, Operator.IN, (b"x" * 4_000_000, DAYS[1]))
    many = Comparison(PLACE, Operator.IN, tuple(encode([*map(str, range(200))], pa.string())))
    found = name_partitions(PreparedPredicate(AllOf((long, many))), COLUMNS)
    assert found is not None
    assert sum(map(len, found)) < 10_000
