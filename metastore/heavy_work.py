"""Work that would keep the event loop busy for too long, done in threads beside it.

The loop serves every call, so nothing on it may take more than some milliseconds: a light call waits for all of it.
Whoever has work that grows with a request (files, values, rows) hands it to the threads of its kind, with its size.
Small work is done at once, because a thread costs more than it. Kinds have threads of their own where one must not
wait for the other: a commit holds locks while it waits, and a plan may take seconds.

SUBTLE: threads of Python share one lock (the GIL), which a call into C holds until it returns. So work beside the loop
must not call into C for long: large results are read in slices (`slices`). Arrow and numpy let others run meanwhile.

SUBTLE: freeing is such a call too: a list of 100,000 files with their statistics takes 100 ms to go. Whoever is done
with one hands it to `HeavyWork.free_later`, which frees it slice by slice.

SUBTLE: the collector of garbage holds that lock too, for as long as it scans, and it scans all young objects. A commit
of 100,000 files makes a million of them, which is a second of collections. So it pauses while heavy work runs; what
that has made is then put aside (`gc.freeze`), where it is freed as soon as nothing refers to it, but never scanned.
Cycles among what was put aside are found by `Collector.reclaim` when no heavy work runs, or after some minutes.
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

P = ParamSpec("P")
T = TypeVar("T")

LIGHT: Final = 500
"""Files of a commit that are handled at once: some milliseconds at most."""

LIGHT_ROWS: Final = 2000
"""Rows, entries of files and values, likewise: each of them costs less."""

SLICE: Final = 1000
"""Items that one call into C may take: a millisecond or two."""

_SWITCH_INTERVAL_S: Final = 0.0005
"""How long the loop waits for a thread that runs Python, each time it wakes up; Python's 5 ms add up to 50 in a call
that wakes it ten times."""


_LET_GO_S: Final = 1.0
"""How long after a commit was decided its caller still refers to it, at most: until its answer is sent."""


class Collector:
    """Pauses the collector of garbage while heavy work runs. Only a process that calls `settle` uses it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self._settled = False
        self._has_put_aside = False

    def settle(self, first_generation: int) -> None:
        """Prepares a process that serves: what it has made so far is never scanned again.

        Args:
            first_generation: New objects between two collections.
        """
        gc.collect()
        gc.freeze()
        gc.set_threshold(first_generation, *gc.get_threshold()[1:])
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        self._settled = True

    def begin(self) -> None:
        """Heavy work begins."""
        with self._lock:
            self._running += 1
            if self._settled:
                gc.disable()

    def end(self) -> None:
        """Heavy work ends; what it has made is put aside."""
        with self._lock:
            self._running -= 1
            if self._settled:
                gc.freeze()
                self._has_put_aside = True
                if not self._running:
                    gc.enable()

    @property
    def has_put_aside(self) -> bool:
        """Whether there may be cycles that are not scanned."""
        return self._has_put_aside

    def reclaim(self, *, even_if_busy: bool = False) -> bool:
        """Finds cycles among what was put aside, if no heavy work runs; returns whether it looked.

        Args:
            even_if_busy: Look although heavy work runs, whose objects are scanned as well: up to a second.
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
"""That of this process, as Python has one."""


class WorkThreads:
    """Threads for one kind of heavy work.

    Args:
        name: What it is for; appears in the names of its threads and in errors.
        threads: How much of it runs at once.
        max_waiting: How much may wait for a thread; None: what hands it over is bounded itself.
        light: Up to so many items work is done at once, on the loop.
    """

    def __init__(self, name: str, *, threads: int, max_waiting: int | None = None, light: int = LIGHT) -> None:
        self.light: Final = light
        self._name = name
        self._threads = threads
        self._max_waiting = max_waiting
        self._taken = 0
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=f"lakelog-{name}")

    async def run(self, size: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Calls a function that does not touch what others change meanwhile, and returns its result.

        A caller that is cancelled stops waiting; the function, if it runs, runs to its end.

        Args:
            size: How many items it handles.
            function: What to call.
            args: Its arguments.
            kwargs: Its arguments by name.

        Raises:
            ResourceExhausted: Too much waits already.
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
        self.commits: Final = WorkThreads("commits", threads=1)
        """Checking, deciding and writing large commits; the gate bounds how many wait."""
        self.plans: Final = WorkThreads("plans", threads=2, max_waiting=100, light=LIGHT_ROWS)
        """Filtering, sorting and packing file entries."""
        self.rows: Final = WorkThreads("rows", threads=1, light=LIGHT_ROWS)
        """Converting large results of the database that hold no lock."""
        self._frees: Final = ThreadPoolExecutor(1, thread_name_prefix="lakelog-free")

    def free_later(self, objects: list[Any]) -> None:
        """Frees many objects, in slices and beside the loop, once others have let go of them.

        Args:
            objects: Emptied then. A list of what a tuple holds serves for the tuple: without its items it goes at once.
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
    """Calls a function that makes many objects while the collector of garbage pauses; returns its result."""
    COLLECTOR.begin()
    try:
        return function(*args, **kwargs)
    finally:
        COLLECTOR.end()
