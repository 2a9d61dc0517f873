"""Takes changed files and keys into use while a server runs.

Invariants:

1. What is new and cannot be used changes nothing: the server goes on with what it has. Each change has one line in the
   log, without the content of a file.
2. Nothing here blocks the event loop: files and URLs are read in threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from lakelog.errors import LakelogError
from lakelog.serving.logging_setup import Logger

from .metrics import RotationMetrics
from .watched import Watched

if TYPE_CHECKING:
    from .live_tls import LiveTls

LOOK_EVERY_S: Final = 5.0
"""Between two looks at a file. Reading a few small files costs nothing."""


class Rotation:
    """Looks at files and keys until it is closed. Runs on one event loop.

    Args:
        watched: What can change.
        tls: The server's certificate, of whose end it warns; None: the server has none. It is watched, too.
        metrics: Counts the changes.
        log: For a line for each change.
        every_s: Between two looks.
    """

    def __init__(
        self,
        watched: Sequence[Watched],
        tls: LiveTls | None,
        metrics: RotationMetrics,
        log: Logger,
        *,
        every_s: float = LOOK_EVERY_S,
    ) -> None:
        self._watched: list[Watched] = [*watched, *([] if tls is None else [tls.files])]
        self._tls = tls
        self._metrics = metrics
        self._log = log
        self._every_s = every_s
        self._wakes = [asyncio.Event() for _ in self._watched]
        self._tasks: list[asyncio.Task[None]] = []
        for each, wake in zip(self._watched, self._wakes, strict=True):
            each.on_want = wake.set
        if tls is not None:
            metrics.show_certificate(tls.remaining_s)

    def start(self) -> None:
        """Begins to look, each time after a pause, or at once when the process gets SIGHUP."""
        self._tasks = [
            asyncio.create_task(self._run(each, wake), name=f"rotation of {each.name}")
            for each, wake in zip(self._watched, self._wakes, strict=True)
        ]
        # Outside of a main thread there are no signals.
        with contextlib.suppress(ValueError, RuntimeError):
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self.look_now)
        self._warn()
        for each in self._watched:
            self._warn_of(each)

    def look_now(self) -> None:
        """Looks without a further pause."""
        for wake in self._wakes:
            wake.set()

    async def close(self) -> None:
        """Ends; idempotent."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def step(self, watched: Watched) -> None:
        """Looks at one thing."""
        try:
            change = await asyncio.to_thread(watched.look)
        except LakelogError as error:
            self._metrics.rotations.labels(watched.name, "refused").inc()
            self._metrics.refused.labels(watched.name).set(1)
            self._log.error(
                "what is new cannot be used, so the old goes on", setting=watched.name, reason=error.message
            )
            return
        if change is None:
            return
        change()
        self._metrics.rotations.labels(watched.name, "used").inc()
        self._metrics.refused.labels(watched.name).set(0)
        self._log.info("taken into use without a restart", setting=watched.name)
        self._warn_of(watched)

    def _warn_of(self, watched: Watched) -> None:
        warning = watched.find_warning()
        self._metrics.empty.labels(watched.name).set(warning is not None)
        if warning is not None:
            self._log.error("what is in use lets no one in", setting=watched.name, message=warning)

    async def _run(self, watched: Watched, wake: asyncio.Event) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._every_s):
                    await wake.wait()
            wake.clear()
            try:
                await self.step(watched)
            except Exception as error:
                # A defect here must not end the looking, and so the life of certificates and tokens.
                self._log.error("internal error", setting=watched.name, exc_info=error)
            if self._tls is not None and watched is self._tls.files:
                self._warn()

    def _warn(self) -> None:
        warning = None if self._tls is None else self._tls.find_warning()
        if warning is not None:
            self._log.warning("certificate", message=warning)
