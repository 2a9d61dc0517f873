"""The keys that requests of S3 are signed with: the process's own, or those that the metastore vends for one table.

Vended keys end after an hour at most, and Arrow's file systems cannot exchange theirs. So each new pair of keys has a
file system of its own, and each request takes the present one. Keys are renewed when about half of their
time is over: an object whose upload began with the old ones has the other half to be completed.

Invariants:

1. Reads take keys for reading, unless there are keys for writing already. Only a write requests the latter.
2. Keys are in the memory of the process that requested them, and nowhere else: stores pickle without them.
3. While a renewal fails because the metastore is not reached, the present keys are used as long as they last. A refusal
   counts at once: the grant was taken back.
"""

from __future__ import annotations

import dataclasses
import math
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Protocol
from urllib.parse import urlsplit

from pyarrow import fs

from lakelog.clock import Clock, SystemClock
from lakelog.errors import InvalidArgument, LakelogError
from lakelog.format.tables.credentials import StoreCredentials
from lakelog.privacy.redaction import blot_out_forms
from lakelog.storage.objects.store import S3Settings

_CONNECT_TIMEOUT_S: Final = 5.0
_SILENCE_S: Final = 30.0
"""A connection without any byte for so long is given up, and the request is made again."""

_RENEWED_AFTER: Final = (0.4, 0.6)
"""The part of their time after which keys are renewed: a random one between these, so that the processes of a job do
not come together."""

_PAUSE_S: Final = 10.0
"""How long a renewal that failed waits, half of it by chance."""

_YOUNG_S: Final = 30.0
"""Keys that a store refuses are renewed if they are older than that, or than a quarter of their time: younger ones are
refused because of what they may do."""

_NOT_VENDED_S: Final = 600.0
"""How long it is believed that a metastore vends no keys."""

WRONG_TARGET: Final = "WRONG_TARGET"
"""The reason of an error of metastores that do not know a method."""


class Vendor(Protocol):
    """What vends keys: a metastore."""

    def vend_read_credentials(self, table_uuid: str, *, refused_key_id: str = "") -> StoreCredentials | None:
        """As of `Metastore`."""
        ...

    def vend_write_credentials(self, table_uuid: str, *, refused_key_id: str = "") -> StoreCredentials | None:
        """As of `Metastore`."""
        ...


class Keys(Protocol):
    """The keys of one store."""

    def find(self, *, writes: bool = False) -> OpenedKeys:
        """Present keys; may call the metastore.

        Raises:
            LakelogError: It vends none now.
        """
        ...

    def drop(self, refused: OpenedKeys) -> bool:
        """Leaves out keys that the store has refused; returns whether others may be accepted."""
        ...


@dataclass(eq=False)
class OpenedKeys:
    """Keys, and the file system of Arrow that signs with them.

    Args:
        settings: How to reach S3, with the keys.
        began_s: When they were requested, on the monotonic clock.
        renew_at_s: When others are requested.
        ends_at_s: When they end.
        is_vended: They end, and there may be others.
    """

    settings: S3Settings
    began_s: float = 0.0
    renew_at_s: float = math.inf
    ends_at_s: float = math.inf
    is_vended: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _filesystem: fs.S3FileSystem | None = field(default=None, repr=False)

    @property
    def filesystem(self) -> fs.S3FileSystem:
        """Arrow's file system."""
        if not self.is_vended:
            return open_filesystem(self.settings)
        with self._lock:
            if self._filesystem is None:
                self._filesystem = _make_filesystem(self.settings)
            return self._filesystem


class OwnKeys:
    """The process's own keys.

    Args:
        settings: They have the keys.
    """

    def __init__(self, settings: S3Settings) -> None:
        self._opened = OpenedKeys(settings)

    def find(self, *, writes: bool = False) -> OpenedKeys:
        """The same ones always."""
        return self._opened

    def drop(self, refused: OpenedKeys) -> bool:
        """There are no others."""
        return False


class VendedKeys:
    """Keys that the metastore vends for a table. Threads may share it; it pickles without keys.

    Args:
        vendor: The metastore.
        table_uuid: The table.
        settings: How to reach S3, with the keys to use if the metastore vends none.
        clock: Gives the time.
        rng: Random numbers in [0, 1).
    """

    def __init__(
        self,
        vendor: Vendor,
        table_uuid: str,
        settings: S3Settings,
        *,
        clock: Clock | None = None,
        rng: Callable[[], float] = random.random,
    ) -> None:
        self._vendor = vendor
        self._table_uuid = table_uuid
        self._settings = settings
        self._clock = clock or SystemClock()
        self._rng = rng
        self._held: dict[bool, OpenedKeys] = {}
        self._refused: dict[bool, str] = {}
        self._locks = {False: threading.Lock(), True: threading.Lock()}

    def __reduce__(self) -> tuple[object, ...]:
        return (VendedKeys, (self._vendor, self._table_uuid, self._settings))

    def find(self, *, writes: bool = False) -> OpenedKeys:
        """Present keys, as `Keys`."""
        now_s = self._clock.monotonic_s()
        for kind in (writes, True):
            held = self._held.get(kind)
            if held is not None and now_s < held.renew_at_s:
                return held
        held = self._held.get(writes)
        usable = held is not None and now_s < held.ends_at_s
        # Those that find keys which can still be used do not wait for the one that renews them.
        if not self._locks[writes].acquire(blocking=not usable):
            assert held is not None, "else it waits"
            return held
        try:
            return self._renew(writes)
        finally:
            self._locks[writes].release()

    def drop(self, refused: OpenedKeys) -> bool:
        """Leaves out keys that the store has refused."""
        young_s = min(_YOUNG_S, (refused.ends_at_s - refused.began_s) / 4)
        if not refused.is_vended or self._clock.monotonic_s() - refused.began_s < young_s:
            return False
        for kind, held in list(self._held.items()):
            if held is refused:
                # The metastore may still keep them.
                self._refused[kind] = refused.settings.access_key_id or ""
                self._held.pop(kind, None)
        return True

    def _renew(self, writes: bool) -> OpenedKeys:
        began_s = self._clock.monotonic_s()
        held = self._held.get(writes)
        if held is not None and began_s < held.renew_at_s:
            # Another thread has renewed them meanwhile.
            return held
        try:
            vended = self._vend(writes)
        except LakelogError as error:
            if held is None or not error.retryable or self._clock.monotonic_s() >= held.ends_at_s:
                raise
            pause_s = min(_PAUSE_S, (held.ends_at_s - began_s) / 4) * (1 + self._rng()) / 2
            held.renew_at_s = self._clock.monotonic_s() + pause_s
            return held
        opened = self._held[writes] = self._open(vended, began_s)
        return opened

    def _vend(self, writes: bool) -> StoreCredentials | None:
        vend = self._vendor.vend_write_credentials if writes else self._vendor.vend_read_credentials
        try:
            return vend(self._table_uuid, refused_key_id=self._refused.get(writes, ""))
        except InvalidArgument as error:
            # An older metastore.
            if error.reason != WRONG_TARGET:
                raise
            return None

    def _open(self, vended: StoreCredentials | None, began_s: float) -> OpenedKeys:
        if vended is None:
            if self._settings.credentials == "vended":
                raise InvalidArgument(
                    "The metastore vends no keys for the files of the table, and LAKELOG_S3_CREDENTIALS=vended uses no "
                    "others. Start it with --vend-role, or leave the variable out and give keys; a table outside of "
                    "the metastore's warehouse needs the latter.",
                    metadata={"field": "LAKELOG_S3_CREDENTIALS"},
                )
            return OpenedKeys(self._settings, began_s, began_s + _NOT_VENDED_S)
        first, last = _RENEWED_AFTER
        left_s = vended.valid_ms / 1000
        return OpenedKeys(
            dataclasses.replace(
                self._settings,
                access_key_id=vended.access_key_id,
                secret_access_key=vended.secret_access_key,
                session_token=vended.session_token,
            ),
            began_s,
            began_s + left_s * (first + (last - first) * self._rng()),
            began_s + left_s,
            is_vended=True,
        )


@lru_cache(maxsize=32)
def open_filesystem(settings: S3Settings) -> fs.S3FileSystem:
    """Arrow's file system for some settings.

    SUBTLE: pyarrow (26) makes a new one only when no request of the process is running. If each table had its own, the
    first access to a table would wait for a store that is silent about another one. With vended keys it has, and does.
    """
    return _make_filesystem(settings)


def _make_filesystem(settings: S3Settings) -> fs.S3FileSystem:
    endpoint = urlsplit(settings.endpoint) if settings.endpoint else None
    if endpoint and (endpoint.scheme not in ("http", "https") or not endpoint.netloc):
        shown = blot_out_forms(settings.endpoint or "")
        raise InvalidArgument(f"S3 endpoint '{shown}' is not http://host:port or https://host:port.")
    return fs.S3FileSystem(
        access_key=settings.access_key_id,
        secret_key=settings.secret_access_key,
        session_token=settings.session_token,
        # Asking Amazon for a region, which a custom endpoint makes meaningless, would be a useless call.
        region=settings.region or ("us-east-1" if endpoint else None),
        scheme=endpoint.scheme if endpoint else None,
        endpoint_override=endpoint.netloc if endpoint else None,
        connect_timeout=_CONNECT_TIMEOUT_S,
        request_timeout=_SILENCE_S,
        # It waits between the attempts for a random time of up to 1 s, 2 s, 4 s ... 20 s, and less often than that
        # if most requests of this store fail.
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=settings.attempts),
        # A small object is one request instead of three, and no failure leaves an open upload.
        allow_delayed_open=True,
    )
