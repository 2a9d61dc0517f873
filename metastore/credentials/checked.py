"""Vends keys once a check has shown that the store holds them to their policy, and tries that check again until then.

The metastore answers most calls without vended keys, so it starts also while the token service is away, and vends none
until the check has succeeded. Only a store that does not enforce policies keeps it from starting: that does not
pass by itself.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from lakelog.errors import LakelogError, Unavailable

from .opening import NOT_ENFORCED
from .token_service import CREDENTIALS_UNAVAILABLE, SessionKeys
from .turns import run_beside
from .vending import VendSettings

log = logging.getLogger(__name__)

_START_S: Final = 20.0
"""How long the start waits for the check; it takes some thirty requests."""

_AGAIN_S: Final = 30.0
"""The pause before the next check."""


class CheckedVending:
    """A source of keys with a check before the first ones. Runs on one event loop; `request_keys` in any thread.

    Args:
        settings: How keys are vended.
        check: Raises if the store must not vend keys, or does not answer; blocks.
    """

    def __init__(self, settings: VendSettings, check: Callable[[], None]) -> None:
        self._vend: Final = settings
        self.check: Final = check
        self._is_checked = False
        self._trying: asyncio.Task[None] | None = None

    @property
    def settings(self) -> VendSettings:
        """How keys are vended, after the check."""
        return dataclasses.replace(self._vend, source=self)

    def request_keys(self, session: str, policy: str) -> SessionKeys:
        """As `TokenService.request_keys`."""
        if not self._is_checked:
            raise Unavailable(
                "The metastore vends no keys yet: it has not been able to check that the store holds keys to their "
                "policy. It tries again by itself, and its log says what is wrong. Try again later.",
                reason=CREDENTIALS_UNAVAILABLE,
            )
        return self._vend.source.request_keys(session, policy)

    async def start(self) -> None:
        """Checks the store; goes on in the background if it does not answer.

        Raises:
            InvalidArgument: The store does not enforce policies.
        """
        first = self._begin()
        await asyncio.wait({first}, timeout=_START_S)
        if first.done():
            error = first.exception()
            if isinstance(error, LakelogError) and error.reason == NOT_ENFORCED:
                raise error
        else:
            log.warning("no keys are vended yet: the store has not passed its check within %g s", _START_S)
        self._trying = asyncio.create_task(self._go_on(first))

    async def _go_on(self, check: asyncio.Task[None]) -> None:
        while True:
            try:
                await check
            except LakelogError as error:
                log.warning("no keys are vended; the store is checked again in %g s: %s", _AGAIN_S, error)
            except Exception:
                log.exception("no keys are vended; the store is checked again in %g s", _AGAIN_S)
            else:
                self._is_checked = True
                return
            await asyncio.sleep(_AGAIN_S)
            check = self._begin()

    def _begin(self) -> asyncio.Task[None]:
        return asyncio.create_task(run_beside(self.check, "lakelog-vend-check"))

    async def close(self) -> None:
        """Ends the tries; idempotent."""
        trying, self._trying = self._trying, None
        if trying is not None:
            trying.cancel()
            with suppress(asyncio.CancelledError):
                await trying
