"""The client's blocking protocol over the use cases, in this process: for tests and benchmarks, not for production.

No method is forwarded by hand: a call goes to the use case that has a method of its name.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from typing import Any, Final, Protocol, TypeVar, cast

from lakelog.client.connection.plan_assembly import assemble_files
from lakelog.client.metastore.metastore import Metastore, WatchEvent, WatchPosition
from lakelog.format.commit.request import CommitRequest, CommitResult
from lakelog.format.tables.plan import Plan, PlanRequest

from .background import Background
from .ownership import EVERYONE, Principal
from .store.transaction import Store
from .use_cases import UseCases

T = TypeVar("T")

_NOT_OF_ONE_USE_CASE: Final = {"close", "open_commit_pipeline"}


class InProcessMetastore(Metastore, Protocol):
    """The protocol, and what a test needs beside it."""

    store: Store
    use_cases: UseCases

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on the event loop of the use cases and waits for it."""
        ...

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Starts a coroutine on that event loop."""
        ...

    def acting_as(self, principal: Principal) -> Metastore:
        """The protocol for calls by a principal; other calls have no identified caller, as with `--insecure-dev`."""
        ...

    def stop_background(self) -> None:
        """Stops what runs beside the requests, so that only the test decides when steps run."""
        ...


def in_process(
    open_store: Callable[[], Awaitable[Store]], make_use_cases: Callable[[Store], UseCases]
) -> InProcessMetastore:
    """Starts a metastore whose event loop runs in its own thread.

    Args:
        open_store: Makes the store, on the event loop that will use it.
        make_use_cases: Makes the use cases over it.
    """
    # A type checker cannot see methods that are looked up by name.
    return cast(InProcessMetastore, _InProcess(open_store, make_use_cases))


def find_methods(use_cases: UseCases) -> Mapping[str, Callable[..., Any]]:
    """The use case's method for each name of the protocol.

    Raises:
        AssertionError: No use case has a method of a name of the protocol, or several do.
    """
    names = {name for name in dir(Metastore) if not name.startswith("_")} - _NOT_OF_ONE_USE_CASE
    found = {name: [each for each in vars(use_cases).values() if hasattr(each, name)] for name in names}
    unclear = sorted(name for name, owners in found.items() if len(owners) != 1)
    assert not unclear, f"exactly one use case must have a method of each name: {', '.join(unclear)}"
    return {name: getattr(owner, name) for name, (owner,) in found.items()}


def find_asking(methods: Mapping[str, Callable[..., Any]]) -> frozenset[str]:
    """The names of the methods that take the caller."""
    return frozenset(name for name, method in methods.items() if _takes_caller(getattr(method, "__func__", method)))


@functools.cache
def _takes_caller(method: Callable[..., Any]) -> bool:
    """Cached by function, because each metastore of a test asks, and a signature takes a tenth of a millisecond."""
    return "by" in inspect.signature(method).parameters


async def collect_plan(use_cases: UseCases, request: PlanRequest) -> Plan:
    """A plan with its chunks put together, as every client does it."""
    stream = await use_cases.planner.plan(request)
    chunks = [(chunk.entries, chunk.without_file_ids) async for chunk in stream.chunks]
    header = stream.header
    return Plan(
        header.table,
        header.schema,
        header.file_schemas,
        header.snapshot,
        header.range_snapshots,
        files=assemble_files(chunks, with_statistics=request.with_statistics),
    )


class _InProcess:
    def __init__(self, open_store: Callable[[], Awaitable[Store]], make_use_cases: Callable[[Store], UseCases]) -> None:
        self._methods: Mapping[str, Callable[..., Any]] = {}
        self._asking: frozenset[str] = frozenset()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="metastore", daemon=True)
        self._thread.start()
        try:
            self.store, self.use_cases, self._background = self.run(_open(open_store, make_use_cases))
            self._methods = find_methods(self.use_cases)
            self._asking = find_asking(self._methods)
        except BaseException:
            self._stop()
            raise

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in self._methods:
            raise AttributeError(f"the metastore's protocol has no '{name}'")
        return self.bind(name, EVERYONE)

    def bind(self, name: str, principal: Principal) -> Callable[..., Any]:
        """The method with this name, for calls by a principal."""
        method = self._methods[name]
        who = {"by": principal} if name in self._asking else {}
        return lambda *args, **kwargs: self.run(method(*args, **kwargs, **who))

    def acting_as(self, principal: Principal) -> Metastore:
        # A type checker cannot see methods that are looked up by name.
        return cast(Metastore, _Acting(self, principal))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.start(work).result()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def stop_background(self) -> None:
        self.run(self._background.stop())

    def plan(self, request: PlanRequest) -> Plan:
        return self.run(collect_plan(self.use_cases, request))

    def watch(self, positions: Sequence[WatchPosition], *, complete: bool = False) -> _Watch:
        return _Watch(self, positions, complete)

    def open_commit_pipeline(self, *, max_in_flight: int = 256) -> _Pipeline:
        return _Pipeline(self, EVERYONE, max_in_flight)

    def close(self) -> None:
        if self._thread.is_alive():
            self.run(_close(self.use_cases, self._background, self.store))
            self._stop()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class _Acting:
    """The protocol for calls by a principal. Closing it has no effect: the metastore serves others, too."""

    def __init__(self, metastore: _InProcess, principal: Principal) -> None:
        self._metastore = metastore
        self._principal = principal

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return self._metastore.bind(name, self._principal)

    def plan(self, request: PlanRequest) -> Plan:
        return self._metastore.plan(request)

    def watch(self, positions: Sequence[WatchPosition], *, complete: bool = False) -> _Watch:
        return self._metastore.watch(positions, complete=complete)

    def open_commit_pipeline(self, *, max_in_flight: int = 256) -> _Pipeline:
        return _Pipeline(self._metastore, self._principal, max_in_flight)

    def close(self) -> None:
        pass


class _Pipeline:
    """Commits in flight, one after the other."""

    def __init__(self, metastore: _InProcess, principal: Principal, max_in_flight: int) -> None:
        self._metastore = metastore
        self._principal = principal
        self._free = threading.BoundedSemaphore(max_in_flight)
        self._open: set[Future[CommitResult]] = set()

    def submit(self, request: CommitRequest) -> Future[CommitResult]:
        self._free.acquire()
        future = self._metastore.start(self._metastore.use_cases.gate.commit(request, by=self._principal))
        self._open.add(future)
        future.add_done_callback(self._finished)
        return future

    def close(self) -> None:
        for future in list(self._open):
            future.exception()

    def _finished(self, future: Future[CommitResult]) -> None:
        self._open.discard(future)
        self._free.release()


class _Watch:
    def __init__(self, metastore: _InProcess, positions: Sequence[WatchPosition], complete: bool) -> None:
        self._metastore = metastore
        self._events = metastore.use_cases.watches.watch(positions, complete=complete)
        self._next: Future[WatchEvent | None] | None = None
        self._closed = False

    def __iter__(self) -> Iterator[WatchEvent]:
        while not self._closed:
            self._next = self._metastore.start(self._advance())
            if self._closed:
                self._next.cancel()
            try:
                event = self._next.result()
            except CancelledError:
                return
            if event is None:
                return
            yield event

    async def _advance(self) -> WatchEvent | None:
        return await anext(self._events, None)

    def close(self) -> None:
        self._closed = True
        if self._next is not None:
            self._next.cancel()


async def _open(
    open_store: Callable[[], Awaitable[Store]], make_use_cases: Callable[[Store], UseCases]
) -> tuple[Store, UseCases, Background]:
    store = await open_store()
    use_cases = make_use_cases(store)
    background = Background(use_cases)
    background.start()
    return store, use_cases, background


async def _close(use_cases: UseCases, background: Background, store: Store) -> None:
    await use_cases.close()
    await background.stop()
    # Watches that were just closed still end their queries, for which they need the store's connections.
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    await store.close()
