"""No rewrite of any neighbouring runs, at any moment, changes what is read then or after any later commit.

LAKELOG_RANDOM_REWRITES tries more histories than CI has time for.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.tables.rewriting import Bucket

EXAMPLES = int(os.environ.get("LAKELOG_RANDOM_REWRITES", "25"))
OPTIONS: list[dict[str, str]] = [
    {},
    {"sequence.field": "seq"},
    {"sequence.field": "seq", "sequence.field.sort-order": "desc"},
    {"sequence.field": "seq", "write-buffer-size": "1 kb"},
    {"merge-engine": "first-row", "ignore-delete": "true"},
]
RECORDS = st.lists(
    st.tuples(
        st.integers(0, 3), st.one_of(st.none(), st.integers(0, 4)), st.sampled_from(["+I", "+I", "+U", "-D", "-U"])
    ),
    min_size=1,
    max_size=6,
)
COMMITS = st.tuples(st.just("commit"), RECORDS, st.integers(0, 14))
REWRITES = st.tuples(
    st.just("rewrite"),
    st.integers(0, 100),
    st.integers(1, 6),
    st.lists(COMMITS, max_size=2),
    st.sampled_from([1, 10**6]),
)


@pytest.mark.parametrize("options", OPTIONS, ids=lambda each: " ".join(each.values()) or "-")
@given(events=st.lists(st.one_of(COMMITS, COMMITS, REWRITES), max_size=14))
@settings(max_examples=EXAMPLES, deadline=None)
def test_a_rewrite_changes_no_read(options: dict[str, str], events: list[Any]) -> None:
    bucket = Bucket(options)
    for event in events:
        if event[0] == "commit":
            commit(bucket, event)
        elif bucket.files:
            _, first, count, meanwhile, memory_bytes = event
            begun = bucket.begin_rewrite(first % len(bucket.files), count, memory_bytes)
            for each in meanwhile:
                commit(bucket, each)
            bucket.end_rewrite(*begun)
        bucket.check()


def commit(bucket: Bucket, event: Any) -> None:
    _, records, pause_ms = event
    if bucket.policy.keep_first:
        records = [record for record in records if record[2] in ("+I", "+U")]
    if records:
        bucket.commit(records, pause_ms)
