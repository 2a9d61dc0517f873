"""Connections that send no request are closed, so that slow or silent clients hold none for ever."""

from __future__ import annotations

import asyncio
from typing import Final

from uvicorn.protocols.http.h11_impl import H11Protocol

HEADERS_S: Final = 10.0
"""From the first byte of a request, or the start of the connection, to the last byte of the headers."""


class RequestsInTime(H11Protocol):
    """As uvicorn's, whose own limit is for connections that wait for their next request."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client is there; asyncio's interface."""
        super().connection_made(transport)
        self._set_deadline()

    def data_received(self, data: bytes) -> None:
        """Bytes of requests have arrived; asyncio's interface."""
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            self._set_deadline()
        else:
            self._end_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed; asyncio's interface."""
        self._end_deadline()
        super().connection_lost(exc)

    def _set_deadline(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(HEADERS_S, self.transport.close)

    def _end_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
