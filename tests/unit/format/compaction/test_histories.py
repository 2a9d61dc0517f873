"""Random histories of a bucket: whatever is planned and however much of it is committed, no read ever changes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from lakelog.format.compaction import bucket_plan
from lakelog.format.compaction.bucket_plan import plan_due, plan_full, plan_level_0
from lakelog.format.compaction.plan import BucketPlan, NoPlan
from lakelog.format.compaction.runs import SortedRun, update_runs
from lakelog.format.compaction.settings import CompactionSettings
from tests.unit.format.compaction.pictures import UNIT_BYTES, PaintedFile, Painting, apply, read, to_files, to_table

KEYS = 20
# A key, and whether its row is a delete.
COMMITS = st.dictionaries(st.integers(0, KEYS - 1), st.booleans(), min_size=1, max_size=6)
STRATEGIES = st.sampled_from(["due", "due", "full", "level 0"])
SETTINGS = st.builds(
    CompactionSettings,
    target_file_size_bytes=st.sampled_from([20, 40]),
    compaction_trigger=st.integers(1, 4),
    level_count=st.integers(2, 5),
    max_size_amplification_percent=st.sampled_from([25, 200, 100_000]),
    size_ratio_percent=st.sampled_from([0, 1, 100]),
)


@dataclass
class Bucket:
    """A bucket and what has been written to it."""

    painting: Painting = ()
    rows: dict[int, object] = field(default_factory=dict)
    commits: int = 0
    ids: int = 0

    def commit(self, rows: dict[int, bool]) -> None:
        self.commits += 1
        self.ids += 1
        written = {key: None if is_delete else f"{self.commits}.{key}" for key, is_delete in sorted(rows.items())}
        first, last = min(written), max(written)
        order_key = (self.commits, 0, self.commits * 1000)
        size_bytes = (last + 1 - first) * UNIT_BYTES
        self.painting += (PaintedFile(1000 * self.ids, "a", 0, order_key, first, last, size_bytes, written),)
        for key, row in written.items():
            if row is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = row

    def apply(self, plan: BucketPlan, max_rows: int | None, *, is_placed_by_gate: bool = False) -> None:
        before = {file.file_id for file in self.painting}
        self.painting = apply(self.painting, plan, max_rows=max_rows, is_placed_by_gate=is_placed_by_gate)
        # Ids of what was written are unused ones again in the next step.
        numbered = []
        for file in self.painting:
            if file.file_id not in before:
                self.ids += 1
                file = replace(file, file_id=1000 * self.ids)
            numbered.append(file)
        self.painting = tuple(numbered)

    def plan(self, strategy: str, chosen: CompactionSettings) -> BucketPlan | NoPlan:
        files = to_files(self.painting)
        if strategy == "full":
            return plan_full(files, chosen, why="Asked.")
        if strategy == "level 0":
            return plan_level_0(files, chosen)
        return plan_due(files, chosen, now_ms=0, last_full_ms=0)

    def check(self) -> None:
        assert read(self.painting) == self.rows
        for level in {file.level for file in self.painting} - {0}:
            keys = [key for file in self.painting if file.level == level for key in file.rows]
            assert len(keys) == len(set(keys)), "a level above 0 is one sorted run"


@settings(max_examples=100)
@given(data=st.data(), chosen=SETTINGS)
def test_no_read_changes(data: st.DataObject, chosen: CompactionSettings) -> None:
    bucket = Bucket()
    for _ in range(data.draw(st.integers(1, 12), "steps")):
        for commit in data.draw(st.lists(COMMITS, min_size=1, max_size=4), "commits"):
            bucket.commit(commit)
        with patch.object(bucket_plan, "REWRITE_TARGET_FILES", data.draw(st.sampled_from([1, 4, 16]), "files")):
            plan = bucket.plan(data.draw(STRATEGIES, "strategy"), chosen)
        if isinstance(plan, NoPlan):
            continue
        known = {file.file_id for file in bucket.painting}
        check_level_0_leaves_oldest_first(bucket, plan)
        # Others commit while it runs.
        for commit in data.draw(st.lists(COMMITS, max_size=2), "meanwhile"):
            bucket.commit(commit)
        if data.draw(st.booleans(), "all of it"):
            rows = data.draw(st.sampled_from([None, 1, 3]), "rows in a file")
            bucket.apply(plan, rows, is_placed_by_gate=data.draw(st.booleans(), "places by the gate"))
            bucket.check()
            ranges = sorted((file.first, file.last) for file in bucket.painting if file.level == plan.output_level)
            assert all(left[1] < right[0] for left, right in pairwise(ranges))
            assert not any(file.level == 0 and file.file_id in known for file in bucket.painting)
            if plan.is_full:
                full = [file for file in bucket.painting if file.level > 0]
                assert {file.level for file in full} <= {plan.output_level}
                assert None not in {row for file in full for row in file.rows.values()}
        else:
            # Some of its parts are given up, as if their files were gone.
            parts = [*(rewrite.file_ids for rewrite in plan.rewrites), *((move.file_id,) for move in plan.moves)]
            lost = data.draw(st.sets(st.sampled_from(parts)), "lost")
            left = replace(
                plan,
                is_full=False,
                rewrites=tuple(rewrite for rewrite in plan.rewrites if rewrite.file_ids not in lost),
                moves=tuple(move for move in plan.moves if (move.file_id,) not in lost),
            )
            bucket.apply(left, None, is_placed_by_gate=data.draw(st.booleans(), "places by the gate"))
        bucket.check()


def check_level_0_leaves_oldest_first(bucket: Bucket, plan: BucketPlan) -> None:
    level_0 = sorted((file.order_key, file.file_id) for file in bucket.painting if file.level == 0)
    left = [file_id not in plan.file_ids for _, file_id in level_0]
    assert left == sorted(left)


@given(st.lists(COMMITS, min_size=1, max_size=12), SETTINGS, st.sampled_from(["due", "full", "level 0"]))
def test_planning_again_and_again_ends(
    commits: list[dict[int, bool]], chosen: CompactionSettings, strategy: str
) -> None:
    bucket = Bucket()
    for commit in commits:
        bucket.commit(commit)
    for _ in range(len(commits) + 1):
        if not bucket.painting:
            return
        plan = bucket.plan(strategy, chosen)
        if isinstance(plan, NoPlan):
            assert plan.reason.endswith(".")
            return
        before = len(to_files(bucket.painting).runs)
        bucket.apply(plan, 3)
        bucket.check()
        after = len(to_files(bucket.painting).runs) if bucket.painting else 0
        assert after < before or strategy != "due"
    raise AssertionError("there is always something to do")


@given(st.data(), SETTINGS)
def test_runs_are_kept_up_to_date_without_listing_files(data: st.DataObject, chosen: CompactionSettings) -> None:
    bucket = Bucket()
    runs: tuple[SortedRun, ...] = ()
    for _ in range(data.draw(st.integers(1, 6), "steps")):
        before = bucket.painting
        if data.draw(st.booleans(), "compact") and bucket.painting:
            plan = bucket.plan("due", chosen)
            if isinstance(plan, BucketPlan):
                bucket.apply(plan, 3)
        else:
            bucket.commit(data.draw(COMMITS, "commit"))
        added = to_table(tuple(file for file in bucket.painting if file not in before))
        removed = to_table(tuple(file for file in before if file not in bucket.painting))
        runs = update_runs(runs, added, removed)
        assert runs == (to_files(bucket.painting).runs if bucket.painting else ())
