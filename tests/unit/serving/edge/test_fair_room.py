"""Room that waiting callers get in turn, without losing any, also when one that waits gives up."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from lakelog.serving.edge.fair_room import FairRoom


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def served(requests: list[tuple[str, int]]) -> list[str]:
    """The origins in the order in which they get room of 10, which one request has had at first."""
    room, came = FairRoom(10), []

    async def take(origin: str, size: int) -> None:
        await room.take(origin, size)
        came.append(origin)
        await asyncio.sleep(0)
        room.give_back(size)

    await room.take("first", 10)
    waiting = [asyncio.ensure_future(take(*each)) for each in requests]
    await settle()
    assert came == []
    room.give_back(10)
    await asyncio.gather(*waiting)
    assert (room.used, room.waiting_count) == (0, 0)
    return came


def test_a_busy_caller_delays_others_by_one_request() -> None:
    assert asyncio.run(served([("ann", 9)] * 4 + [("bob", 9), ("eve", 9)])) == ["ann", "bob", "eve", *["ann"] * 3]


def test_a_large_request_is_not_overtaken_for_ever() -> None:
    assert asyncio.run(served([("ann", 25), ("bob", 1), ("bob", 1)])) == ["ann", "bob", "bob"]


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 15), st.integers(0, 3)), max_size=20))
def test_nothing_is_lost_if_some_are_cancelled(steps: list[tuple[str, int, int]]) -> None:
    async def work() -> None:
        room = FairRoom(10)

        async def use(origin: str, size: int, pauses: int) -> None:
            await room.take(origin, size)
            assert room.used <= 10 or room.used == size
            try:
                for _ in range(pauses):
                    await asyncio.sleep(0)
            finally:
                room.give_back(size)

        running = []
        for number, (origin, size, pauses) in enumerate(steps):
            running.append(asyncio.ensure_future(use(origin, size, pauses)))
            await asyncio.sleep(0)
            if number % 3 == 2:
                running[number // 2].cancel()
        await asyncio.gather(*running, return_exceptions=True)
        assert (room.used, room.waiting_count) == (0, 0)

    asyncio.run(work())


def test_who_gives_up_in_the_moment_when_room_comes_free_is_passed_over() -> None:
    async def work() -> None:
        room = FairRoom(1)
        await room.take("a")
        first, second = asyncio.ensure_future(room.take("a")), asyncio.ensure_future(room.take("a"))
        await settle()
        first.cancel()
        room.give_back()
        await asyncio.wait_for(second, 5)
        assert first.cancelled()
        room.give_back()
        assert room.used == 0

    asyncio.run(work())


def test_requests_that_are_given_up_take_no_memory_while_others_wait() -> None:
    async def work() -> None:
        room = FairRoom(1)
        await room.take("first")
        waiting = [asyncio.ensure_future(room.take("ab"[number % 2])) for number in range(100)]
        await settle()
        for each in waiting[1:]:
            each.cancel()
        await settle()
        assert room.waiting_count == 1
        room.give_back()
        await asyncio.wait_for(waiting[0], 5)
        assert (room.used, room.waiting_count) == (1, 0)

    asyncio.run(work())


def order_of(origins: str, *, at_once: int = 1, cancelled: tuple[int, ...] = (), in_turn: bool = True) -> str:
    """In which order the work of some origins is done, that all comes at once; not `in_turn`: all have one origin."""

    async def work() -> str:
        room, done = FairRoom(at_once), ""

        async def use(origin: str) -> None:
            nonlocal done
            await room.take(origin if in_turn else "all")
            try:
                await asyncio.sleep(0)
                done += origin
            finally:
                room.give_back()

        tasks = [asyncio.ensure_future(use(origin)) for origin in origins]
        await asyncio.sleep(0)
        for number in cancelled:
            tasks[number].cancel()
        await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 5)
        for _ in range(at_once):
            await asyncio.wait_for(room.take("last"), 1)
        return done

    return asyncio.run(work())


def test_an_origin_with_much_to_do_delays_another_by_one_turn() -> None:
    assert order_of("aaaaaaaab") == "aabaaaaaa"
    assert order_of("aaaabbbbc") == "aabcababb"


def test_control_without_turns_an_origin_with_much_to_do_delays_all_others_until_it_is_done() -> None:
    assert order_of("aaaaaaaab", in_turn=False) == "aaaaaaaab"
    assert order_of("aaaabbbbc", in_turn=False) == "aaaabbbbc"


def test_within_an_origin_the_order_is_that_of_the_requests_and_an_origin_that_gives_one_up_keeps_its_turn() -> None:
    assert order_of("abcabc", cancelled=(1, 3)) == "abcc"
    assert sorted(order_of("aabbccaabbcc", at_once=3, cancelled=(0, 1, 5, 6))) == list("abbbbccc")
