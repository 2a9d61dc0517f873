"""HTTP requests of services that end in time, whatever the other side does. Block.

A time-out of a socket counts from each receive, so a server that sends a byte now and then would hold a thread for
ever. Here one limit holds for all that is sent and received: a proxy's answer, TLS, headers and content.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
import urllib.request
from typing import Any


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows nothing: what is sent goes to the place that an operator has named, and to no other."""

    def redirect_request(self, *_: Any) -> None:
        """Refuses, so that the status itself becomes the error."""
        return


class TimeLimit:
    """Ends connections when a time is over, from a thread of its own.

    SUBTLE: timeouts of sockets apply to each receive. TLS and headers are received many times, by code of the library.

    Args:
        limit_s: The time.
    """

    def __init__(self, limit_s: float) -> None:
        self._lock = threading.Lock()
        self._watched: list[socket.socket] = []
        self.is_over = False
        self._timer = threading.Timer(limit_s, self.end)
        self._timer.daemon = True
        self._timer.start()

    def watch(self, connected: socket.socket) -> None:
        """Ends this connection, too."""
        # A copy: TLS takes the socket itself over.
        copy = connected.dup()
        with self._lock:
            self._watched.append(copy)
            if self.is_over:
                _shut(copy)

    def end(self) -> None:
        """Ends all of them now, and those that come."""
        with self._lock:
            self.is_over = True
            for each in self._watched:
                _shut(each)

    def close(self) -> None:
        """Ends no further connection."""
        self._timer.cancel()
        with self._lock:
            for each in self._watched:
                each.close()
            self._watched.clear()


class _Connection(http.client.HTTPConnection):
    """A connection with a time limit from its first byte on, also that to a proxy."""

    def __init__(self, *arguments: Any, limit: TimeLimit, **options: Any) -> None:
        self._limit = limit
        super().__init__(*arguments, **options)

    @property
    def sock(self) -> Any:
        """The library sets it as soon as it has connected, and again for TLS."""
        return self._sock

    @sock.setter
    def sock(self, value: Any) -> None:
        self._sock = value
        if isinstance(value, socket.socket) and not isinstance(value, ssl.SSLSocket):
            self._limit.watch(value)


class _TlsConnection(_Connection, http.client.HTTPSConnection):
    """The same with TLS."""


class _HttpHandler(urllib.request.HTTPHandler):
    def __init__(self, limit: TimeLimit) -> None:
        super().__init__()
        self._limit = limit

    def http_open(self, request: urllib.request.Request) -> Any:
        return self.do_open(_Connection, request, limit=self._limit)  # type: ignore[arg-type]


class _HttpsHandler(urllib.request.HTTPSHandler):
    def __init__(self, limit: TimeLimit, context: ssl.SSLContext) -> None:
        super().__init__()
        self._limit = limit
        self._own_context = context

    def https_open(self, request: urllib.request.Request) -> Any:
        return self.do_open(_TlsConnection, request, limit=self._limit, context=self._own_context)  # type: ignore[arg-type]


def open_request(
    request: urllib.request.Request,
    limit: TimeLimit,
    *,
    wait_s: float,
    is_direct: bool,
    context: ssl.SSLContext | None = None,
) -> Any:
    """Sends a request; returns the response, to be closed. It follows no redirect.

    Args:
        request: What is sent.
        limit: Ends it. A connection that was ended can look like the end of a complete answer: ask `is_over`.
        wait_s: For each receive.
        is_direct: Whether it passes by the proxies that the environment names.
        context: For TLS; None: with the system's certificates.

    Raises:
        OSError: There is no answer, or its status is an error (`urllib.error.HTTPError`).
        HTTPException: The answer is not HTTP.
        ValueError: The same.
    """
    handlers: list[urllib.request.BaseHandler] = [_NoRedirects(), _HttpHandler(limit)]
    if request.type == "https":
        handlers.append(_HttpsHandler(limit, context or ssl.create_default_context()))
    if is_direct:
        handlers.append(urllib.request.ProxyHandler({}))
    return urllib.request.build_opener(*handlers).open(request, timeout=wait_s)


def _shut(connected: socket.socket) -> None:
    # It may have ended by itself.
    with contextlib.suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)
