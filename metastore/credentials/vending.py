"""The use case: keys of the object store for the files of one table.

The server has checked the caller's right, and checks it once more when the keys are there. So a grant that was taken
back in between gives no keys. Keys that were vended stay usable until they end: no store takes them back.

Invariants:

1. Keys are for the location that the catalog holds for the table, never for one that a caller names.
2. Keys that were requested for one caller, table and access are given to no other.
3. Every answer with keys has its line in the log, before the answer is sent.
4. A caller takes no more than its share of the requests at once and of the keys that are kept. A request that has not
   begun ends with the last call that waits for it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from lakelog.clock import Clock
from lakelog.errors import Unavailable
from lakelog.format.tables.credentials import StoreCredentials

from ..ownership import Principal
from ..store.transaction import Store, Transaction, run_transaction
from ..store.validation import check_text, check_uuid
from ..tables.dropped import explain_gone
from .policy import make_policy
from .token_service import CREDENTIALS_UNAVAILABLE, SessionKeys
from .turns import Turns, run_beside

_REQUESTS: Final = 8
"""Requests to the token service at once; each takes some tenths of a second."""

_CALLER_REQUESTS: Final = 2
"""Requests of one caller at once; its others wait, whatever other callers do."""

_WAIT_S: Final = 15.0
"""How long a caller waits for keys, with its turn."""

_REUSED_PART: Final = 0.75
"""Keys are given again to the same caller as long as this part of their time is left: a hundred executors of a job are
one request to the token service. Clients renew theirs at about half of the time that is left."""

_MOST_KEPT: Final = 5000
"""Keys that are kept to be given again; some 3 KB each."""

_CALLER_KEPT: Final = 1000
"""Keys of one caller that are kept: for each table, for reading and writing."""


_LONGEST_KEY_ID: Final = 128
"""The longest id of a key of Amazon."""


class KeySource(Protocol):
    """Where keys come from; blocks."""

    def request_keys(self, session: str, policy: str) -> SessionKeys:
        """As `TokenService.request_keys`."""
        ...


@dataclass(frozen=True)
class VendSettings:
    """How keys are vended.

    Args:
        source: Where they come from.
        partition: As `find_partition`.
        duration_s: How long they last.
        warehouse: Keys are for tables below this location, which is in S3; without a slash at its end.
    """

    source: KeySource
    partition: str
    duration_s: int
    warehouse: str


@dataclass(frozen=True)
class Vended:
    """Keys that were given to a caller, for the log. It holds no secret.

    Args:
        caller: The name of the caller; empty: the metastore identifies none.
        table: The full name of the table.
        table_uuid: The table.
        access: `read` or `write`.
        expires_at_ms: When they end.
    """

    caller: str
    table: str
    table_uuid: str
    access: str
    expires_at_ms: int


Recheck = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class _Scope:
    caller: str
    table_uuid: str
    writes: bool


@dataclass(frozen=True)
class _Table:
    name: str
    location: str


@dataclass
class _Kept:
    """Keys, or the request for them, and when they end by the metastore's own clocks.

    A store may grant less time than was requested.
    """

    request: asyncio.Future[SessionKeys]
    has_turn: asyncio.Event
    began_s: float
    granted_s: float = field(default=0.0)
    ends_at_s: float = field(default=0.0)
    waiting: int = field(default=0)


class _Shelf:
    """The keys that are kept, by caller; the least recently used ones of a caller with too many leave first."""

    def __init__(self) -> None:
        self._callers: dict[str, OrderedDict[_Scope, _Kept]] = {}
        self._count = 0

    def find(self, scope: _Scope) -> _Kept | None:
        own = self._callers.get(scope.caller)
        if own is None or scope not in own:
            return None
        own.move_to_end(scope)
        return own[scope]

    def add(self, scope: _Scope, kept: _Kept) -> None:
        own = self._callers.setdefault(scope.caller, OrderedDict())
        self._count += scope not in own
        own[scope] = kept
        own.move_to_end(scope)
        if len(own) > _CALLER_KEPT:
            self._drop_oldest(scope.caller)
        elif self._count > _MOST_KEPT:
            self._drop_oldest(max(self._callers, key=lambda caller: len(self._callers[caller])))

    def remove(self, scope: _Scope, kept: _Kept) -> None:
        """Leaves it out, unless another is in its place already."""
        own = self._callers.get(scope.caller)
        if own is None or own.get(scope) is not kept:
            return
        del own[scope]
        self._count -= 1
        if not own:
            del self._callers[scope.caller]

    def clear(self) -> list[_Kept]:
        kept = [each for own in self._callers.values() for each in own.values()]
        self._callers, self._count = {}, 0
        return kept

    def _drop_oldest(self, caller: str) -> None:
        scope, kept = next(iter(self._callers[caller].items()))
        self.remove(scope, kept)


class Vending:
    """The use cases of credentials. Runs on one event loop.

    Args:
        store: Has the tables.
        clock: Gives the time.
        settings: How keys are vended; None: not at all.
        note: Called with what was vended, before the answer.
    """

    def __init__(
        self, store: Store, clock: Clock, settings: VendSettings | None, note: Callable[[Vended], None]
    ) -> None:
        self._store = store
        self._clock = clock
        self._settings = settings
        self._note = note
        self._kept = _Shelf()
        self._turns = Turns(_REQUESTS, _CALLER_REQUESTS)

    async def vend_read_credentials(
        self, table_uuid: str, *, refused_key_id: str = "", check_right: Recheck | None = None, by: Principal
    ) -> StoreCredentials | None:
        return await self._vend(table_uuid, by, check_right, refused_key_id, writes=False)

    async def vend_write_credentials(
        self, table_uuid: str, *, refused_key_id: str = "", check_right: Recheck | None = None, by: Principal
    ) -> StoreCredentials | None:
        return await self._vend(table_uuid, by, check_right, refused_key_id, writes=True)

    async def _vend(
        self, table_uuid: str, by: Principal, check_right: Recheck | None, refused_key_id: str, *, writes: bool
    ) -> StoreCredentials | None:
        check_uuid("table_uuid", table_uuid)
        check_text("refused_key_id", refused_key_id, 0, _LONGEST_KEY_ID)
        table = await run_transaction(self._store, lambda tx: _find(tx, table_uuid))
        if self._settings is None or not table.location.startswith(f"{self._settings.warehouse}/"):
            # The role is for the present warehouse. Clients use their own keys for older tables elsewhere.
            return None
        keys, left_s = await self._find_keys(_Scope(by.name, table_uuid, writes), table, refused_key_id)
        if check_right is not None:
            await check_right()
        if left_s <= 0:
            raise Unavailable(
                f"The keys for {table.name} that came from the store's token service have ended already. An operator "
                "must compare the clocks of both.",
                reason=CREDENTIALS_UNAVAILABLE,
            )
        expires_at_ms = self._clock.now_ms() + int(left_s * 1000)
        self._note(Vended(by.name, table.name, table_uuid, "write" if writes else "read", expires_at_ms))
        found = keys.keys
        return StoreCredentials(
            found.access_key_id,
            found.secret_access_key,
            found.session_token or "",
            expires_at_ms,
            int(left_s * 1000),
        )

    async def _find_keys(self, scope: _Scope, table: _Table, refused_key_id: str) -> tuple[SessionKeys, float]:
        """Keys, and how long they last."""
        assert self._settings is not None, "the caller has looked"
        kept = self._kept.find(scope)
        if kept is not None and not kept.request.done() and self._clock.monotonic_s() - kept.began_s >= _WAIT_S:
            # Its first call has left by now, and another one would wait in vain, too.
            kept = None
        if kept is not None and kept.request.done():
            left_s = kept.ends_at_s - self._clock.monotonic_s()
            if left_s < _REUSED_PART * kept.granted_s or kept.request.result().keys.access_key_id == refused_key_id:
                kept = None
        if kept is None:
            kept = self._begin(scope, table)
        kept.waiting += 1
        try:
            async with asyncio.timeout(_WAIT_S):
                # Others may wait for it, too.
                keys = await asyncio.shield(kept.request)
        except TimeoutError:
            raise Unavailable(
                f"No keys for {table.name} came from the store's token service within {_WAIT_S:g} s. Try again.",
                reason=CREDENTIALS_UNAVAILABLE,
            ) from None
        finally:
            kept.waiting -= 1
            if not kept.waiting and not kept.has_turn.is_set():
                self._kept.remove(scope, kept)
                kept.request.cancel()
        return keys, kept.ends_at_s - self._clock.monotonic_s()

    def _begin(self, scope: _Scope, table: _Table) -> _Kept:
        has_turn = asyncio.Event()
        kept = _Kept(asyncio.ensure_future(self._request(scope, table, has_turn)), has_turn, self._clock.monotonic_s())
        kept.request.add_done_callback(lambda done: self._settle(scope, kept, done))
        self._kept.add(scope, kept)
        return kept

    async def _request(self, scope: _Scope, table: _Table, has_turn: asyncio.Event) -> SessionKeys:
        settings = self._settings
        assert settings is not None, "the caller has looked"
        policy = make_policy(settings.partition, table.location, writes=scope.writes)
        async with self._turns.take(scope.caller):
            has_turn.set()
            async with asyncio.timeout(_WAIT_S):
                return await run_beside(lambda: settings.source.request_keys(scope.caller, policy), "lakelog-vending")

    def _settle(self, scope: _Scope, kept: _Kept, done: asyncio.Future[SessionKeys]) -> None:
        if done.cancelled() or done.exception() is not None:
            self._kept.remove(scope, kept)
            return
        assert self._settings is not None, "it was requested"
        # Not longer than was requested: the clock of the token service may be wrong.
        left_s = (done.result().expires_at_ms - self._clock.now_ms()) / 1000
        kept.granted_s = min(left_s, self._settings.duration_s)
        kept.ends_at_s = self._clock.monotonic_s() + kept.granted_s

    def close(self) -> None:
        """Ends the requests that wait; idempotent."""
        for kept in self._kept.clear():
            kept.request.cancel()


async def _find(tx: Transaction, table_uuid: str) -> _Table:
    live = await tx.find_table_by_uuid(table_uuid)
    if live is not None:
        return _Table(str(live.info.name), live.info.location)
    # The files of a dropped table are purged by a job, and its readers may still be reading.
    dropped = await tx.find_dropped(table_uuid)
    if dropped is None:
        raise await explain_gone(tx, table_uuid)
    return _Table(str(dropped.name), dropped.location)
