"""Recognizes callers by signed tokens. A token is verified once, and found by its hash as long as it is valid.

Invariants:

1. Only verified tokens are held, so that no one without a key of the issuer can fill the room for them.
2. A token is refused from its end on, and none that was verified with earlier keys is held after a change of keys.
3. A refusal is repeated without another check for a second, since a server may ask twice about one call.
4. Of each address only some wrong tokens a second are verified (`failures.py`).
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

from lakelog.client.connection.status import UNAUTHENTICATED
from lakelog.errors import PermissionDenied
from lakelog.serving.access import SignedCaller

from .failures import FailedChecks
from .keys import TokenKey
from .rules import TokenRules
from .verification import UNKNOWN_KEY, verify

MOST_HELD: Final = 10_000
"""Verified tokens that are held; of more, those used least recently are verified again. Each takes half a KiB."""

NO_KEYS: Final = "The issuer publishes an empty list of keys, so all of its tokens are refused."

_MOST_REFUSED: Final = 256
_REFUSED_FOR_S: Final = 1.0


class SignedTokens:
    """The tokens of one issuer. Used by one event loop.

    Args:
        rules: What is expected of a token.
        now_s: The time, in seconds since 1970.
        capacity: How many verified tokens are held.
    """

    def __init__(self, rules: TokenRules, now_s: Callable[[], float], *, capacity: int = MOST_HELD) -> None:
        self._rules = rules
        self._now_s = now_s
        self._capacity = capacity
        self._failed = FailedChecks(now_s)
        self._keys: tuple[TokenKey, ...] | None = None
        self._held: OrderedDict[bytes, SignedCaller] = OrderedDict()
        # Why, and since when.
        self._refused: OrderedDict[bytes, tuple[PermissionDenied, float]] = OrderedDict()
        self.on_unknown_key: Callable[[], None] = lambda: None
        """Called when a token names a key that is not known: it may be new."""
        self.on_new_keys: Callable[[], None] = lambda: None
        """Called when the keys have changed: callers of open streams may be known no more."""

    @property
    def held_count(self) -> int:
        """How many verified tokens are held."""
        return len(self._held)

    def find_warning(self) -> str | None:
        """What is wrong with the keys that are in use."""
        return NO_KEYS if self._keys == () else None

    def use_keys(self, keys: Sequence[TokenKey]) -> None:
        """Verifies with these keys from now on."""
        self._keys = tuple(keys)
        self._held.clear()
        self._refused.clear()
        self.on_new_keys()

    def recall(self, token: str) -> SignedCaller | None:
        """Who the caller is, if this token is held; costs little."""
        return self._find(hashlib.sha256(token.encode()).digest(), self._now_s())

    def _find(self, digest: bytes, now_s: float) -> SignedCaller | None:
        held = self._held.get(digest)
        if held is None or now_s >= held.until_s:
            return None
        self._held.move_to_end(digest)
        return held

    def recognize(self, token: str, address: str = "") -> SignedCaller:
        """Who the caller is.

        Args:
            token: What the caller has sent.
            address: The peer, whose failures are counted; empty: they are not.

        Raises:
            PermissionDenied: With the reason UNAUTHENTICATED.
            Unavailable: The address has sent too many wrong tokens.
        """
        digest = hashlib.sha256(token.encode()).digest()
        now_s = self._now_s()
        held = self._find(digest, now_s)
        if held is not None:
            return held
        # Expired, if it was held: then this says so.
        self._held.pop(digest, None)
        if self._keys is None:
            raise PermissionDenied(
                "Signed tokens cannot be verified: this server has not reached their issuer's keys yet. Try again.",
                reason=UNAUTHENTICATED,
                metadata={"field": UNKNOWN_KEY},
            )
        if not self._keys:
            # New ones may be there soon.
            self.on_unknown_key()
            raise PermissionDenied(NO_KEYS, reason=UNAUTHENTICATED, metadata={"field": UNKNOWN_KEY})
        refused = self._refused.get(digest)
        if refused is not None and abs(refused[1] - now_s) < _REFUSED_FOR_S:
            # Another object: each raise adds to the traceback of an error.
            raise PermissionDenied(refused[0].message, reason=UNAUTHENTICATED, metadata=refused[0].metadata)
        if address:
            self._failed.check(address)
        try:
            caller = verify(token, self._keys, self._rules, now_s)
        except PermissionDenied as error:
            self._refuse(digest, error, now_s)
            # A key that is not known is found out without a check of the signature, and may be new.
            if address and error.metadata.get("field") != UNKNOWN_KEY:
                self._failed.note(address)
            raise
        self._held[digest] = caller
        if len(self._held) > self._capacity:
            self._held.popitem(last=False)
        return caller

    def _refuse(self, digest: bytes, error: PermissionDenied, now_s: float) -> None:
        known = PermissionDenied(error.message, reason=UNAUTHENTICATED, metadata=error.metadata)
        self._refused[digest] = (known, now_s)
        self._refused.move_to_end(digest)
        if len(self._refused) > _MOST_REFUSED:
            self._refused.popitem(last=False)
        if error.metadata.get("field") == UNKNOWN_KEY:
            self.on_unknown_key()
