"""What runs beside the requests: packing, planning, cleaning, announcing, listening. Each step states its own rules."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from lakelog.errors import LakelogError

from .heavy_work import COLLECTOR
from .use_cases import UseCases

log = logging.getLogger(__name__)

POLL_INTERVAL_S: Final = 2.0
"""How late a watcher is notified at worst, when an announcement of another metastore was lost between other commits."""

PACK_INTERVAL_S: Final = 1.0

PLAN_INTERVAL_S: Final = 0.5
"""Commits that follow each other within this time are planned together; no one waits for what they make due."""

CLEAN_INTERVAL_S: Final = 600.0
"""The attempts that a step finds were left at least an hour ago, and they only cost storage."""

WAITING_INTERVAL_S: Final = 10.0
"""A step reads a row, and measures if no metastore has done so for as long. So what is shown is 20 seconds old at most
while something waits."""

OVERDUE_INTERVAL_S: Final = 60.0
"""A snapshot that is retained for too long has been so for hours."""

ANNOUNCE_INTERVAL_S: Final = 0.05
"""The first commit is announced at once, those within this time after it together. An announcement costs a third of a
commit, and only watchers at other metastores wait for it."""

LAST_ANNOUNCEMENT_S: Final = 1.0
"""How long the end of a metastore waits for a database that does not answer; polls find what is lost."""

RECLAIM_INTERVAL_S: Final = 60.0
"""The event loop waits for it, some 50 ms."""

RECLAIM_TRIES: Final = 600
"""How often it waits for heavy work to end: five minutes. Garbage of other calls must not grow for longer."""

RETRY_INTERVAL_S: Final = 0.5
"""Pause after a step that failed, usually because the database is away."""


class Background:
    """The tasks that the use cases need around them; start and stop it on their event loop."""

    def __init__(self, use_cases: UseCases) -> None:
        self._use_cases = use_cases
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Starts the tasks."""
        use_cases = self._use_cases
        watches, measuring = use_cases.watches, use_cases.work_measuring
        self._tasks = [
            asyncio.create_task(_repeat("poll", watches.step_poll, POLL_INTERVAL_S, wait=watches.wait_while_quiet)),
            asyncio.create_task(_repeat("announce", watches.step_announce, ANNOUNCE_INTERVAL_S)),
            asyncio.create_task(_repeat("listen", watches.run_listen, 0)),
            asyncio.create_task(
                _repeat("pack", use_cases.packer.step_if_touched, PACK_INTERVAL_S, wait=use_cases.packer.wait)
            ),
            asyncio.create_task(
                _repeat("plan", use_cases.due_work.step, PLAN_INTERVAL_S, wait=use_cases.due_work.wait)
            ),
            asyncio.create_task(_repeat("clean", use_cases.cleaning.step, CLEAN_INTERVAL_S)),
            asyncio.create_task(_repeat("writers", use_cases.unused_writers.step, CLEAN_INTERVAL_S)),
            asyncio.create_task(_repeat("leases", use_cases.unused_leases.step, CLEAN_INTERVAL_S)),
            asyncio.create_task(_repeat("runs", use_cases.old_runs.step, CLEAN_INTERVAL_S)),
            asyncio.create_task(_repeat("waiting work", measuring.step, WAITING_INTERVAL_S, wait=measuring.wait)),
            asyncio.create_task(_repeat("overdue", use_cases.overdue.step, OVERDUE_INTERVAL_S)),
            asyncio.create_task(_repeat("topics", use_cases.log_topics.step, 0)),
            asyncio.create_task(_repeat("reclaim", _reclaim, RECLAIM_INTERVAL_S)),
        ]

    async def stop(self) -> None:
        """Ends the tasks; idempotent."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if tasks:
            # The others would find it by polling, but that is rare.
            with suppress(LakelogError, TimeoutError):
                await asyncio.wait_for(self._use_cases.watches.announce_rest(), LAST_ANNOUNCEMENT_S)


async def _reclaim() -> None:
    tries = 0
    while COLLECTOR.has_put_aside and not COLLECTOR.reclaim(even_if_busy=tries == RECLAIM_TRIES):
        tries += 1
        await asyncio.sleep(RETRY_INTERVAL_S)


async def _always_due() -> None:
    """For steps that run as soon as they have paused."""


async def _repeat(
    name: str,
    step: Callable[[], Awaitable[object]],
    pause_s: float,
    *,
    wait: Callable[[], Awaitable[object]] = _always_due,
) -> None:
    """Runs a step forever. A step that fails is tried again later, which is safe because each step can be repeated.

    Args:
        name: Of the step, in the log.
        step: Runs.
        pause_s: The least time between two steps.
        wait: Returns once there is a reason for a step.
    """
    while True:
        try:
            await wait()
            await step()
        except LakelogError as error:
            log.warning("background step '%s' failed: %s", name, error)
            await asyncio.sleep(RETRY_INTERVAL_S)
        except Exception:
            log.exception("background step '%s' failed", name)
            await asyncio.sleep(RETRY_INTERVAL_S)
        else:
            await asyncio.sleep(pause_s)
