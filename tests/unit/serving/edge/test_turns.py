"""Waiting for room: in order, without losing any, also when who waits gives up."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from lakelog.serving.edge.turns import FairTurns, Room, Turns


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_what_does_not_fit_waits_in_order() -> None:
    async def work() -> list[str]:
        room, came = Room(10), []

        async def take(name: str, size: int) -> None:
            await room.take(size)
            came.append(name)

        await room.take(8)
        waiting = [asyncio.ensure_future(take(name, size)) for name, size in (("large", 5), ("small", 1))]
        await settle()
        assert came == [], "the small one does not overtake"
        room.give_back(8)
        await settle()
        assert all(each.done() for each in waiting)
        return came

    assert asyncio.run(work()) == ["large", "small"]


def test_what_is_larger_than_the_room_gets_it_alone() -> None:
    async def work() -> None:
        room = Room(10)
        await room.take(3)
        large = asyncio.ensure_future(room.take(25))
        await settle()
        assert not large.done()
        room.give_back(3)
        await large
        other = asyncio.ensure_future(room.take(1))
        await settle()
        assert not other.done()
        room.give_back(25)
        await other

    asyncio.run(work())


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 15), st.integers(0, 3), st.booleans()), max_size=20))
def test_nothing_is_lost_when_those_who_wait_or_work_are_cancelled(steps: list[tuple[int, int, bool]]) -> None:
    async def work() -> None:
        room = Room(10)

        async def use(size: int, turns: int) -> None:
            await room.take(size)
            try:
                assert room.used <= max(10, size)
                for _ in range(turns):
                    await asyncio.sleep(0)
            finally:
                room.give_back(size)

        tasks = []
        for size, turns, cancelled in steps:
            tasks.append(asyncio.ensure_future(use(size, turns)))
            await asyncio.sleep(0)
            if cancelled:
                tasks[len(tasks) // 2].cancel()
        await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 5)
        assert room.used == 0

    asyncio.run(work())


def test_who_gives_up_in_the_moment_when_room_comes_free_is_passed_over() -> None:
    async def work() -> None:
        room = Room(1)
        await room.take(1)
        first, second = asyncio.ensure_future(room.take(1)), asyncio.ensure_future(room.take(1))
        await settle()
        first.cancel()
        room.give_back(1)
        await asyncio.wait_for(second, 5)
        assert first.cancelled()
        room.give_back(1)
        assert room.used == 0

    asyncio.run(work())


def test_each_key_has_its_own_turns() -> None:
    async def work() -> None:
        turns, inside, most = Turns(2), {"a": 0, "b": 0}, {"a": 0, "b": 0}

        async def use(key: str) -> None:
            async with turns.turn(key):
                inside[key] += 1
                most[key] = max(most[key], inside[key])
                await asyncio.sleep(0)
                inside[key] -= 1

        await asyncio.gather(*(use(key) for key in "abaabbaa"))
        assert most == {"a": 2, "b": 2}
        assert turns.is_empty

    asyncio.run(work())


def served(origins: str, *, at_once: int = 1, cancelled: tuple[int, ...] = ()) -> str:
    """In which order the work of some origins is done, that all comes at once."""

    async def work() -> str:
        turns, done = FairTurns(at_once), ""

        async def use(origin: str) -> None:
            nonlocal done
            await turns.acquire(origin)
            try:
                await asyncio.sleep(0)
                done += origin
            finally:
                turns.release()

        tasks = [asyncio.ensure_future(use(origin)) for origin in origins]
        await asyncio.sleep(0)
        for number in cancelled:
            tasks[number].cancel()
        await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 5)
        for _ in range(at_once):
            await asyncio.wait_for(turns.acquire("last"), 1)
        return done

    return asyncio.run(work())


def test_an_origin_with_much_to_do_delays_another_by_one_turn() -> None:
    assert served("aaaaaaaab") == "aabaaaaaa"
    assert served("aaaabbbbc") == "aabcababb"


def test_within_an_origin_the_order_is_that_of_the_requests_and_who_gives_up_loses_no_turn() -> None:
    assert served("abcabc", cancelled=(1, 3)) == "acbc"
    assert sorted(served("aabbccaabbcc", at_once=3, cancelled=(0, 1, 5, 6))) == list("abbbbccc")
