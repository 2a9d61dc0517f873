"""One HTTP request to the token service, which ends in time whatever the other side does. Blocks.

A time-out of a socket counts from each byte, so a service that sends one now and then would hold a request for ever.
Here one limit holds for names, connection, headers and body together. When it is over the connection is cut, so that
the thread that is left ends, too.
"""

from __future__ import annotations

import http.client
import socket
import threading
import urllib.request
from contextlib import suppress
from typing import Any, Final
from urllib.error import HTTPError

from lakelog.storage.objects.calls import Calls, NoAnswerError

MOST_BYTES: Final = 64 * 1024
"""The longest answer; one with keys has some 2 KB."""

_CALLS: Final = Calls()
"""Threads of its own: those of the object store may all be left without an answer."""


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows nothing: signed requests and tokens go to the place that an operator has named."""

    def redirect_request(self, *_: Any) -> None:
        """Refuses, so that the status itself becomes the error."""
        return


def send(request: urllib.request.Request, timeout_s: float, *, is_direct: bool) -> tuple[int, bytes]:
    """Sends a request, and returns the status and at most `MOST_BYTES` + 1 bytes of the answer.

    Args:
        request: What is sent.
        timeout_s: The limit for all of it.
        is_direct: Whether it passes by the proxies that the environment names.

    Raises:
        TimeoutError: There is no whole answer in time.
        OSError: The connection fails.
        HTTPException: The answer is not HTTP.
        ValueError: The same.
    """
    connections = _Connections()
    handlers: list[urllib.request.BaseHandler] = [NoRedirects(), _Http(connections), _Https(connections)]
    if is_direct:
        handlers.append(urllib.request.ProxyHandler({}))
    opener = urllib.request.build_opener(*handlers)

    def work() -> tuple[int, bytes]:
        try:
            with opener.open(request, timeout=timeout_s) as response:
                return response.status, response.read(MOST_BYTES + 1)
        except HTTPError as error:
            with error:
                return error.code, error.read(MOST_BYTES + 1)

    try:
        return _CALLS.run(work, timeout_s)
    except NoAnswerError:
        raise TimeoutError from None
    finally:
        connections.cut()


class _Connections:
    """The connections of one request."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._is_cut = False

    def add(self, made: socket.socket) -> None:
        with self._lock:
            self._sockets.append(made)
            if self._is_cut:
                raise TimeoutError

    def cut(self) -> None:
        with self._lock:
            self._is_cut = True
            for each in self._sockets:
                with suppress(OSError):
                    # Not by the methods of a TLS socket, which another thread is reading.
                    socket.socket.shutdown(each, socket.SHUT_RDWR)


class _Http(urllib.request.HTTPHandler):
    def __init__(self, connections: _Connections) -> None:
        super().__init__()
        self._connections = connections

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        connections = self._connections

        class Connection(http.client.HTTPConnection):
            def connect(self) -> None:
                super().connect()
                connections.add(self.sock)

        return self.do_open(Connection, req)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, connections: _Connections) -> None:
        super().__init__()
        self._connections = connections

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        connections = self._connections

        class Connection(http.client.HTTPSConnection):
            def connect(self) -> None:
                super().connect()
                connections.add(self.sock)

        return self.do_open(Connection, req)
