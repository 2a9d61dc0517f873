from __future__ import annotations

from dataclasses import dataclass, field

from metastore.commits.group_queue import MAX_GROUP_BYTES, GroupQueue


@dataclass(eq=False)
class Item:
    name: str
    tables: frozenset[str]
    alone: bool = False
    file_count: int = 0
    property_bytes: int = 0
    given_up: bool = field(default=False)
    ready: bool = True
    origin: str = ""


def queue_of(*items: Item, max_commits: int = 100, max_files: int = 100, max_of_caller: int = 100) -> GroupQueue[Item]:
    queue: GroupQueue[Item] = GroupQueue(max_commits, max_files, max_of_caller)
    for item in items:
        queue.add(item)
    return queue


def item(name: str, tables: str = "t", **fields: bool | int | str) -> Item:
    return Item(name, frozenset(tables), **fields)  # type: ignore[arg-type]


def names(group: list[Item]) -> str:
    return "".join(member.name for member in group)


def test_those_that_wait_for_one_table_go_together_in_order() -> None:
    queue = queue_of(item("a"), item("b"), item("c"))
    assert names(queue.take()) == "abc"
    queue.add(item("d"))
    assert queue.take() == []
    queue.finish("t")
    assert names(queue.take()) == "d"
    assert (queue.commit_count, queue.file_count) == (0, 0)


def test_one_that_is_not_ready_is_not_overtaken_at_its_tables() -> None:
    unready = item("b", "tu", ready=False)
    queue = queue_of(item("a", "t"), unready, item("c", "u"), item("d", "v"))
    assert {names(queue.take()), names(queue.take())} == {"a", "d"}
    queue.finish("t")
    assert queue.take() == []
    unready.ready = True
    queue.look_again(unready.tables)
    assert names(queue.take()) == "b"
    queue.finish("tu")
    assert names(queue.take()) == "c"


def test_one_that_is_given_up_before_it_is_ready_lets_the_others_go() -> None:
    unready = item("a", ready=False)
    queue = queue_of(unready, item("b"))
    assert queue.take() == []
    unready.given_up = True
    queue.look_again(unready.tables)
    assert names(queue.take()) == "b"
    assert queue.commit_count == 0


def test_tables_do_not_wait_for_each_other() -> None:
    queue = queue_of(item("a", "t"), item("b", "u"), item("c", "t"))
    assert {names(queue.take()), names(queue.take())} == {"ac", "b"}


def test_one_that_goes_alone_is_not_overtaken() -> None:
    queue = queue_of(item("a"), item("b", alone=True), item("c"), item("d"))
    taken = []
    for _ in range(3):
        taken.append(names(queue.take()))
        assert queue.take() == []
        queue.finish("t")
    assert taken == ["a", "b", "cd"]


def test_one_over_several_tables_waits_for_all_and_holds_all_back() -> None:
    queue = queue_of(item("a", "t"), item("b", "tu"), item("c", "u"), item("d", "t"))
    assert names(queue.take()) == "a"
    assert queue.take() == []
    queue.finish("t")
    assert names(queue.take()) == "b"
    assert queue.take() == []
    queue.finish("tu")
    assert sorted([names(queue.take()), names(queue.take())]) == ["c", "d"]


def test_those_with_the_same_tables_share_also_when_there_are_several() -> None:
    queue = queue_of(item("a", "tu"), item("b", "ut"), item("c", "t"))
    assert names(queue.take()) == "ab"
    queue.finish("tu")
    assert names(queue.take()) == "c"


def test_groups_are_bounded_in_commits_and_files() -> None:
    queue = queue_of(*(item(name) for name in "abcde"), max_commits=2)
    assert names(queue.take()) == "ab"
    queue = queue_of(item("a", file_count=60), item("b", file_count=50), item("c", file_count=500), max_files=100)
    taken = []
    for _ in range(3):
        taken.append(names(queue.take()))
        queue.finish("t")
    assert taken == ["a", "b", "c"]


def test_groups_are_bounded_in_bytes_of_properties() -> None:
    """The 256 commits of a group with 60 KB each went to the database at once, while all other calls waited."""
    half = MAX_GROUP_BYTES // 2
    queue = queue_of(*(item(name, property_bytes=half) for name in "abc"), item("d", property_bytes=3 * half))
    taken = []
    for _ in range(3):
        taken.append(names(queue.take()))
        queue.finish("t")
    assert taken == ["ab", "c", "d"]


def test_those_that_were_given_up_are_passed_over() -> None:
    queue = queue_of(item("a", given_up=True), item("b"), item("c", "u", given_up=True))
    assert names(queue.take()) == "b"
    assert queue.take() == []
    assert queue.commit_count == 0


def test_callers_get_groups_in_turn() -> None:
    of_ann = [item(name, name, origin="ann") for name in "abcde"]
    queue = queue_of(*of_ann, item("x", "x", origin="bob"), item("y", "y", origin="bob"), item("z", "z", origin="eve"))
    assert [names(queue.take()) for _ in range(8)] == ["a", "x", "z", "b", "y", "c", "d", "e"]


def test_control_without_turns_and_limits_of_callers_one_of_them_has_the_first_groups_and_all() -> None:
    of_ann = [item(name, name) for name in "abcde"]
    queue = queue_of(*of_ann, item("x", "x"))
    assert [names(queue.take()) for _ in range(6)] == ["a", "b", "c", "d", "e", "x"]


def test_one_caller_never_has_all_groups() -> None:
    of_ann = [item(name, name, origin="ann") for name in "abcd"]
    queue = queue_of(*of_ann, max_of_caller=2)
    assert [names(queue.take()) for _ in range(3)] == ["a", "b", ""]
    queue.add(item("x", "x", origin="bob"))
    assert [names(queue.take()) for _ in range(2)] == ["x", ""]
    queue.finish("a")
    assert [names(queue.take()) for _ in range(2)] == ["c", ""]
    queue.finish("x")
    assert queue.take() == [], "the place of one caller is not another's"
    queue.finish("b")
    assert names(queue.take()) == "d"
    queue.finish("c")
    queue.finish("d")
    assert not queue._groups
    assert not queue._candidates


def test_commits_of_several_callers_to_one_table_share_a_group() -> None:
    queue = queue_of(item("a", origin="ann"), item("b", origin="bob"), max_of_caller=1)
    assert names(queue.take()) == "ab"


def test_no_table_is_starved_by_another() -> None:
    queue = queue_of(item("a", "t"), item("b", "u"))
    queue.take()
    queue.add(item("c", "t"))
    assert names(queue.take()) == "b"


def test_drain_takes_all_once() -> None:
    queue = queue_of(item("a", "t"), item("b", "tu"))
    assert names(queue.drain()) == "ab"
    assert queue.take() == []
