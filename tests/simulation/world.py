"""The simulated world: the real use cases, stores in memory, and faults between them and the actors."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import pyarrow as pa

from lakelog.client.metastore.metastore import WatchEvent, WatchPosition
from lakelog.errors import LakelogError, OutcomeUnknown, Unavailable
from lakelog.storage.objects.memory import MemoryStore
from lakelog.storage.objects.store import ObjectStore, ObjectWriter, PassOver, StoredObject
from metastore.ownership import EVERYONE
from metastore.testing import collect_plan, find_asking
from metastore.use_cases import UseCases
from tests.simulation.scheduler import Scheduler

T = TypeVar("T")

COMPACTING: Final = ("x", "y", "z")
"""Names of compactors."""

WRITING: Final = ("a", "b", "c", "overwriter", "roller", "restarter", *COMPACTING)
"""Names of those who commit; their successors' have more behind them."""

_MUTATIONS: Final = frozenset(
    {
        "alter_columns",
        "commit",
        "stage_attempt",
        "abandon_attempt",
        "register_writer",
        "open_consumer",
        "advance_consumer",
        "expire_snapshots",
        "lease_snapshot",
        "release_snapshot",
        "forget_expired_files",
        "abort_attempts",
        "forget_attempts",
    }
)

_TURNS: Final = 20
"""Of the event loop, until it counts as idle."""


@dataclass
class Faults:
    """How often what goes wrong (chances of a call), and how often it did."""

    request_lost: float = 0.0
    reply_lost: float = 0.0
    write_fails: float = 0.0
    watch_breaks: float = 0.0
    injected: dict[str, int] = field(default_factory=dict)

    def note(self, name: str) -> None:
        """Counts a fault that took effect."""
        self.injected[name] = self.injected.get(name, 0) + 1


class VirtualClock:
    """The scheduler's time, for product code that waits."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def now_ms(self) -> int:
        return 1_700_000_000_000 + int(self._scheduler.now_s * 1000)

    def monotonic_s(self) -> float:
        return self._scheduler.now_s

    def sleep(self, seconds: float) -> None:
        self._scheduler.sleep(seconds)


class CountedIds:
    """Identities that are the same in each run of a seed."""

    def __init__(self) -> None:
        self._last = 0

    def new_id(self) -> str:
        self._last += 1
        return f"{self._last:032x}"


class SimulatedCalls:
    """The metastore's protocol for actors: each call is a pause, may lose its request before or its reply behind the
    effect.

    What is called are the real use cases; a call runs to its end while its caller holds the baton. Calls from a
    writer's own threads have neither pauses nor faults: only actors take part in the order that the seed decides.
    """

    def __init__(
        self,
        use_cases: UseCases,
        methods: Mapping[str, Callable[..., Any]],
        loop: asyncio.AbstractEventLoop,
        scheduler: Scheduler,
        faults: Faults,
    ) -> None:
        self._use_cases = use_cases
        self._methods = methods
        self._asking = find_asking(methods)
        self._loop = loop
        self._scheduler = scheduler
        self._faults = faults

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = self._methods[name]
        who = {"by": EVERYONE} if name in self._asking else {}

        def call(*args: Any, **kwargs: Any) -> Any:
            return self._call(name, lambda: method(*args, **kwargs, **who))

        return call

    def plan(self, request: Any) -> Any:
        """A plan, put together as every client does."""

        async def collected() -> Any:
            return await collect_plan(self._use_cases, request)

        return self._call("plan", collected)

    def watch(self, positions: Sequence[WatchPosition], *, complete: bool = False) -> SimulatedWatch:
        """New snapshots, as they come in virtual time."""
        events = self._use_cases.watches.watch(positions, complete=complete)
        return SimulatedWatch(events, self._loop, self._scheduler, self._faults)

    def close(self) -> None:
        """Nothing to close."""

    def _call(self, name: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        if not self._scheduler.is_actor():
            return self._loop.run_until_complete(work())
        self._scheduler.pause(f"calls {name}")
        dice = self._scheduler.random.random()
        if dice < self._faults.request_lost:
            self._faults.note(f"request lost: {name}")
            raise self._lost(name)
        result = self._loop.run_until_complete(work())
        self._scheduler.pause(f"gets the answer of {name}")
        if dice > 1 - self._faults.reply_lost:
            self._faults.note(f"reply lost: {name}")
            raise self._lost(name)
        return result

    def _lost(self, name: str) -> LakelogError:
        if name in _MUTATIONS:
            return OutcomeUnknown(f"The answer of {name} was lost.")
        return Unavailable(f"The metastore could not be reached for {name}.")


class SimulatedWatch:
    """A watch that breaks now and then. It ends when nobody is left who could commit."""

    def __init__(
        self,
        events: AsyncIterator[WatchEvent],
        loop: asyncio.AbstractEventLoop,
        scheduler: Scheduler,
        faults: Faults,
    ) -> None:
        self._events = events
        self._loop = loop
        self._scheduler = scheduler
        self._faults = faults
        self._next: asyncio.Task[WatchEvent | None] | None = None

    def __iter__(self) -> Iterator[WatchEvent]:
        while True:
            self._scheduler.pause("waits for snapshots")
            if self._scheduler.random.random() < self._faults.watch_breaks:
                self._faults.note("watch breaks")
                raise Unavailable("The metastore went away while a table was watched.")
            event = self._await_next()
            if event is None:
                return
            yield event

    def close(self) -> None:
        """Ends it."""
        self._loop.run_until_complete(self._close())

    def _await_next(self) -> WatchEvent | None:
        self._next = self._loop.create_task(self._advance())
        while True:
            self._loop.run_until_complete(_turn())
            if self._next.done():
                return self._next.result()
            if self._scheduler.are_done(WRITING):
                return None
            self._scheduler.sleep(0.5)

    async def _advance(self) -> WatchEvent | None:
        return await anext(self._events, None)

    async def _close(self) -> None:
        if self._next is not None and not self._next.done():
            self._next.cancel()
            await asyncio.wait([self._next])
        await self._events.aclose()  # type: ignore[attr-defined]


async def _turn() -> None:
    for _ in range(_TURNS):
        await asyncio.sleep(0)


class SimulatedStore:
    """An object store in which each call of an actor is a pause and some new files cannot be written."""

    def __init__(self, inner: ObjectStore, scheduler: Scheduler, faults: Faults) -> None:
        self._inner = inner
        self._scheduler = scheduler
        self._faults = faults

    @property
    def location(self) -> str:
        return self._inner.location

    def open_input(self, path: str) -> pa.NativeFile:
        self._scheduler.pause(f"opens {path}")
        return self._inner.open_input(path)

    def create(self, path: str) -> ObjectWriter:
        self._scheduler.pause(f"creates {path}")
        # Decided by the path, since a writer's threads come here in any order.
        if zlib.crc32(f"{self._scheduler.seed}/{path}".encode()) % 1000 < self._faults.write_fails * 1000:
            self._faults.note("write fails")
            raise Unavailable(f"The store is away while {path} is written.")
        return self._inner.create(path)

    def delete(self, path: str) -> bool:
        self._scheduler.pause(f"deletes {path}")
        return self._inner.delete(path)

    def delete_many(self, paths: Sequence[str]) -> None:
        self._scheduler.pause("deletes files")  # how many depends on how far a writer's threads came
        self._inner.delete_many(paths)

    def list_objects(self, prefix: str = "") -> Iterator[StoredObject]:
        self._scheduler.pause(f"lists {prefix}")
        return self._inner.list_objects(prefix)

    def list_pages(self, page_size: int, pass_over: PassOver | None = None) -> Iterator[list[StoredObject]]:
        self._scheduler.pause("lists all files")
        return self._inner.list_pages(page_size, pass_over)

    def delete_empty_folders(self) -> None:
        self._inner.delete_empty_folders()

    def size(self, path: str) -> int:
        return self._inner.size(path)


class SimulatedStores:
    """One store in memory for each location, seen through the faults."""

    def __init__(self, scheduler: Scheduler, faults: Faults) -> None:
        self._scheduler = scheduler
        self._faults = faults
        self.plain: dict[str, MemoryStore] = {}

    def open(self, location: str) -> ObjectStore:
        if location not in self.plain:
            self.plain[location] = MemoryStore(location)
        return SimulatedStore(self.plain[location], self._scheduler, self._faults)


class PlainStores:
    """The same stores without pauses and faults, for auditors."""

    def __init__(self, simulated: SimulatedStores) -> None:
        self._simulated = simulated

    def open(self, location: str) -> ObjectStore:
        return self._simulated.plain.setdefault(location, MemoryStore(location))
