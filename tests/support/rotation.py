"""Which tests rotate: a push takes a quarter of them, and another quarter with each commit.

Those are random tests by their seeds, and the SDK's and the compactor's tests on Postgres: the same tests run on the
store in memory on each push, and what Postgres adds is the contract suite's to test. So are the rules of rows through
Spark: each push takes all of them through the SDK, whose code for rows and commits Spark's tasks run too, and a quarter
of each chapter through Spark. The steps at which a pipeline is killed rotate as seeds, too: each takes two starts of
Spark, and each push kills a pipeline of files at one of them, and one of a topic at another. Slow tests rotate too:
those marked so, most of them of processes that die, and those on a Kubernetes control plane.
"""

from __future__ import annotations

import subprocess
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import pytest

from tests.support.repository import ROOT

QUARTERS: Final = 4

_ON_EITHER_STORE: Final = ("tests/integration/sdk/", "tests/integration/compactor/")
_RULES: Final = ("tests/conformance/test_rules.py::test_rule[", "tests/conformance/test_row_change_rules.py::")
_KUBE: Final = "tests/kube/"
_SLOW: Final = "slow"


def parse_quarter(text: str) -> int:
    """Of an option's value: 0 to 3, or `commit` for the one that this commit takes (0 where there is no history)."""
    if text != "commit":
        return int(text)
    found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return int(found.stdout.strip()[:6] or "0", 16) % QUARTERS


def is_random(item: pytest.Item) -> bool:
    """Whether a test draws what it does from a seed among its parameters."""
    return "seed" in getattr(getattr(item, "callspec", None), "params", {})


def find_group(item: pytest.Item) -> str | None:
    """What a test has in common with those that it takes turns with; None: it always runs."""
    arguments = dict(getattr(getattr(item, "callspec", None), "params", {}))
    if arguments.get("metastore") == "postgres" and item.nodeid.startswith(_ON_EITHER_STORE):
        return item.nodeid.partition("::")[0]
    if "spark" in (arguments.get("driver"), arguments.get("way")) and item.nodeid.startswith(_RULES):
        return item.nodeid.partition("::")[0]
    if item.nodeid.startswith(_KUBE):
        return _KUBE
    if not is_random(item):
        return None if item.get_closest_marker(_SLOW) is None else _SLOW
    del arguments["seed"]
    return f"{item.nodeid.partition('[')[0]} {sorted(arguments.items(), key=lambda argument: argument[0])}"


def find_other_quarters(groups: Sequence[str | None], quarter: int) -> set[int]:
    """The places of the tests that are not of this quarter; pure.

    Args:
        groups: Of each test, as of `find_group`.
        quarter: 0 to 3. A group with fewer than four tests always runs as a whole.
    """
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, group in enumerate(groups):
        if group is not None:
            places[group].append(place)
    return {
        place
        for of_group in places.values()
        if len(of_group) >= QUARTERS
        for number, place in enumerate(of_group)
        if number % QUARTERS != quarter
    }
