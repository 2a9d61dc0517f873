"""Counterexamples: what a rewrite must keep of a key beside its row, or a later read of its table would change.

Each ends with what is read once the runs named are rewritten, and has a control that leaves the rule out. The time for
which a delete beats late rows is 10 ms here.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakelog.format.merge import runs as merge
from lakelog.storage.lookup.copy_cache import CacheLimits, CopyCache
from lakelog.storage.lookup.key_lookup import KeyLookup
from lakelog.storage.merging import deletion_vectors
from lakelog.storage.parquet import own_columns
from lakelog.storage.parquet.writer import plan_file_schema
from lakelog.storage.rewrite import runs as run_rewrite
from tests.support.tables.rewriting import SCHEMA, Bucket

MANY = 10**6


def make_bucket() -> Bucket:
    return Bucket({"sequence.field": "seq"})


def rewrite(bucket: Bucket, first: int, count: int) -> None:
    bucket.end_rewrite(*bucket.begin_rewrite(first, count, MANY))


def keep_the_time_of_a_row() -> None:
    """The delete below beats the row, which came in time, though other rows of the new file did not."""
    bucket = make_bucket()
    bucket.commit([(0, 9, "-D")], 0)
    bucket.commit([(0, 3, "+I")], 5)
    bucket.commit([(1, 3, "+I")], 15)
    bucket.check()
    rewrite(bucket, 1, 2)
    bucket.check()


def keep_the_time_of_a_delete() -> None:
    """A late row comes when the delete's time is over, though that of the new file is not."""
    bucket = make_bucket()
    bucket.commit([(0, 1, "+I")], 0)
    bucket.commit([(0, 9, "-D")], 0)
    bucket.commit([(1, 3, "+I")], 8)
    rewrite(bucket, 1, 2)
    bucket.commit([(0, 3, "+I")], 4)
    bucket.check()


def ask_the_delete_below() -> None:
    """Of two late rows the delete below beats the higher one, and is over when the lower one comes."""
    bucket = make_bucket()
    bucket.commit([(0, 9, "-D")], 0)
    bucket.commit([(0, 5, "+I")], 8)
    bucket.commit([(0, 3, "+I")], 4)
    bucket.check()
    rewrite(bucket, 1, 2)
    bucket.check()


def mark_what_replaces_a_row_below() -> None:
    """A delete takes the row below away and is over when a late row comes, which stands alone against that row."""
    bucket = make_bucket()
    bucket.commit([(0, 5, "+I")], 0)
    bucket.commit([(0, 7, "-D")], 1)
    bucket.commit([(0, 3, "+I")], 12)
    bucket.check()
    rewrite(bucket, 1, 2)
    bucket.check()
    # The mark goes on: with a further run, and away with the run below.
    bucket.commit([(0, 4, "+I")], 1)
    rewrite(bucket, 1, 2)
    bucket.check()
    rewrite(bucket, 0, 2)
    bucket.check()


def keep_a_delete_for_later_commits() -> None:
    """Nothing lies below, and a row that comes in time is beaten all the same."""
    bucket = make_bucket()
    bucket.commit([(0, 9, "-D"), (1, 1, "+I")], 0)
    rewrite(bucket, 0, 1)
    bucket.commit([(0, 3, "+I")], 10)
    bucket.check()


def keep_a_delete_for_runs_above() -> None:
    """Its time is over for whatever comes, but a run above holds a row that came in time."""
    bucket = make_bucket()
    bucket.commit([(0, 9, "-D"), (1, 1, "+I")], 0)
    bucket.commit([(0, 3, "+I")], 5)
    bucket.commit([(1, 2, "+I")], 20)
    rewrite(bucket, 0, 1)
    bucket.check()


def read_without_times(monkeypatch: pytest.MonkeyPatch) -> None:
    def pick(file: Any, sequence: tuple[str, ...]) -> list[Any]:
        return [own_columns.KIND_FIELD] if file.delete_count else []

    monkeypatch.setattr(deletion_vectors, "pick_own_fields", pick)


def read_without_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge, "_find_marks", lambda runs: None)


def contest_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_rewrite, "find_contested", lambda *args, **more: None)


def drop_what_is_over_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_rewrite, "_find_first_time", lambda rewrite, newer: rewrite.base_time_ms)


def drop_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_rewrite, "_find_first_time", lambda rewrite, newer: sys.maxsize)


CASES = [
    (keep_the_time_of_a_row, read_without_times),
    (keep_the_time_of_a_delete, read_without_times),
    (ask_the_delete_below, contest_nothing),
    (mark_what_replaces_a_row_below, read_without_marks),
    (keep_a_delete_for_later_commits, drop_all),
    (keep_a_delete_for_runs_above, drop_what_is_over_now),
]


@pytest.mark.parametrize("case", [case for case, _ in CASES], ids=lambda case: case.__name__)
def test_a_late_row_is_beaten_or_not_as_before(case: Any) -> None:
    case()


@pytest.mark.parametrize(("case", "control"), CASES, ids=lambda each: each.__name__)
def test_control_without_the_rule_it_is_not(monkeypatch: pytest.MonkeyPatch, case: Any, control: Any) -> None:
    control(monkeypatch)
    with pytest.raises(AssertionError):
        case()


def test_a_delete_is_dropped_when_its_time_is_over() -> None:
    bucket = make_bucket()
    bucket.commit([(0, 9, "-D"), (1, 1, "+I")], 0)
    bucket.now_ms += 10
    rewrite(bucket, 0, 1)
    assert [file.delete_count for file in bucket.files] == [1]
    bucket.now_ms += 1
    rewrite(bucket, 0, 1)
    assert [file.delete_count for file in bucket.files] == [0]
    bucket.check()


def test_nothing_is_kept_of_a_key_whose_record_below_stays() -> None:
    bucket = make_bucket()
    bucket.commit([(0, 9, "-D")], 0)
    bucket.commit([(0, 5, "+I")], 1)
    bucket.commit([(0, 3, "+I")], 1)
    rewrite(bucket, 1, 2)
    assert len(bucket.files) == 1
    bucket.check()


def test_a_lookup_in_local_copies_knows_the_times_of_a_compacted_run(tmp_path: Path) -> None:
    bucket = make_bucket()
    bucket.commit([(0, 1, "+I")], 0)
    bucket.commit([(0, 9, "-D"), (2, 1, "+I")], 0)
    bucket.commit([(1, 3, "+I")], 8)
    rewrite(bucket, 1, 2)
    fields = list(plan_file_schema(SCHEMA, False))
    copies = CopyCache(tmp_path, CacheLimits(None, 1 << 30, 3_600_000))
    for file in bucket.files:
        own = own_columns.pick_own_fields(file, bucket.policy.sequence)
        copies.obtain(bucket.store, file, SCHEMA, [*fields, *own], ["k"])
    for cache in (copies, None):
        lookup = KeyLookup(bucket.store, SCHEMA, bucket.policy, cache, fields)
        found = lookup.find(bucket.files, pa.table({"k": pa.array([0, 1, 2], pa.int64())})).run.table
        assert found.column("_row_kind").to_pylist() == [3, 0, 0]
        assert found.column("_commit_timestamp").to_pylist() == [1000, 1008, 1000]
    assert copies.statistics.hits
