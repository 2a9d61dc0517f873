"""A catalog for each caller: everyone sees and does what the own token may.

The metastore identifies callers and decides; the console passes tokens on, and keeps no passwords and no rights. A
token comes in a cookie, which the sign-in page sets, or in the header Authorization, as programs and some proxies send
it. Without one a request is made without a token, which works where the metastore identifies no one.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from lakelog.client.connection.reader_target import ReaderTarget
from lakelog.client.connection.retry import Deadlines, RetryPolicy
from lakelog.client.connection.tokens import TOKEN, Token
from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.clock import Clock
from lakelog.config import ConnectSettings
from lakelog.errors import InvalidArgument
from lakelog.sdk.catalog import Catalog
from lakelog.storage.objects.stores import LocationStores

TOKEN_COOKIE: Final = "lakelog_token"

LONGEST_COOKIE: Final = 3800
"""Browsers keep cookies of 4096 bytes with their attributes; longer tokens can come in a header."""

_MOST_CALLERS: Final = 64
_IDLE_S: Final = 600.0

_DEADLINES: Final = Deadlines(connect_s=2.0, call_s=10.0, plan_s=20.0)
"""A person waits: a metastore that is away is reported soon, and the page tries again by itself."""

_RETRIES: Final = RetryPolicy(total_s=2.0, commit_total_s=10.0)
"""A rollback is a commit: its outcome is worth a longer wait, but not one that a proxy in front gives up before."""


@dataclass
class _Entry:
    """A catalog, how many requests use it, and whether it was left out, so that the last one closes it."""

    catalog: Catalog
    used_s: float
    users: int = 0
    is_out: bool = False


class Callers:
    """The catalogs of the callers that were here lately. Thread-safe.

    Args:
        connect: Makes the catalog of a caller; gets the caller's token.
        own_token: The console's own token, for callers without one; None: they have none.
        clock: Measures how long a caller was idle.
    """

    def __init__(self, connect: Callable[[Token | None], Catalog], own_token: Token | None, clock: Clock) -> None:
        self._connect = connect
        self._own_token = own_token
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, _Entry] = OrderedDict()

    @contextmanager
    def catalog(self, token: str | None) -> Iterator[Catalog]:
        """The catalog of a caller, open for the length of the block, however many others come meanwhile.

        Args:
            token: Identifies the caller; None: nothing does.

        Raises:
            InvalidArgument: The token has characters that no token has.
        """
        if token is not None and TOKEN.fullmatch(token) is None:
            raise InvalidArgument(
                "A token has 1 to 8192 visible ASCII characters without spaces: copy it again.",
                metadata={"field": "token"},
            )
        with self._lock:
            entry = self._find(token)
            entry.users += 1
            closed = self._leave_out()
        for each in closed:
            each.close()
        try:
            yield entry.catalog
        finally:
            with self._lock:
                entry.users -= 1
                is_last = entry.is_out and not entry.users
            if is_last:
                entry.catalog.close()

    @staticmethod
    def key(token: str | None) -> str:
        """Names a caller without its token."""
        return hashlib.sha256(token.encode()).hexdigest() if token else ""

    def close(self) -> None:
        """Ends all connections."""
        with self._lock:
            entries = list(self._entries.values())
            self._entries.clear()
        for entry in entries:
            entry.catalog.close()

    def _find(self, token: str | None) -> _Entry:
        key, now_s = self.key(token), self._clock.monotonic_s()
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _Entry(self._connect(token or self._own_token), now_s)
        entry.used_s = now_s
        self._entries.move_to_end(key)
        return entry

    def _leave_out(self) -> list[Catalog]:
        """Forgets those that were idle for long, and the longest idle of too many; returns those that no one uses."""
        idle_s = self._clock.monotonic_s() - _IDLE_S
        closed: list[Catalog] = []
        while len(self._entries) > _MOST_CALLERS or next(iter(self._entries.values())).used_s < idle_s:
            _, entry = self._entries.popitem(last=False)
            entry.is_out = True
            if not entry.users:
                closed.append(entry.catalog)
        return closed


def connect_as(settings: ConnectSettings, token: Token | None) -> Catalog:
    """A catalog with the settings' target and files, and a caller's token. Subscriptions are not part of pages."""
    files = settings.tls_files
    metastore = GrpcMetastore(settings.target, tls=files, token=token, deadlines=_DEADLINES, retries=_RETRIES)
    return Catalog(
        metastore,
        LocationStores(settings.s3, metastore),
        cache_folder=settings.cache_folder,
        reader=ReaderTarget((), files, token),
        name=settings.catalog,
    )
