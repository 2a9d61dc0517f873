"""What becomes of picked files, as pictures (see pictures.py): files of width 1 are small, of width 2 large."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakelog.format.compaction.bucket_plan import (
    find_delete_horizon,
    plan_due,
    plan_full,
    plan_level_0,
    plan_pick,
)
from lakelog.format.compaction.picking import Pick
from lakelog.format.compaction.plan import BucketPlan, NoPlan, Rule, Section
from tests.unit.format.compaction.pictures import SETTINGS, after, apply, drawn, parse, read, to_files


def full(picture: str, **settings: object) -> BucketPlan:
    plan = plan_full(to_files(parse(picture)), SETTINGS, why="Asked.", **settings)  # type: ignore[arg-type]
    assert isinstance(plan, BucketPlan)
    assert plan.is_full
    return plan


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        pytest.param(
            """
            L0  aaa.....
            L1  bbbbb.cc
            """,
            """
            L2  rrrrr.cc
            """,
            id="files that overlap are merged, a large one beside them is moved",
        ),
        pytest.param(
            """
            L0  aaa......
            L0  bbbbb....
            L0  .....ccc.
            """,
            """
            L2  rrrrrccc.
            """,
            id="a file of level 0 that overlaps nothing is moved, too",
        ),
        pytest.param(
            """
            L0  .a
            L0  b.
            """,
            """
            L2  rr
            """,
            id="small files beside each other become one",
        ),
        pytest.param(
            """
            L0  aaaaa.......
            L0  .....b......
            L1  ......cc.ddd
            """,
            """
            L2  aaaaabcc.ddd
            """,
            id="a small file between large ones is moved as it is",
        ),
        pytest.param(
            """
            L0  aaaaa......
            L0  .....b.....
            L1  ......c.dd.
            """,
            """
            L2  aaaaarr.dd.
            """,
            id="small neighbours of different levels become one",
        ),
        pytest.param(
            """
            L0  aaaaa......
            L0  .....b.....
            L1  cccc.ddd.ee
            L2  fffggg.....
            """,
            """
            L2  rrrrrrrr.ee
            """,
            id="sections that follow each other are written together",
        ),
        pytest.param(
            """
            L0  aaaaa......
            L0  .....b.....
            L1  cccc.ddd.e.
            L2  fffggg.....
            """,
            """
            L2  rrrrrrrr-r.
            """,
            id="a small file behind them goes along",
        ),
        pytest.param(
            """
            L0  a........
            L2  bb.cc.ddd
            """,
            """
            L2  rr.cc.ddd
            """,
            id="what is at the highest level and overlaps nothing stays",
        ),
        pytest.param(
            """
            L0  ...a...
            L2  b.....c
            """,
            """
            L2  r--r--r
            """,
            id="all small",
        ),
    ],
)
def test_a_full_compaction(before: str, expected: str) -> None:
    assert after(before, full(before)) == drawn(expected)


def test_a_large_bucket_is_rewritten_in_parts() -> None:
    before = """
        L0  aabbccddeeffgghhiijj
        L2  kkllmmnnooppqqrrsstt
        """
    plan = full(before)
    # Sixteen files of 20 bytes are as much as eight sections of two files of 20 bytes.
    assert [(len(rewrite.sections), rewrite.size_bytes) for rewrite in plan.rewrites] == [(8, 320), (2, 80)]
    assert after(before, plan) == drawn("L2  rrrrrrrrrrrrrrrrssss")


def test_a_bucket_that_is_whole_has_no_plan() -> None:
    plan = plan_full(to_files(parse("L2  aaa.b.c")), SETTINGS, why="Asked.")
    assert plan == NoPlan("The bucket is compacted as a whole: all its files are at its highest level, 2.")


def test_all_may_be_written_again() -> None:
    before = """
        L2  aaa.b.cc
        """
    plan = full(before, rewrite_all=True)
    assert after(before, plan) == drawn("L2  rrr.s.tt")
    assert [rewrite.file_ids for rewrite in plan.rewrites] == [(1,), (2,), (3,)]
    assert plan.retained_file_ids == ()


def test_what_stays_is_reported() -> None:
    plan = full("""
        L0  .........aa
        L1  ......bb...
        L2  ccc.ddd....
        """)
    assert plan.retained_file_ids == (1,)
    assert [(move.file_id, move.from_level) for move in plan.moves] == [(4, 0)]
    assert [rewrite.why for rewrite in plan.rewrites] == ["2 files overlap in 1 section."]
    assert plan.file_ids == (2, 3, 4)
    assert plan.rewritten_bytes == 50


def test_deletes_go_where_nothing_older_can_hold_their_key() -> None:
    before = """
        L0  aAaA....
        L0  ....bB..
        L2  cccc....
        """
    assert after(before, full(before)) == drawn("L2  r-r-s...")


def test_deletes_stay_above_an_older_run_that_may_hold_their_key() -> None:
    before = """
        L0  .....a......
        L0  bbBBb.......
        L0  cc..........
        L0  ......dDdd..
        L2  .fff........
        """
    # Only what overlaps f keeps its deletes: d lies behind it.
    pick = Pick(4, 1, False, Rule.RUN_COUNT, "")
    plan = plan_pick(to_files(parse(before)), pick, SETTINGS)
    assert isinstance(plan, BucketPlan)
    assert [rewrite.drops_deletes for rewrite in plan.rewrites] == [False]
    assert after(before, plan) == drawn("""
        L1  rrRRrrdDdd..
        L2  .fff........
        """)


def test_deletes_go_above_an_older_run_that_cannot_hold_their_key() -> None:
    before = """
        L0  aA......
        L0  bbbb....
        L2  .....fff
        """
    plan = plan_pick(to_files(parse(before)), Pick(2, 1, False, Rule.RUN_COUNT, ""), SETTINGS)
    assert isinstance(plan, BucketPlan)
    assert not plan.is_full
    assert after(before, plan) == drawn("""
        L1  r-rr....
        L2  .....fff
        """)


@pytest.mark.parametrize("older", ["...cc.", "cc....", "cccccc", ".cc...", "..cc.."])
def test_an_older_file_that_touches_a_section_may_hold_its_keys(older: str) -> None:
    before = f"""
        L0  .aaA..
        L0  .BbB..
        L2  {older}
        """
    plan = plan_pick(to_files(parse(before)), Pick(2, 1, False, Rule.RUN_COUNT, ""), SETTINGS)
    assert isinstance(plan, BucketPlan)
    assert [rewrite.drops_deletes for rewrite in plan.rewrites] == [False]


@pytest.mark.parametrize("older", ["....cc", "c.....", "c...dd"])
def test_an_older_file_beside_a_section_does_not(older: str) -> None:
    before = f"""
        L0  .aaA..
        L0  .BbB..
        L2  {older}
        """
    plan = plan_pick(to_files(parse(before)), Pick(2, 1, False, Rule.RUN_COUNT, ""), SETTINGS)
    assert isinstance(plan, BucketPlan)
    assert [rewrite.drops_deletes for rewrite in plan.rewrites] == [True]


def test_a_gap_between_sections_holds_no_key_of_theirs() -> None:
    # f may hold keys between those of b and c, but none of them.
    before = """
        L0  B.......
        L0  .......C
        L2  ..ffff..
        """
    plan = plan_pick(to_files(parse(before)), Pick(2, 1, False, Rule.RUN_COUNT, ""), SETTINGS)
    assert isinstance(plan, BucketPlan)
    assert [rewrite.drops_deletes for rewrite in plan.rewrites] == [True]
    assert after(before, plan) == drawn("L2  ..ffff..")


def test_a_large_file_with_deletes_is_not_moved_to_the_highest_level() -> None:
    before = """
        L0  aaAa....
        L2  ....bbbb
        """
    plan = full(before)
    assert after(before, plan) == drawn("L2  rr-rbbbb")
    assert plan.rewrites[0].why == "It overlaps nothing, but 1 of its rows are deletes that hide nothing any more."


def test_a_large_file_with_deletes_is_moved_elsewhere() -> None:
    before = """
        L0  aaAa........
        L2  ....bbbbbbbb
        """
    plan = plan_level_0(to_files(parse(before)), SETTINGS)
    assert isinstance(plan, BucketPlan)
    assert after(before, plan) == drawn("""
        L1  aaAa........
        L2  ....bbbbbbbb
        """)


def test_deletes_with_a_sequence_field_stay_until_no_one_is_late_enough() -> None:
    before = """
        L0  aaAa....
        L2  ....bbbb
        """
    # The delete was committed at 2000 ms and counts for 500 ms.
    young = full(before, delete_horizon_ms=find_delete_horizon(2500, 500))
    assert after(before, young) == drawn("L2  aaAabbbb")
    assert young.delete_horizon_ms == 2000
    old = full(before, delete_horizon_ms=find_delete_horizon(2501, 500))
    assert [rewrite.file_ids for rewrite in old.rewrites] == [(2,)]


def test_deletes_at_the_highest_level_are_dropped_once_they_are_old() -> None:
    files = to_files(parse("L2  aaAa.bbb"))
    assert isinstance(plan_full(files, SETTINGS, why="Asked.", delete_horizon_ms=1000), NoPlan)
    plan = plan_full(files, SETTINGS, why="Asked.", delete_horizon_ms=1001)
    assert isinstance(plan, BucketPlan)
    assert [rewrite.file_ids for rewrite in plan.rewrites] == [(1,)]
    assert plan.retained_file_ids == (2,)


def test_a_compacted_file_may_have_deletes_older_than_its_place() -> None:
    plan = full("L1  aaAa", delete_horizon_ms=0)
    assert [rewrite.file_ids for rewrite in plan.rewrites] == [(1,)]


def test_the_output_takes_the_latest_place_of_its_inputs() -> None:
    plan = full("""
        L0  .....aaa
        L0  bb......
        L1  cc..d...
        L2  .eee....
        """)
    assert [(rewrite.file_ids, rewrite.order_key.snapshot_id) for rewrite in plan.rewrites] == [((1, 2, 3, 4), 3)]
    order_key = plan.rewrites[0].order_key
    assert (order_key.snapshot_id, order_key.ordinal, order_key.time_ms) == (3, 3, 3000)


def test_sections_list_their_runs_from_the_oldest_on() -> None:
    plan = full("""
        L0  .aaaaaaa......
        L0  bbb...........
        L1  ..cc.dd....gg.
        L2  eeee.fff...hhh
        """)
    assert plan.rewrites[0].sections == (Section(((1, 2), (4, 5), (7,), (8,))), Section(((3,), (6,))))


def test_files_of_a_run_whose_truncated_bounds_meet_are_runs_of_their_own() -> None:
    e, f, g, a = parse("""
        L0  aaaaaaaa
        L2  ee.ff.gg
        """)
    # The bound of e was truncated, so that e may seem to reach into f; both come from one compaction.
    files = (replace(e, last=3), replace(f, order_key=e.order_key), replace(g, order_key=e.order_key), a)
    plan = plan_full(to_files(files), SETTINGS, why="Asked.")
    assert isinstance(plan, BucketPlan)
    assert sorted(plan.rewrites[0].sections[0].runs[:2]) == [(1,), (2, 3)]
    assert plan.rewrites[0].sections[0].runs[2] == (4,)


def test_where_places_do_not_fall_from_level_to_level_each_file_is_a_run() -> None:
    e, f, a, b = parse("""
        L1  aa.bb
        L2  ee.ff
        """)
    # f came behind b: they share no key, although c, which is over both, makes them one section.
    files = (e, replace(f, order_key=(9, 0, 0), first=3), replace(a, last=3, size_bytes=40), b)
    plan = plan_full(to_files(files), SETTINGS, why="Asked.")
    assert isinstance(plan, BucketPlan)
    assert plan.rewrites[0].sections == (Section(((1,), (3,), (4,), (2,))),)


def test_what_is_due_is_planned() -> None:
    before = """
        L0  a.......
        L0  .b......
        L0  ..c.....
        L0  ...d....
        L0  ....e...
        """
    plan = plan_due(to_files(parse(before)), SETTINGS, now_ms=0, last_full_ms=0)
    assert isinstance(plan, BucketPlan)
    assert plan.rule is Rule.SIZE_AMPLIFICATION
    assert after(before, plan) == drawn("L2  rrrrr...")
    none = plan_due(to_files(parse("L0  a.......")), SETTINGS, now_ms=0, last_full_ms=0)
    assert isinstance(none, NoPlan)
    assert none.findings[0].why == "there is 1 sorted run, fewer than 5"


def test_a_pick_that_changes_nothing_is_none() -> None:
    files = to_files(parse("L2  aa.bb"))
    found = plan_pick(files, Pick(1, 2, True, Rule.REQUESTED, ""), SETTINGS)
    assert found == NoPlan("All 2 files that were picked may stay at level 2 as they are.")


def test_unbounded_files_overlap_all() -> None:
    a, b, c = parse("""
        L0  ccc......
        L0  .....bbb.
        L2  aaa......
        """)
    table = to_files((a, b, c))
    wide = replace(
        table, ranges=tuple(replace(r, lower=None, upper=None) if r.upper == b"\x07" else r for r in table.ranges)
    )
    plan = plan_full(wide, SETTINGS, why="Asked.")
    assert isinstance(plan, BucketPlan)
    assert plan.rewrites[0].sections == (Section(((1,), (2,), (3,))),)
    assert read(apply((a, b, c), plan)) == read((a, b, c))
