from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from lakelog.format.merge.sections import KeyRange, do_meet, find_depth, split_sections

POINTS = st.one_of(st.none(), st.integers(0, 30).map(lambda n: bytes([n])))
RANGES = st.lists(
    st.tuples(POINTS, POINTS).map(
        lambda p: KeyRange(*p) if None in p else KeyRange(min(p), max(p))  # type: ignore[type-var]
    ),
    max_size=12,
)


def overlap(a: KeyRange, b: KeyRange) -> bool:
    return (a.lower is None or b.upper is None or a.lower <= b.upper) and (
        b.lower is None or a.upper is None or b.lower <= a.upper
    )


def test_ranges_that_touch_belong_together() -> None:
    ranges = [KeyRange(b"a", b"c"), KeyRange(b"x", b"z"), KeyRange(b"c", b"e"), KeyRange(b"f", b"g")]
    assert split_sections(ranges) == [[0, 2], [3], [1]]


def test_an_unbounded_file_joins_all_it_reaches() -> None:
    assert split_sections([KeyRange(b"a", b"b"), KeyRange(b"d", b"e"), KeyRange(b"d", None), KeyRange(b"x", b"y")]) == [
        [0],
        [1, 2, 3],
    ]
    assert split_sections([KeyRange(b"a", b"b"), KeyRange(None, None), KeyRange(b"d", b"e")]) == [[0, 1, 2]]
    assert split_sections([]) == []


@given(RANGES)
def test_sections_are_the_connected_components(ranges: list[KeyRange]) -> None:
    components = [{i} for i in range(len(ranges))]
    for i in range(len(ranges)):
        for j in range(i):
            if overlap(ranges[i], ranges[j]):
                joined = [c for c in components if i in c or j in c]
                components = [c for c in components if c not in joined] + [set().union(*joined)]
    sections = split_sections(ranges)
    assert sorted(map(sorted, components)) == sorted(sections)
    for left, right in pairwise(sections):
        assert min(ranges[i].lower or b"" for i in left) < min(ranges[i].lower or b"" for i in right)


@given(RANGES)
def test_the_depth_is_how_many_meet_in_one_key(ranges: list[KeyRange]) -> None:
    points = [bytes([number]) for number in range(32)]
    depths = [sum(do_meet(each, KeyRange(point, point)) for each in ranges) for point in [b"", *points]]
    assert find_depth(ranges) == max([1, *depths])
    for left in ranges:
        for right in ranges:
            assert do_meet(left, right) == overlap(left, right)
