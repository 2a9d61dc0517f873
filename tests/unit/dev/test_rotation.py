"""A quarter of the rotating tests a push: the four quarters are all of them, and no other test is ever left out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.rotation import QUARTERS, find_group, find_other_quarters

GROUPS = ["a", None, "b", "a", "a", None, "c", *["a"] * 7, *["c"] * 3, "b"]


def test_each_seed_is_in_one_quarter() -> None:
    left_out = [find_other_quarters(GROUPS, quarter) for quarter in range(QUARTERS)]
    for place, group in enumerate(GROUPS):
        runs = sum(place not in of_quarter for of_quarter in left_out)
        assert runs == (1 if group in ("a", "c") else QUARTERS), (place, group)


def test_each_group_runs_in_each_quarter() -> None:
    for quarter in range(QUARTERS):
        left_out = find_other_quarters(GROUPS, quarter)
        assert {group for place, group in enumerate(GROUPS) if place not in left_out} == {"a", "b", "c", None}


def item(test: str, *marks: str, **arguments: object) -> Any:
    return SimpleNamespace(
        nodeid=test,
        callspec=SimpleNamespace(params=arguments),
        get_closest_marker=lambda name: SimpleNamespace(args=marks) if name == "rotates" and marks else None,
    )


@pytest.mark.parametrize(
    "always",
    [
        item("tests/unit/test_a.py::test_a"),
        item("tests/conformance/test_rules.py::test_rule[sdk-1.1-a]", driver="sdk", case=1),
        item("tests/conformance/test_rules.py::test_rule_by_format[spark-1.1-a]", case=1),
        item("tests/conformance/test_ranges.py::test_rule[spark-1.1-a]", driver="spark", case=1),
        item("tests/integration/sdk/test_a.py::test_a[memory]", metastore="memory"),
        item("tests/contract/metastore/test_a.py::test_a[postgres]", metastore="postgres"),
    ],
    ids=lambda each: each.nodeid,
)
def test_most_tests_always_run(always: Any) -> None:
    assert find_group(always) is None


def test_rules_take_turns_through_spark_only() -> None:
    names = ["1.1-a", "1.1-b", "7.5-c"]
    rules = [item(f"tests/conformance/test_rules.py::test_rule[spark-{name}]", driver="spark") for name in names]
    (group,) = {find_group(rule) for rule in rules}
    assert group is not None


def test_seeds_take_turns_by_what_else_a_test_is_given() -> None:
    tests = [item(f"tests/a.py::test_a[{n}]", seed=n, limit=n % 2) for n in range(4)]
    groups = [find_group(each) for each in tests]
    assert groups[0] == groups[2] != groups[1] == groups[3]


def test_marked_tests_of_a_group_take_turns() -> None:
    tests = [item("tests/a.py::test_a", "long"), item("tests/b.py::test_b[1]", "long"), item("tests/b.py::test_c", "x")]
    first, second, third = (find_group(each) for each in tests)
    assert first == second != third
    assert None not in (first, third)
