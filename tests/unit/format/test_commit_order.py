"""Commits to several tables in order: whole, each table's in its own order, and none that waits without a reason."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.errors import HistoryDiverged
from lakelog.format.commit.order import STRETCH_ROWS, Commit, CommitOrder
from lakelog.format.tables.snapshot import Snapshot, SnapshotKind

TABLES = ("a", "b", "c", "d")


def make_history(
    commits: Sequence[str],
    *,
    watermarks: Sequence[int | None] = (),
    schemas: Sequence[int] = (),
    rows: Sequence[int] = (),
) -> dict[str, list[Snapshot]]:
    """The snapshots of each table; a commit is the letters of the tables that it touches."""
    history: dict[str, list[Snapshot]] = {table: [] for table in TABLES}
    for number, tables in enumerate(commits):
        ids = {table: len(history[table]) + 1 for table in tables}
        for table in tables:
            history[table].append(
                Snapshot(
                    snapshot_id=ids[table],
                    snapshot_uuid=f"{table}{ids[table]}",
                    parent_uuid=f"{table}{ids[table] - 1}" if ids[table] > 1 else "",
                    kind=SnapshotKind.APPEND,
                    schema_id=schemas[number] if schemas else 0,
                    committed_at_ms=number,
                    watermark_ms=watermarks[number] if watermarks else None,
                    total_rows=0,
                    total_files=0,
                    total_bytes=0,
                    added_rows=rows[number] if rows else 1,
                    added_files=0,
                    removed_files=0,
                    writer="w",
                    identifier=number,
                    co_committed={other: n for other, n in ids.items() if other != table},
                )
            )
    return history


def reported(commits: Sequence[Commit]) -> list[str]:
    return [" ".join(f"{table}{each.snapshot_id}" for table, each in commit.snapshots.items()) for commit in commits]


def follow(tables: str = "abcd", *, last_watermark_ms: int | None = None, max_known: int = 1000) -> CommitOrder:
    after = dict.fromkeys(tables, (0, ""))
    return CommitOrder(after, last_watermark_ms=last_watermark_ms, max_known=max_known)


def test_commits_come_in_the_order_of_their_times() -> None:
    history = make_history(["a", "b", "ab", "b", "a"])
    order = follow("ab")
    order.add("b", history["b"])
    assert reported(order.take()) == ["b1"], "b2 waits for its other half"
    order.add("a", history["a"])
    assert reported(order.take()) == ["a1", "a2 b2", "b3", "a3"]
    assert order.take() == []


def test_only_what_stands_after_a_waiting_commit_waits() -> None:
    history = make_history(["ab", "c", "cd", "a", "d"])
    order = follow()
    for table in "acd":
        order.add(table, history[table])
    assert reported(order.take()) == ["c1", "c2 d1", "d2"], "a1 waits for b1, and a2 for a1; nothing else does"
    order.add("b", history["b"])
    assert reported(order.take()) == ["a1 b1", "a2"]


def test_only_tables_that_are_followed_count() -> None:
    history = make_history(["abc", "bc"])
    order = follow("ad")
    order.add("a", history["a"])
    assert reported(order.take()) == ["a1"]


def test_what_is_done_already_is_not_waited_for() -> None:
    history = make_history(["ab", "ab", "ab"])
    order = CommitOrder({"a": (1, "a1"), "b": (2, "b2")})
    order.add("a", history["a"])
    order.add("b", history["b"])
    assert reported(order.take()) == ["a2", "a3 b3"]


def test_a_commit_that_was_begun_comes_first() -> None:
    history = make_history(["a", "ab", "c"])
    order = CommitOrder({"a": (1, "a1"), "b": (0, ""), "c": (0, "")}, first="b")
    order.add("c", history["c"])
    order.add("b", history["b"])
    assert order.take() == []
    order.add("a", history["a"])
    assert reported(order.take()) == ["a2 b1", "c1"]


def test_a_table_far_behind_leaves_the_others_their_turn() -> None:
    history = make_history(["a"] * 4 + ["b"], rows=[STRETCH_ROWS // 2 + 1] * 4 + [1])
    order = follow("ab")
    order.add("a", history["a"])
    order.add("b", history["b"])
    assert reported(order.take()) == ["a1", "a2", "b1"]
    assert reported(order.take()) == ["a3", "a4"]
    alone = follow("a")
    alone.add("a", history["a"])
    assert len(alone.take()) == 4


def test_one_answer_has_one_schema_a_table() -> None:
    history = make_history(["a", "ab", "a", "b"], schemas=[0, 1, 1, 1])
    order = follow("ab")
    for table in "ab":
        order.add(table, history[table])
    assert reported(order.take()) == ["a1"], "b1 comes with a2, which has another schema than a1"
    assert reported(order.take()) == ["a2 b1", "a3", "b2"]


def test_a_watermark_ends_tables_and_what_was_committed_with_them() -> None:
    history = make_history(["a", "b", "ab", "c", "bc", "d"], watermarks=[1, 2, 9, 3, 4, 5])
    order = follow(last_watermark_ms=5)
    for table in "cabd":
        order.add(table, history[table])
    assert reported(order.take()) == ["a1", "b1", "c1", "d1"]
    assert not order.has_ended
    order.end("d")
    assert order.has_ended, "c2 came together with b3, behind the end of b"
    order.add("a", history["a"])
    assert order.take() == []


def test_more_than_it_keeps_is_asked_for_again() -> None:
    history = make_history(["a"] * 5 + ["ab"] + ["a"])
    order = follow("ab", max_known=2)
    order.add("a", history["a"][:3])
    order.add("a", history["a"][3:])
    assert reported(order.take()) == ["a1", "a2"]
    assert order.list_wanted() == [("a", 2)]
    order.add("a", history["a"][2:5], more=True)
    assert reported(order.take()) == ["a3", "a4"]
    order.add("a", history["a"][4:])
    assert reported(order.take()) == ["a5"]
    assert order.list_wanted() == []
    order.add("b", history["b"])
    assert reported(order.take()) == ["a6 b1"]
    assert order.list_wanted() == [("a", 6)]


def test_another_history_is_noticed() -> None:
    order = CommitOrder({"a": (1, "other")})
    with pytest.raises(HistoryDiverged, match="Snapshot 2 of table a follows a1, but other came before it"):
        order.add("a", make_history(["a", "a"])["a"][1:])


@given(st.data())
def test_whatever_comes_first_all_commits_come_whole_and_in_order(data: st.DataObject) -> None:
    touched = st.sets(st.sampled_from(TABLES), min_size=1).map(lambda tables: "".join(sorted(tables)))
    commits = data.draw(st.lists(touched, max_size=30))
    schemas = data.draw(st.lists(st.just(0) | st.just(1), min_size=len(commits), max_size=len(commits)))
    history = make_history(commits, schemas=schemas)
    order = follow(max_known=data.draw(st.integers(1, 4)))
    sent = dict.fromkeys(TABLES, 0)
    shown: list[Commit] = []
    while any(sent[table] < len(history[table]) for table in TABLES):
        table = data.draw(st.sampled_from([table for table in TABLES if sent[table] < len(history[table])]))
        count = data.draw(st.integers(1, 5))
        order.add(table, history[table][sent[table] : sent[table] + count])
        sent[table] += count
        while found := order.take():
            shown += found
            for wanted, after in order.list_wanted():
                order.add(wanted, history[wanted][after : after + 2], more=after + 2 < min(sent[wanted], 99))
        done = {each: sum(each in commit.snapshots for commit in shown) for each in TABLES}
        for each in TABLES:
            if done[each] < min(sent[each], len(history[each])):
                # It waits for a table that is not told of yet, or for one that waits itself.
                following = history[each][done[each]]
                assert any(
                    done[other] + 1 < n or n > min(sent[other], len(history[other]))
                    for other, n in following.co_committed.items()
                )
    assert sorted(reported(shown)) == sorted(reported([_to_commit(history, number) for number in range(len(commits))]))
    for table in TABLES:
        ids = [commit.snapshots[table].snapshot_id for commit in shown if table in commit.snapshots]
        assert ids == list(range(1, len(history[table]) + 1))


def _to_commit(history: dict[str, list[Snapshot]], number: int) -> Commit:
    return Commit({table: each for table in TABLES for each in history[table] if each.identifier == number})
