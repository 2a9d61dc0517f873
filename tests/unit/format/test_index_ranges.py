"""Which numbers have come."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lakelog.format.keys.index_ranges import IndexRanges

NUMBERS = st.lists(st.lists(st.integers(0, 30), max_size=12), max_size=12)


@given(NUMBERS)
def test_each_number_is_new_once(batches: list[list[int]]) -> None:
    ranges, seen = IndexRanges(), set[int]()
    for batch in batches:
        wanted = []
        for number in batch:
            wanted.append(number not in seen)
            seen.add(number)
        assert ranges.add(np.array(batch, np.int64)).tolist() == wanted
        assert len(ranges) == sum(number - 1 not in seen for number in seen)
        for count in range(33):
            assert ranges.holds_all(count) == (seen == set(range(count)))
