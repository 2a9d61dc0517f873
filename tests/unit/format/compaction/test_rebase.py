from __future__ import annotations

from lakelog.format.compaction.bucket_plan import plan_full
from lakelog.format.compaction.plan import BucketPlan
from lakelog.format.compaction.rebase import RebasedPlan, rebase_plan
from tests.unit.format.compaction.pictures import SETTINGS, apply, draw, drawn, parse, to_files

BEFORE = parse("""
    L0  aaa..........
    L0  ........bbb..
    L1  .ccc.......dd
    L2  .....eee.ff..
    """)


def planned() -> BucketPlan:
    plan = plan_full(to_files(BEFORE), SETTINGS, why="Asked.")
    assert isinstance(plan, BucketPlan)
    return plan


def test_a_plan_whose_files_are_all_live_stands_whatever_came_behind_it() -> None:
    plan = planned()
    assert rebase_plan(plan, range(100)) == RebasedPlan(plan)


def test_parts_without_their_files_are_dropped_and_the_others_stand() -> None:
    assert draw(apply(BEFORE, planned())) == drawn("L2  rrrr.eeesssdd")
    # Somebody took b away, with an overwrite.
    now = tuple(file for file in BEFORE if file.name != "b")
    rebased = rebase_plan(planned(), [file.file_id for file in now])
    assert rebased.plan is not None
    assert not rebased.plan.is_full
    assert [dropped.missing_file_ids for dropped in rebased.dropped] == [(5,)]
    assert [dropped.why for dropped in rebased.dropped] == [
        "1 of its 2 files are not live any more (ids 5): others replaced them."
    ]
    assert draw(apply(now, rebased.plan)) == drawn("L2  rrrr.eee.ffdd")


def test_nothing_may_be_left() -> None:
    rebased = rebase_plan(planned(), [])
    assert rebased.plan is None
    assert len(rebased.dropped) == len(planned().rewrites) + len(planned().moves)


def test_a_plan_is_not_full_where_a_file_that_was_left_as_it_is_is_gone() -> None:
    files = parse("""
        L0  aa....
        L2  ...bbb
        """)
    plan = plan_full(to_files(files), SETTINGS, why="Asked.")
    assert isinstance(plan, BucketPlan)
    assert plan.kept_file_ids == (1,)
    rebased = rebase_plan(plan, [2])
    assert rebased.dropped == ()
    assert rebased.plan is not None
    assert not rebased.plan.is_full
