"""Runs work in threads that would keep the event loop busy for too long.

The loop serves every call, so nothing on it may take more than some milliseconds: a light call waits for all of it.
Code with work that grows with a request (files, values, rows) hands it to the threads of its kind, with its size.
Small work is done at once, because a thread would cost more. Kinds have threads of their own where one must not wait
for the other: a commit holds locks while it waits, and a plan can take seconds.

SUBTLE: threads of Python share one lock (the GIL), which a call into C holds until it returns. So work beside the loop
must not call into C for long: large results are read in slices (`slices`). Arrow and numpy let others run meanwhile.

SUBTLE: freeing is such a call too: a list of 100,000 files with their statistics takes 100 ms. Code that is done with
one hands it to `HeavyWork.free_later`, which frees it slice by slice.

SUBTLE: the garbage collector holds that lock too while it scans, and it scans all young objects. A commit of 100,000
files makes a million of them, which is a second of collections. So the collector pauses while heavy work runs. The new
objects are then put aside (`gc.freeze`): they are freed as soon as nothing refers to them, but not scanned.
`Collector.reclaim` finds cycles among them when no heavy work runs, or after some minutes.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, ParamSpec, TypeVar

from lakelog.errors import ResourceExhausted

from .memory_return import MemoryReturn

P = ParamSpec("P")
T = TypeVar("T")

LIGHT: Final = 500
"""How many files of a commit are handled at once: at most some milliseconds."""

LIGHT_ROWS: Final = 2000
"""How many rows, entries of files or values are handled at once: each of them costs less."""

SLICE: Final = 1000
"""How many items one call into C handles: a millisecond or two."""

_SWITCH_INTERVAL_S: Final = 0.0005
"""How long the loop waits for a thread that runs Python, each time it wakes up. Python's default of 5 ms would add up
to 50 ms in a call that wakes it ten times."""


_LET_GO_S: Final = 1.0
"""The longest time for which a caller refers to its commit after the decision: until the answer is sent."""


class Collector:
    """Pauses the garbage collector while heavy work runs. It acts only in a process that calls `settle`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self._settled = False
        self._has_put_aside = False

    def settle(self, first_generation: int) -> None:
        """Prepares a process that serves: the objects that exist now are left out of usual collections.

        Args:
            first_generation: How many new objects there are between two collections.
        """
        gc.collect()
        gc.freeze()
        gc.set_threshold(first_generation, *gc.get_threshold()[1:])
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        self._settled = True

    def begin(self) -> None:
        """Notes that heavy work begins."""
        with self._lock:
            self._running += 1
            if self._settled:
                gc.disable()

    def end(self) -> None:
        """Notes that heavy work ends; puts the objects that it has made aside."""
        with self._lock:
            self._running -= 1
            if self._settled:
                gc.freeze()
                self._has_put_aside = True
                if not self._running:
                    gc.enable()

    @property
    def has_put_aside(self) -> bool:
        """Whether there can be cycles that are not scanned."""
        return self._has_put_aside

    def reclaim(self, *, even_if_busy: bool = False) -> bool:
        """Finds cycles among the objects put aside, if no heavy work runs; returns whether it scanned.

        Args:
            even_if_busy: Scan although heavy work runs. Its objects are scanned as well, for up to a second.
        """
        with self._lock:
            if self._running and not even_if_busy:
                return False
            gc.unfreeze()
            gc.collect()
            gc.freeze()
            self._has_put_aside = False
            return True


COLLECTOR: Final = Collector()
"""The only one of this process, because Python has one garbage collector."""


class WorkThreads:
    """Threads for one kind of heavy work.

    Args:
        name: The purpose, for the names of its threads and for errors.
        threads: How many pieces of work run at once.
        max_waiting: How many can wait for a thread; None: the callers bound them.
        light: Work of at most this many items is done at once, on the loop.
        memory: Returns the memory of large work; None: nothing does.
    """

    def __init__(
        self,
        name: str,
        *,
        threads: int,
        max_waiting: int | None = None,
        light: int = LIGHT,
        memory: MemoryReturn | None = None,
    ) -> None:
        self.light: Final = light
        self._memory = memory
        self._name = name
        self._threads = threads
        self._max_waiting = max_waiting
        self._taken = 0
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=f"lakelog-{name}")

    async def run(self, size: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Calls a function and returns its result; the function must not use objects that others change meanwhile.

        A caller that is cancelled stops waiting; the function, if it runs, runs to its end.

        Args:
            size: How many items it handles.
            function: What to call.
            args: Its arguments.
            kwargs: Its arguments by name.

        Raises:
            ResourceExhausted: Too much work waits already.
        """
        if size <= self.light:
            return function(*args, **kwargs)
        self._check_room()
        self._taken += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._executor, lambda: run_paused(function, *args, **kwargs)
            )
        finally:
            self._taken -= 1
            if self._memory is not None:
                self._memory.after(size)

    def _check_room(self) -> None:
        if self._max_waiting is not None and self._taken >= self._threads + self._max_waiting:
            raise ResourceExhausted(
                f"{self._max_waiting} large {self._name} wait for the metastore, which is the limit. Ask for less at "
                "once, or try again after a moment.",
                reason=f"TOO_MANY_{self._name.upper()}",
                metadata={"limit": str(self._max_waiting)},
            )


class HeavyWork:
    """The threads of a metastore, by kind of work. They start with the first work."""

    def __init__(self) -> None:
        self._frees: Final = ThreadPoolExecutor(1, thread_name_prefix="lakelog-free")
        memory = MemoryReturn(self._frees)
        self.commits: Final = WorkThreads("commits", threads=1, memory=memory)
        """Checking, deciding and writing large commits; the gate bounds how many wait."""
        self.plans: Final = WorkThreads("plans", threads=2, max_waiting=100, light=LIGHT_ROWS, memory=memory)
        """Filtering, sorting and packing file entries."""
        self.rows: Final = WorkThreads("rows", threads=1, light=LIGHT_ROWS, memory=memory)
        """Converting large results of the database that hold no lock."""

    def free_later(self, objects: list[Any]) -> None:
        """Frees many objects, in slices and beside the loop, once nothing else refers to them.

        Args:
            objects: Is emptied then. For a tuple, pass a list of its items: the tuple itself is freed at once.
        """
        if len(objects) > LIGHT:
            asyncio.get_running_loop().call_later(_LET_GO_S, self._frees.submit, _free, objects)


def slices(count: int, size: int = SLICE) -> Iterator[tuple[int, int]]:
    """The bounds of slices that together make `count` items; the end is not included."""
    for start in range(0, count, size):
        yield start, min(start + size, count)


def _free(objects: list[Any]) -> None:
    while objects:
        del objects[-SLICE:]


def run_paused(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Calls a function that makes many objects while the garbage collector pauses; returns its result."""
    COLLECTOR.begin()
    try:
        return function(*args, **kwargs)
    finally:
        COLLECTOR.end()
