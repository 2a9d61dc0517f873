"""How a running server identifies callers: from its token file and its issuer's keys, as they are now."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lakelog.clock import Clock
from lakelog.errors import Unavailable
from lakelog.serving.access import Access, TokenFile
from lakelog.serving.access_settings import AccessSettings
from lakelog.serving.logging_setup import Logger

from .watched import Watched, WatchedFiles


class LiveAccess:
    """Reads the token file and the keys, and makes an `Access` of them each time the token file changes. Blocks.

    Args:
        settings: The ways in.
        clock: Gives the time.
        log: For keys that cannot be reached yet.

    Raises:
        InvalidArgument: A file cannot be used.
        Unavailable: The keys cannot be reached, and there is no other way in.
    """

    def __init__(self, settings: AccessSettings, clock: Clock, log: Logger) -> None:
        self._settings = settings
        self._listed = TokenFile()
        self.watched: Final[list[Watched]] = []
        """The token file and the keys, for a `Rotation`."""
        self.on_change: Callable[[Access], None] = lambda access: None
        """Called on the event loop when callers may be other ones, or have other roles."""
        self._signed_tokens = None
        file = settings.named_token_file
        if file is not None:
            tokens = WatchedFiles("token-file", [file], lambda found: settings.parse_token_file(found[0]), self._use)
            tokens.load()
            self.watched.append(tokens)
        if settings.signed is not None:
            # Not above: most servers have no signed tokens, and need no library for them.
            from lakelog.serving.signed_tokens.signed_tokens import SignedTokens

            from .live_keys import watch_keys

            self._signed_tokens = SignedTokens(settings.signed.rules, lambda: clock.now_ms() / 1000)
            self._signed_tokens.on_new_keys = self._announce
            keys = watch_keys(settings.signed.keys, self._signed_tokens, clock)
            try:
                keys.load()
                warning = keys.find_warning()
                if warning is not None:
                    raise Unavailable(warning, reason="TOKEN_KEYS", metadata={"field": "token-keys"})
            except Unavailable as error:
                if not (self._listed.tokens or self._listed.certificates or settings.any_certificate):
                    raise
                log.error("signed tokens are refused until their keys can be read", reason=error.message)
            self.watched.append(keys)

    @property
    def access(self) -> Access:
        """What identifies callers now."""
        return self._settings.to_access(self._listed, self._signed_tokens)

    def _use(self, listed: TokenFile) -> None:
        self._listed = listed
        self._announce()

    def _announce(self) -> None:
        self.on_change(self.access)
