"""Callers of open streams are recognized again when their tokens end, and when the ways in change."""

from __future__ import annotations

import asyncio
import contextlib

from lakelog.clock import SystemClock
from lakelog.errors import PermissionDenied
from lakelog.serving.access import Caller, Role
from lakelog.serving.edge.known_callers import KnownCallers


class WayIn:
    """What recognizes one caller, or no longer."""

    def __init__(self, caller: Caller | None) -> None:
        self.caller = caller
        self.asked = 0

    def recognize(self) -> Caller:
        self.asked += 1
        if self.caller is None:
            raise PermissionDenied("gone")
        return self.caller


async def _settle() -> None:
    for _ in range(100):
        await asyncio.sleep(0)


def test_a_change_ends_the_streams_of_those_that_are_no_longer_known() -> None:
    async def run() -> None:
        callers = KnownCallers(SystemClock())
        ann = Caller("ann", Role.WRITER)
        later = {
            "same": ann,
            "more": Caller("ann", Role.ADMIN),
            "less": Caller("ann", Role.READER),
            "other": Caller("bob", Role.ADMIN),
            "gone": None,
        }
        ways = {name: WayIn(ann) for name in later}
        with contextlib.ExitStack() as stack:
            lost = {name: stack.enter_context(callers.keep(ann, way.recognize)) for name, way in ways.items()}
            await _settle()
            assert not any(event.is_set() for event in lost.values())
            for name, caller in later.items():
                ways[name].caller = caller
            callers.recheck()
            await _settle()
            assert {name for name, event in lost.items() if event.is_set()} == {"less", "other", "gone"}
        callers.recheck()
        await _settle()
        assert {way.asked for way in ways.values()} == {2}, (
            "at the begin and after the change; a stream that has ended is forgotten"
        )

    asyncio.run(run())


def test_a_caller_that_was_lost_before_its_stream_is_noticed_at_once() -> None:
    async def run() -> None:
        callers = KnownCallers(SystemClock())
        ann = Caller("ann", Role.WRITER)
        for found, is_lost in ((None, True), (Caller("ann", Role.READER), True), (ann, False)):
            with callers.keep(ann, WayIn(found).recognize) as lost:
                assert lost.is_set() == is_lost

    asyncio.run(run())


def test_many_streams_are_checked_in_turns_with_other_work() -> None:
    async def run() -> None:
        callers = KnownCallers(SystemClock())
        way = WayIn(Caller("ann", Role.WRITER))
        with contextlib.ExitStack() as stack:
            for _ in range(1000):
                stack.enter_context(callers.keep(Caller("ann", Role.WRITER), way.recognize))
            callers.recheck()
            turns = 0
            while way.asked < 2 * 1000:
                await asyncio.sleep(0)
                turns += 1
            assert turns >= 1000 / 20

    asyncio.run(run())


def test_the_end_of_a_token_ends_its_stream_alone() -> None:
    async def run() -> None:
        clock = SystemClock()
        callers = KnownCallers(clock)
        until_s = clock.now_ms() / 1000 + 0.05
        ending, lasting = Caller("ann", Role.WRITER, until_s), Caller("bob", Role.WRITER)
        gone, renewed, kept = WayIn(ending), WayIn(ending), WayIn(lasting)
        with (
            callers.keep(ending, gone.recognize) as first,
            callers.keep(ending, renewed.recognize) as second,
            callers.keep(lasting, kept.recognize) as third,
        ):
            gone.caller, renewed.caller = None, Caller("ann", Role.WRITER, until_s + 3600)
            kept.caller = None
            await first.wait()
            while renewed.asked < 2:
                await asyncio.sleep(0.01)
            assert not second.is_set()
            assert not third.is_set()

    asyncio.run(run())
