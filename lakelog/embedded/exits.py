"""Waits for the end of child processes without looking at them again and again."""

from __future__ import annotations

import os
import select
import weakref
from collections.abc import Collection
from contextlib import ExitStack, suppress


class Exits:
    """Blocks one thread until a child ends, or until another thread wakes it."""

    def __init__(self) -> None:
        self._woken = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        weakref.finalize(self, os.close, self._woken)

    def wake(self) -> None:
        """Ends the present wait, or the next one if none is going on. From any thread."""
        os.eventfd_write(self._woken, 1)

    def wait(self, pids: Collection[int], within_s: float) -> None:
        """Blocks until one of these children has ended, or `wake` was called; not for longer than `within_s`.

        The children may have ended already, but none of them has been waited for, so that their ids are theirs.
        """
        with ExitStack() as opened:
            poll = select.poll()
            poll.register(self._woken, select.POLLIN)
            for pid in pids:
                try:
                    handle = os.pidfd_open(pid)
                except ProcessLookupError:
                    # Another thread has waited for it meanwhile.
                    return
                opened.callback(os.close, handle)
                poll.register(handle, select.POLLIN)
            poll.poll(within_s * 1000)
        with suppress(BlockingIOError):
            os.eventfd_read(self._woken)
