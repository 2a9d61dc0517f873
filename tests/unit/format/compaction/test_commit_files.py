"""Which files of a commit are merged (semantics 6.4, 3.4). Files are told by their sizes and key ranges."""

from __future__ import annotations

import pytest

from lakelog.format.compaction.commit_files import (
    MAX_GROUP_FILES,
    MergeGroup,
    plan_append_files,
    plan_changelog_files,
    plan_keyed_files,
    replace_files,
    sort_by_key,
)
from lakelog.format.tables.files import DataFile

TARGET = 100
SMALL = 70


def make_file(name: str, size: int, keys: str = "", *, bucket: int = 0, partition: bytes = b"") -> DataFile:
    low, _, high = keys.partition("-")
    lower, upper = (part.encode() or None for part in (low, high or low))
    return DataFile(f"data/a/{name}", partition, bucket, 0, 1, 0, size, lower, upper, 0)


def keyed(text: str) -> list[DataFile]:
    """Files of a bucket from `10:a-c 100:d-f`, a size and the keys of each, in the commit's order."""
    return [
        make_file(str(place), int(part.split(":")[0]), part.split(":")[1]) for place, part in enumerate(text.split())
    ]


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        # A single file passes through, and so do large ones, and a small one with large ones.
        ("10:a-z", []),
        ("100:a-z 100:b-y", []),
        ("100:a-z 10:b-c", []),
        # Runs that overlap, neighbours that do not, and both.
        ("10:a-z 10:b-y", [(0, 1)]),
        ("10:a-c 10:d-f 69:g-h", [(0, 1, 2)]),
        ("10:x-z 10:a-c 10:b-f", [(0, 1, 2)]),
        # Large files that share no key with others stay, and part what lies on either side.
        ("10:a-b 100:c-d 10:e-f", []),
        ("10:a-b 10:b-c 100:d-e 10:f-g 10:g-h", [(0, 1), (3, 4)]),
        # A large one that shares keys comes along; large ones that share keys with large ones only stay.
        ("10:a-b 100:b-d 10:c-f", [(0, 1, 2)]),
        ("100:a-c 100:b-d 10:e-f 10:f-g", [(2, 3)]),
        ("70:a-b 70:b-c", []),
    ],
)
def test_stretches_of_a_bucket(text: str, groups: list[tuple[int, ...]]) -> None:
    assert [group.places for group in plan_keyed_files(keyed(text), SMALL)] == groups


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        # Files that stand apart or follow each other stay, also where a key is cut in the middle.
        ("100:a-z", []),
        ("100:d-f 100:a-c", []),
        ("100:a-c 100:c-c 100:c-f", []),
        # What came later and lies below is merged, and so is all that shares keys through others.
        ("100:c-f 100:a-c", [(0, 1)]),
        ("100:a-d 100:x-z 100:c-f 100:e-h", [(0, 2, 3)]),
        ("10:a-z 10:a-z 100:0-1", [(0, 1)]),
    ],
)
def test_changelog_files_that_share_keys(text: str, groups: list[tuple[int, ...]]) -> None:
    assert [group.places for group in plan_changelog_files(keyed(text), 0)] == groups


def test_changelog_files_are_merged_once_where_small_ones_are_too() -> None:
    groups = plan_changelog_files(keyed("10:a-b 10:b-c 100:m-p 100:n-o 10:x-y 10:y-z"), SMALL)
    assert sorted(group.places for group in groups) == [(0, 1), (2, 3), (4, 5)]


def test_changelog_files_without_bounds_are_merged_with_all() -> None:
    files = [make_file("a", 100, "a-b"), make_file("b", 100), make_file("c", 100, "x-z")]
    assert plan_changelog_files(files, 0) == (MergeGroup((0, 1, 2), 300),)


def test_files_are_sorted_within_their_buckets_only() -> None:
    files = [
        make_file("0", 1, "m-n"),
        make_file("1", 1, "x-z", bucket=1),
        make_file("2", 1, "a-c"),
        make_file("3", 1, "c-c"),
        make_file("4", 1, "a-b", bucket=1),
    ]
    assert [file.path[-1] for file in sort_by_key(files)] == ["2", "4", "3", "0", "1"]


def test_files_without_bounds_may_share_all_keys() -> None:
    files = [make_file("a", 10, "a-b"), make_file("b", 10), make_file("c", 100, "x-z")]
    assert plan_keyed_files(files, SMALL) == (MergeGroup((0, 1, 2), 120),)


def test_nothing_goes_over_the_bounds_of_buckets_and_partitions() -> None:
    files = [
        make_file(f"{turn}{partition!r}{bucket}", 10, "a-z", partition=partition, bucket=bucket)
        for turn in range(2)
        for partition in (b"p", b"q")
        for bucket in range(2)
    ]
    assert [group.places for group in plan_keyed_files(files, SMALL)] == [(0, 4), (1, 5), (2, 6), (3, 7)]
    in_buckets = plan_append_files(files, SMALL, TARGET, has_buckets=True)
    assert [group.places for group in in_buckets] == [(0, 4), (1, 5), (2, 6), (3, 7)]
    assert plan_keyed_files(files[:4], SMALL) == plan_append_files(files[:4], SMALL, TARGET, has_buckets=True) == ()


@pytest.mark.parametrize(
    ("sizes", "unordered", "ordered"),
    [
        ([10], [], []),
        ([10, 10, 10], [(0, 1, 2)], [(0, 1, 2)]),
        # Rows of a bucket stay in their order, so that nothing is taken past a large file.
        ([10, 100, 10], [(0, 2)], []),
        ([10, 10, 100, 10, 10], [(0, 1, 3, 4)], [(0, 1), (3, 4)]),
        # A group ends at twice the target size, and what is left alone stays.
        ([60, 60, 60, 60, 60], [(0, 1, 2, 3)], [(0, 1, 2, 3)]),
        ([60, 60, 60, 60, 60, 60], [(0, 1, 2, 3), (4, 5)], [(0, 1, 2, 3), (4, 5)]),
        ([70, 70, 70], [], []),
    ],
)
def test_files_of_append_tables(
    sizes: list[int], unordered: list[tuple[int, ...]], ordered: list[tuple[int, ...]]
) -> None:
    files = [make_file(str(place), size) for place, size in enumerate(sizes)]
    for has_buckets, wanted in ((False, unordered), (True, ordered)):
        groups = plan_append_files(files, SMALL, TARGET, has_buckets=has_buckets)
        assert [group.places for group in groups] == wanted


def test_two_thousand_files_become_few() -> None:
    """W11: at most one in a hundred is left."""
    files = [make_file(str(place), 10) for place in range(2000)]
    groups = plan_append_files(files, 7 << 20, 10 << 20, has_buckets=False)
    assert [len(group.places) for group in groups] == [MAX_GROUP_FILES] * (2000 // MAX_GROUP_FILES)
    assert len(groups) <= 20


def test_what_is_made_stands_in_the_place_of_the_first() -> None:
    files = keyed("10:a-b 100:m-n 10:b-c 10:x-y 10:y-z")
    groups = plan_keyed_files(files, SMALL)
    new = [keyed("20:a-c"), keyed("9:x-y 9:z-z")]
    assert replace_files(files, groups, new) == (*new[0], files[1], *new[1])
