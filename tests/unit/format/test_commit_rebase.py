"""Which groups of a compaction stand: buckets drawn as files by level, place and range, and what is made of them."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from lakelog.errors import CommitConflict, InvalidArgument
from lakelog.format.commit.effects import apply_change, place_files
from lakelog.format.commit.facts import CompactionFacts, FileFacts, OrderKey, RemovedTotals, RestoredTotals, TableHead
from lakelog.format.commit.rebase import Rebased, rebase_compaction
from lakelog.format.commit.request import (
    LEVEL_TAKEN,
    OUT_OF_ORDER,
    SCHEMA_NEWER,
    BucketRef,
    Change,
    CommitRequest,
    CompactionGroup,
)
from lakelog.format.commit.rules import check_compatible
from lakelog.format.tables.files import DataFile
from lakelog.format.tables.snapshot import SnapshotKind

ATTEMPT = "a" * 32
BUCKET = BucketRef(b"", 0)
HEAD = TableHead(1, "t", "d.t", 0, 1, False, latest_snapshot_id=9, next_file_id=100)


def draw(picture: str, schema_id: int = 0) -> list[FileFacts]:
    """Files from words such as `a2:0@7[b-d]`: file a of level 2 in place 0 of snapshot 7 with keys from b to d.

    Its id is its letter's place in the alphabet; without keys it is unbounded.
    """
    files = []
    for word in picture.split():
        level, _, rest = word[1:].partition(":")
        ordinal, _, rest = rest.partition("@")
        snapshot, _, keys = rest.partition("[")
        order_key = OrderKey(int(snapshot), int(ordinal), int(snapshot))
        low, high = (keys[0].encode(), keys[2].encode()) if keys else (None, None)
        number = ord(word[0]) - ord("a") + 1
        files.append(FileFacts(number, word[0], b"", 0, order_key, int(level), 10, 1, low, high, schema_id))
    return files


def output(name: str = "z", keys: str = "", **fields: Any) -> DataFile:
    low, high = (keys[0].encode(), keys[2].encode()) if keys else (None, None)
    made = DataFile(f"data/{ATTEMPT}/{name}.parquet", b"", 0, 1, 10, 0, 1, low, high, 0)
    return replace(made, **fields)


def numbers(names: str) -> tuple[int, ...]:
    return tuple(ord(name) - ord("a") + 1 for name in names)


def judge(
    live: list[FileFacts],
    inputs: str,
    level: int = 1,
    outputs: str = "",
    *,
    moves: str = "",
    keyed: bool = True,
    **change: Any,
) -> Rebased:
    """One group; `outputs` are key ranges, one for each, which share the rows of the inputs."""
    rows = 10 * len(inputs)
    files = [
        output(f"z{n}", keys, level=level if keyed else 0, row_count=rows if n == 0 else 0)
        for n, keys in enumerate(outputs.split())
    ]
    group = CompactionGroup(BUCKET, numbers(inputs), len(files), numbers(moves), level if keyed else 0)
    fields: dict[str, Any] = {"schema_id": 0, "bucket_count": 1, **change}
    made = Change("t", SnapshotKind.COMPACT, add_files=tuple(files), groups=(group,), **fields)
    return rebase_compaction(made, HEAD, CompactionFacts(live, live, keyed))


@pytest.mark.parametrize(
    ("bucket", "inputs", "level", "outputs", "moves", "expected"),
    [
        # All, the oldest, and the newest down to the level above what is left.
        ("a0:0@1[a-d] b0:0@2[a-d] c0:0@3[a-d]", "abc", 5, "a-d", "", None),
        ("a0:0@1[a-d] b0:0@2[a-d] c0:0@3[a-d]", "ab", 5, "a-d", "", None),
        ("a5:0@1[a-d] b0:0@2[a-d] c0:0@3[a-d]", "bc", 4, "a-d", "", None),
        # An older one stays above, or between.
        ("a0:0@1[a-d] b0:0@2[a-d] c0:0@3[a-d]", "bc", 5, "a-d", "", (OUT_OF_ORDER, "a")),
        ("a0:0@1[a-d] b0:0@2[a-d] c0:0@3[a-d]", "ac", 5, "a-d", "", (OUT_OF_ORDER, "b")),
        ("a5:0@1[a-d] b4:0@2[a-d] c0:0@3[a-d]", "ca", 5, "a-d", "", (OUT_OF_ORDER, "b")),
        # It has no key in common with what passes it.
        ("a0:0@1[a-b] b0:0@2[e-f] c0:0@3[a-b]", "ac", 5, "a-b", "", None),
        ("a0:0@1[a-b] b0:0@2[c-d] c0:0@3[e-f]", "ac", 5, "a-b e-f", "", None),
        # But it lies in a gap that the output spans.
        ("a0:0@1[a-b] b0:0@2[c-d] c0:0@3[e-f]", "ac", 5, "a-f", "", (OUT_OF_ORDER, "b")),
        # A part of a run: what is left of it overlaps, or does not.
        ("a5:0@1[a-b] b5:0@1[c-d] c0:0@2[a-b]", "ac", 5, "a-b", "", None),
        ("a5:0@1[a-b] b5:0@1[c-d] c0:0@2[a-d]", "ac", 5, "a-d", "", (LEVEL_TAKEN, "b")),
        # Deletes of c hide rows of b, though none of them is written.
        ("a5:0@1[a-b] b5:0@1[c-d] c0:0@2[a-d]", "ac", 5, "a-b", "", (LEVEL_TAKEN, "b")),
        # Files of one place: the rest of the run that the newest input is of would become older than older rows.
        ("a5:0@1[a-z] b3:0@2[a-b] c3:0@2[c-d]", "ab", 5, "a-z", "", (OUT_OF_ORDER, "c")),
        ("a5:0@1[a-b] b3:0@2[a-b] c3:0@2[c-d]", "ab", 5, "a-b", "", None),
        # Unbounded files meet everything.
        ("a0:0@1[a-b] b0:0@2 c0:0@3[a-b]", "ac", 5, "a-b", "", (OUT_OF_ORDER, "b")),
        # Moves keep their place, and go no lower than what they hide.
        ("a0:0@1[a-b] b0:0@2[c-d]", "", 5, "", "b", None),
        ("a0:0@1[a-b] b0:0@2[b-d]", "", 5, "", "b", (OUT_OF_ORDER, "a")),
        ("a0:0@1[a-b] b0:0@2[b-d]", "", 5, "", "a", None),
        ("a5:0@1[a-b] b0:0@2[b-d]", "", 5, "", "b", (LEVEL_TAKEN, "a")),
        ("a5:0@1[a-b] b0:0@2[b-d]", "", 4, "", "b", None),
        ("a3:0@1[a-b] b0:0@2[a-b] c2:0@1[e-f]", "ab", 5, "a-b", "c", None),
        # What is deeper than it should be may not become newer than what it is behind.
        ("a0:0@1[a-d] b5:0@2[a-d]", "a", 1, "a-d", "", (OUT_OF_ORDER, "b")),
    ],
)
def test_a_bucket_stays_in_order(
    bucket: str, inputs: str, level: int, outputs: str, moves: str, expected: tuple[str, str] | None
) -> None:
    live = draw(bucket)
    done = judge(live, inputs, level, outputs, moves=moves)
    found = [(each.reason, live[(each.file_id or 0) - 1].path) for each in done.dropped]
    assert found == ([] if expected is None else [expected])
    assert (done.change.remove is None) is bool(done.dropped)


@pytest.mark.parametrize(
    ("bucket", "inputs", "expected"),
    [
        ("a0:0@1 b0:1@1 c0:0@2", "ab", None),
        ("a0:0@1 b0:1@1 c0:0@2", "bc", None),
        ("a0:0@1 b0:1@1 c0:0@2", "ac", "b"),
        # Of files that share a place the last one may go with what is behind it, the first one not without the last.
        ("a0:0@1 b0:0@2 c0:0@2 d0:0@3", "cd", None),
        ("a0:0@1 b0:0@2 c0:0@2 d0:0@3", "ab", "c"),
    ],
)
def test_rows_without_a_key_stay_in_line(bucket: str, inputs: str, expected: str | None) -> None:
    live = draw(bucket)
    done = judge(live, inputs, outputs="a-b", keyed=False)
    assert [live[(each.file_id or 0) - 1].path for each in done.dropped] == ([] if expected is None else [expected])


def test_a_file_that_moves_overlaps_nothing_of_its_group() -> None:
    """A delete of the inputs that hides a row of the moved file would be gone, and the row back."""
    live = draw("a0:0@1[a-b] b0:0@2[b-c]")
    with pytest.raises(
        InvalidArgument, match=r"moves 'a', whose key range overlaps with its inputs'\. Only what"
    ) as error:
        judge(live, "b", 5, "c-c", moves="a")
    assert error.value.reason == "MOVE_OVERLAPS"


def test_outputs_have_the_latest_place_of_their_inputs_and_ids_of_their_own() -> None:
    live = draw("a0:0@3[a-d] b0:4@5[a-d] c0:0@7[a-d]")
    done = judge(live, "ba", 2, "a-b c-d")
    assert done.order_keys == (OrderKey(5, 4, 5), OrderKey(5, 4, 5))
    request = CommitRequest("c", 1, (done.change,), ATTEMPT)
    after, snapshot = apply_change(request, done, HEAD, RestoredTotals(RemovedTotals(2, 20, 2)), 0, "u")
    assert snapshot is not None
    assert [(file.file_id, file.added_snapshot) for file in place_files(done, HEAD, snapshot)] == [(100, 10), (101, 10)]
    assert after.next_file_id == 102


def test_a_compaction_that_took_long_may_have_an_earlier_schema() -> None:
    """The rows are no others, and each file says with which schema it is read."""
    head = replace(HEAD, schema_id=3)
    live = draw("a0:0@1[a-d]", schema_id=2)
    done = judge(live, "a", 1, "a-d", schema_id=2)
    assert done.dropped == ()
    files = (replace(done.change.add_files[0], schema_id=2),)
    change = replace(done.change, add_files=files)
    check_compatible(change, head, ATTEMPT)
    # Whoever reads that snapshot reads it as the one before.
    request = CommitRequest("c", 1, (change,), ATTEMPT)
    _, snapshot = apply_change(
        request, replace(done, change=change), head, RestoredTotals(RemovedTotals(1, 10, 1)), 0, "u"
    )
    assert snapshot is not None
    assert snapshot.schema_id == 3
    with pytest.raises(InvalidArgument, match="was written with schema 2, but its commit says 1"):
        check_compatible(replace(change, schema_id=1), head, ATTEMPT)
    with pytest.raises(CommitConflict, match="written with schema 4, but the table has schema 3"):
        check_compatible(replace(change, schema_id=4), head, ATTEMPT)
    with pytest.raises(CommitConflict, match="written with schema 2, but the table has schema 3"):
        check_compatible(replace(change, kind=SnapshotKind.APPEND), head, ATTEMPT)


def test_no_column_is_lost_by_an_earlier_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    live = [*draw("a0:0@1[a-d]", schema_id=1), *draw("b0:0@2[a-d]", schema_id=2)]
    (dropped,) = judge(live, "ab", 1, "a-d", schema_id=1).dropped
    assert (dropped.reason, dropped.file_id) == (SCHEMA_NEWER, 2)
    assert dropped.message.startswith("'b' was written with schema 2, but the outputs with 1, which may lack some")
    # What only moves is not written anew.
    assert judge(live, "a", 1, "a-d", schema_id=1).dropped == ()
    assert judge(draw("a0:0@1", schema_id=2), "", 1, moves="a", schema_id=1).dropped == ()
    monkeypatch.setattr("lakelog.format.commit.rebase._find_newer", lambda *_: None)
    lost = judge(live, "ab", 1, "a-d", schema_id=1)
    assert not lost.dropped, "control: without the check values of schema 2 are written as schema 1 has them"


def test_many_files_are_judged_in_no_time() -> None:
    """The head is locked meanwhile: ten thousand files of which half are rewritten, and a run of as many that stay."""
    runs = [
        replace(draw("a0:0@1[a-z]")[0], file_id=n, order_key=OrderKey(n, 0, 0), path=str(n))
        for n in range(10_001, 20_001)
    ]
    stay = [
        replace(runs[0], file_id=n, order_key=OrderKey(1, 0, 0), level=5, min_key=b"%05d" % n, max_key=b"%05d" % n)
        for n in range(1, 10_001)
    ]
    taken = tuple(range(10_001, 15_001))
    group = CompactionGroup(BUCKET, taken, 1, (), 4)
    made = Change("t", SnapshotKind.COMPACT, 0, 1, (output(keys="a-z", level=4, row_count=50_000),), groups=(group,))
    facts = CompactionFacts(runs, [*runs, *stay], True)
    started_s = time.process_time()
    assert rebase_compaction(made, HEAD, facts).dropped == ()
    assert time.process_time() - started_s < 2


def test_many_groups_of_one_bucket_are_judged_in_no_time() -> None:
    """A bucket that was loaded in order, each file of which moves by itself."""
    name = draw("a0:0@1[a-z]")[0]
    files = [
        replace(name, file_id=n, order_key=OrderKey(n, 0, 0), min_key=b"%05d" % n, max_key=b"%05d" % n)
        for n in range(1, 5001)
    ]
    groups = tuple(CompactionGroup(BUCKET, moves=(n,), level=5) for n in range(1, 1001))
    started_s = time.process_time()
    done = rebase_compaction(
        Change("t", SnapshotKind.COMPACT, 0, 1, groups=groups),
        replace(HEAD, next_file_id=5001),
        CompactionFacts(files, files, True),
    )
    assert (len(done.moved), done.dropped) == (1000, ())
    assert time.process_time() - started_s < 2
