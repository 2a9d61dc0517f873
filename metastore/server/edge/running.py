"""Runs admitted calls within the server's limits of time.

Invariants:

1. A mutation that has begun is completed, whether or not its caller still waits: a broken connection, a passed deadline
   or a drain never leaves one half done, and never cancels a transaction while it commits.
2. A call that ends by the server's own limit is `Unavailable` when it was a read and `OutcomeUnknown` when it was not.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import aclosing
from typing import Any, Final

import grpc

from lakelog.errors import LakelogError, OutcomeUnknown, Unavailable
from lakelog.serving.edge.known_callers import caller_lost

from ..privileges.table import PRIVILEGES
from .call_limits import CallLimits

# A stream of commits or snapshots has no end; a plan of millions of files takes its time.
_UNLIMITED: Final = frozenset(
    {
        "/lakelog.rpc.v1.SnapshotService/CommitStream",
        "/lakelog.rpc.v1.SnapshotService/Watch",
        "/grpc.health.v1.Health/Watch",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    }
)
# Ended when the server drains; a stream of commits ends itself once all that it has read is answered.
_ENDED_BY_DRAIN: Final = _UNLIMITED - {"/lakelog.rpc.v1.SnapshotService/CommitStream"}
# Commits continue by themselves when their caller is gone, so they need no task of their own, which would cost 30 us.
# Large ones get one: it keeps their place and their room while they are at the gate.
_GOES_ON_BY_ITSELF: Final = frozenset({"/lakelog.rpc.v1.SnapshotService/Commit"})


class Running:
    """What runs. Used by one event loop.

    Args:
        limits: Bounds of calls.
        draining: Set when the server ends.
    """

    def __init__(self, limits: CallLimits, draining: asyncio.Event) -> None:
        self._limits = limits
        self._draining = draining
        self._mutations: set[asyncio.Future[Any]] = set()

    async def wait_for_mutations(self) -> None:
        """Waits until all mutations that have begun are completed."""
        while self._mutations:
            await asyncio.wait(self._mutations)

    def start(
        self, method: str, work: Awaitable[Any], *, is_large: bool
    ) -> tuple[Awaitable[Any], asyncio.Future[Any] | None]:
        """Starts a call with one answer.

        Args:
            method: The full name.
            work: Its work.
            is_large: Whether its request uses room, which it keeps until the work is done.

        Returns:
            What to await for the answer; and the mutation, if it goes on when that is cancelled.
        """
        if not is_mutation(method) or (method in _GOES_ON_BY_ITSELF and not is_large):
            return self._bounded(method, work), None
        task = asyncio.ensure_future(work)
        self._mutations.add(task)
        task.add_done_callback(self._mutations.discard)
        return self._bounded(method, asyncio.shield(task)), task

    async def _bounded(self, method: str, work: Awaitable[Any]) -> Any:
        limit_s = self._limits.call_s
        try:
            async with asyncio.timeout(limit_s):
                return await work
        except TimeoutError as error:
            raise _timed_out(method, limit_s) from error

    async def send_all(
        self, method: str, responses: Any, context: grpc.aio.ServicerContext[Any, Any], lost: asyncio.Event
    ) -> None:
        """Sends the answers of a stream until it ends.

        Args:
            method: The full name.
            responses: What the handler has returned: an iterator, or something that writes by itself.
            context: gRPC's handle of the call.
            lost: Set when the caller is recognized no more. A stream of commits looks at it by itself, as at a drain.
        """
        sending = _send(responses, context)
        if method in _ENDED_BY_DRAIN:
            await self._until_drained(sending, lost)
        elif method in _UNLIMITED:
            await sending
        else:
            limit_s = self._limits.plan_s
            try:
                async with asyncio.timeout(limit_s):
                    await sending
            except TimeoutError as error:
                raise _timed_out(method, limit_s) from error

    async def _until_drained(self, sending: Awaitable[None], lost: asyncio.Event) -> None:
        task = asyncio.ensure_future(sending)
        ends = [asyncio.ensure_future(event.wait()) for event in (self._draining, lost)]
        try:
            await asyncio.wait({task, *ends}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise draining() if self._draining.is_set() else caller_lost()
            await task
        finally:
            for each in (task, *ends):
                each.cancel()
            await asyncio.gather(task, *ends, return_exceptions=True)


def is_mutation(method: str) -> bool:
    """Whether a method has an effect. Pure."""
    privilege = PRIVILEGES.get(method)
    return privilege is None or privilege.has_effect


def draining() -> Unavailable:
    """The error for callers while the server ends."""
    return Unavailable("The metastore is shutting down. Try again: another one, or this one, comes up.")


async def _send(responses: Any, context: grpc.aio.ServicerContext[Any, Any]) -> None:
    if isinstance(responses, AsyncIterator):
        async with aclosing(responses) as stream:  # type: ignore[type-var]
            async for response in stream:
                await context.write(response)
    else:
        await responses


def _timed_out(method: str, limit_s: float) -> LakelogError:
    text = f"{method.rpartition('/')[2]} did not end within the metastore's limit of {limit_s:g} s."
    if is_mutation(method):
        return OutcomeUnknown(f"{text} It goes on and may take effect: repeat the same request.")
    return Unavailable(f"{text} Nothing was changed; ask for less, or try again.")
