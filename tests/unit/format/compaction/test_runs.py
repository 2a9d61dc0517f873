from __future__ import annotations

import pyarrow as pa
import pytest

from lakelog.errors import InvalidArgument
from lakelog.format.compaction.runs import SortedRun, to_bucket_files, update_runs
from lakelog.format.merge.sections import KeyRange, split_sections
from lakelog.format.tables.files import FILE_SCHEMA
from tests.unit.format.compaction.pictures import parse, to_files, to_table


def test_runs_stand_from_the_newest_to_the_oldest() -> None:
    files = to_files(
        parse("""
        L0  aaa.....
        L0  .....bb.
        L1  c.dd....
        L3  eeeee.ff
        """)
    )
    assert files.file_ids.tolist() == [6, 5, 3, 4, 1, 2]
    assert files.runs == (
        SortedRun(0, 30, 1, (4, 5)),
        SortedRun(0, 20, 1, (3, 4)),
        SortedRun(1, 30, 2),
        SortedRun(3, 70, 2),
    )
    assert [files.count_files(runs) for runs in range(5)] == [0, 1, 2, 4, 6]


def test_files_of_one_commit_are_ordered_by_their_ordinal() -> None:
    table = to_table(parse("L0  aabbcc"))
    files = to_bucket_files(table.take([1, 2, 0]))
    assert files.file_ids.tolist() == [3, 2, 1]
    assert [run.order_key for run in files.runs] == [(1, 2), (1, 1), (1, 0)]


def test_files_of_two_buckets_are_refused() -> None:
    files = parse("L0  aa")
    both = pa.concat_tables([to_table(files, bucket=0), to_table(files, bucket=1)])
    with pytest.raises(InvalidArgument, match="the 2 files given are of 2 buckets in 1 partitions"):
        to_bucket_files(both)
    with pytest.raises(InvalidArgument, match="the 0 files given"):
        to_bucket_files(FILE_SCHEMA.empty_table())


def test_a_removal_that_no_run_knows_is_refused() -> None:
    files = to_table(parse("L0  aa"))
    nothing = FILE_SCHEMA.empty_table()
    with pytest.raises(InvalidArgument, match="a file of level 0 that the bucket's sorted runs do not have"):
        update_runs((), nothing, files)


@pytest.mark.parametrize(
    ("ranges", "sections"),
    [
        ("100-200 100-400 100-300 100-500", "100-200 100-400 100-300 100-500"),
        ("100-500 300-500 200-500 400-500", "100-500 300-500 200-500 400-500"),
        ("0-9 5-7 9-15 16-22 16-28 24-32", "0-9 5-7 9-15 | 16-22 16-28 24-32"),
    ],
)
def test_sections_of_ranges_that_begin_or_end_together(ranges: str, sections: str) -> None:
    parsed = [tuple(int(bound).to_bytes(2) for bound in each.split("-")) for each in ranges.split()]
    found = split_sections([KeyRange(lower, upper) for lower, upper in parsed])
    names = ranges.split()
    assert " | ".join(" ".join(names[index] for index in section) for section in found) == sections
