"""The keys of an issuer, as they change while the server runs.

Those of a file are read when it changes. Those of a URL are fetched every few minutes, and when a token names an
unknown key. A fetch that fails leaves the keys as they are: an issuer that is away for an hour locks no one out. A list
without keys is no failure: an issuer that must take all of its tokens back publishes it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final

from lakelog.clock import Clock
from lakelog.errors import InvalidArgument, LakelogError, Unavailable
from lakelog.serving.signed_tokens.fetching import fetch_keys
from lakelog.serving.signed_tokens.keys import TokenKey, parse_keys
from lakelog.serving.signed_tokens.rules import KeySource
from lakelog.serving.signed_tokens.signed_tokens import SignedTokens

from .watched import NamedFile, Watched, WatchedFiles

FETCH_EVERY_S: Final = 300.0
RETRY_S: Final = 30.0
"""After a fetch that failed."""

LEAST_PAUSE_S: Final = 10.0
"""Between two fetches, however many tokens name keys that are not known: anyone can send such tokens."""


class FetchedKeys:
    """The keys at a URL. `look` and `load` run in one thread at a time.

    Args:
        source: Where they are.
        tokens: What uses them.
        clock: Measures the pauses.
    """

    name = "token-keys"

    def __init__(self, source: KeySource, tokens: SignedTokens, clock: Clock) -> None:
        self._source = source
        self._tokens = tokens
        self._clock = clock
        self._last_at_s: float | None = None
        self._due_at_s = clock.monotonic_s()
        self._is_wanted = False
        self.on_want: Callable[[], None] = lambda: None
        self._seen: bytes | None = None
        self._problem: str | None = None

    def want(self) -> None:
        """A token names a key that is not known: it may be a new one."""
        # Once for each fetch: anyone can send many such tokens.
        if not self._is_wanted:
            self._is_wanted = True
            self.on_want()

    def look(self) -> Callable[[], None] | None:
        """As `Watched`."""
        now_s = self._clock.monotonic_s()
        pause_over = self._last_at_s is None or now_s - self._last_at_s >= LEAST_PAUSE_S
        if now_s < self._due_at_s and not (self._is_wanted and pause_over):
            return None
        self._is_wanted = False
        self._last_at_s = now_s
        self._due_at_s = now_s + RETRY_S
        try:
            data = fetch_keys(self._source)
            keys = self._parse(data)
        except LakelogError as error:
            if error.message == self._problem:
                return None
            self._problem = error.message
            raise
        self._due_at_s = now_s + FETCH_EVERY_S
        digest = hashlib.sha256(data).digest()
        if digest == self._seen and self._problem is None:
            return None
        self._problem = None
        self._seen = digest
        return lambda: self._tokens.use_keys(keys)

    def find_warning(self) -> str | None:
        """As `Watched`."""
        return self._tokens.find_warning()

    def _parse(self, data: bytes) -> tuple[TokenKey, ...]:
        try:
            return parse_keys(data, str(self._source))
        except InvalidArgument as error:
            # Not the configuration of this server: a proxy, for instance, sends a page of its own for a while.
            raise Unavailable(error.message, reason="TOKEN_KEYS", metadata=error.metadata) from error

    def load(self) -> None:
        """Takes the present keys into use.

        Raises:
            LakelogError: They cannot be read or used.
        """
        change = self.look()
        if change is not None:
            change()


def watch_keys(source: KeySource, tokens: SignedTokens, clock: Clock) -> Watched:
    """The keys of a source, in a form that can be watched. They are not read yet."""
    if source.file is None:
        fetched = FetchedKeys(source, tokens, clock)
        tokens.on_unknown_key = fetched.want
        return fetched
    file = NamedFile(source.file, "token-keys", "file")
    return WatchedFiles(
        "token-keys",
        [file],
        lambda found: parse_keys(found[0], f"the {file}"),
        tokens.use_keys,
        tokens.find_warning,
    )
