"""A TCP proxy that imitates faults of networks: it delays, slows down, holds or cuts connections, or swallows data.

Swallowed data is acknowledged, so that TCP itself notices nothing: as if a load balancer had forgotten the connection.

Put it between a client and the metastore, or (`lakelog.testing.postgres_proxy`) between the metastore and Postgres::

    with TcpProxy(stack.port) as proxy:
        catalog = lakelog.connect(proxy.target)
        proxy.lose_answers()
        ...
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from typing import Final, Literal, Self

Direction = Literal["requests", "answers"]

_CHUNK_BYTES: Final = 1 << 16
_SLOW_BYTES: Final = 64
"""Pieces of a slow connection."""
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
"""With no time to linger, the peer gets a reset, as from a machine that died, and no orderly end."""


class Link:
    """One client's connection to the proxy, with the proxy's connection to the server for it."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client: Final = client
        self.server: Final = server
        self.swallows: set[Direction] = set()
        self.is_cut = False
        self.is_half_open = False
        """The server's side is gone, and the client does not know."""

    def cut(self) -> None:
        """Resets both sides; idempotent."""
        self.is_cut = True
        for end in (self.client, self.server):
            _reset(end)

    def forget_server(self) -> None:
        """Resets the server's side; the client's side stays open, and gets no answer."""
        self.swallows |= {"requests", "answers"}
        self.is_half_open = True
        _reset(self.server)


def _reset(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    # Wakes the thread that reads from it; a close alone does not.
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RD)
    end.close()


class TcpProxy:
    """Passes bytes on between its own port and another one, until a fault is requested.

    Any thread may request a fault while traffic flows; faults last until `heal`.

    Args:
        port: The server's port.
        host: The server's host.
    """

    def __init__(self, port: int, *, host: str = "127.0.0.1") -> None:
        self._upstream = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: Final[int] = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._links: set[Link] = set()
        self._delay_s = 0.0
        self._refuses = False
        self._swallows: frozenset[Direction] = frozenset()
        self._bytes_left: dict[Direction, int] = {}
        self._bytes_per_s = 0.0
        self._held: frozenset[Direction] = frozenset()
        self._released = threading.Condition(self._lock)
        self._swallowed = 0
        self._cuts = 0
        self._closed = False
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def target(self) -> str:
        """The proxy's address, for `lakelog.connect`."""
        return f"127.0.0.1:{self.port}"

    @property
    def cuts(self) -> int:
        """How often faults cut connections, so that a test can see their effect."""
        return self._cuts

    @property
    def swallowed(self) -> int:
        """How many pieces of data were swallowed, so that a test can see the effect of a fault."""
        return self._swallowed

    @property
    def open_links(self) -> int:
        """How many connections are open now."""
        with self._lock:
            return len(self._links)

    # Faults

    def delay(self, seconds: float) -> None:
        """Delays every piece of data by so long, in both directions."""
        self._delay_s = seconds

    def cut(self) -> None:
        """Resets all connections that are open now."""
        with self._lock:
            links = list(self._links)
            self._links.clear()
        for link in links:
            self._cut_link(link)

    def cut_after(self, count: int, direction: Direction) -> None:
        """Resets, once, the connection that carries the `count`-th byte from now; that byte is not passed on."""
        with self._lock:
            self._bytes_left[direction] = count

    def refuse(self) -> None:
        """Resets all connections, and each new one at once."""
        self._refuses = True
        self.cut()

    def lose_answers(self) -> None:
        """Passes requests on and swallows the answers: requests take effect, but no client gets an answer."""
        self._swallow(frozenset({"answers"}))

    def black_hole(self) -> None:
        """Swallows everything while connections stay open, like a network without a route."""
        self._swallow(frozenset({"requests", "answers"}))

    def silence(self, *directions: Direction) -> None:
        """Swallows these directions of the connections that are open now, until they are closed; new ones work."""
        with self._lock:
            for link in self._links:
                link.swallows |= set(directions)

    def half_open(self) -> None:
        """Resets the server's side of all connections that are open now; the clients' sides stay open, in silence."""
        with self._lock:
            links = list(self._links)
        for link in links:
            link.forget_server()

    def slow(self, bytes_per_s: float) -> None:
        """Passes on so many bytes a second of each connection and direction."""
        self._bytes_per_s = bytes_per_s

    def hold(self, *directions: Direction) -> None:
        """Keeps the data of these directions, of all connections, until `heal` delivers it, in order."""
        with self._lock:
            self._held = frozenset(directions)

    def heal(self) -> None:
        """Ends all faults. Connections that lost data are reset, since their streams have holes."""
        with self._lock:
            self._delay_s = self._bytes_per_s = 0.0
            self._held = frozenset()
            self._released.notify_all()
            self._refuses = False
            self._bytes_left.clear()
            self._swallows = frozenset()
            broken = [link for link in self._links if link.swallows]
        for link in broken:
            self._cut_link(link)

    def close(self) -> None:
        """Stops listening and resets everything; idempotent."""
        self._closed = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.heal()
        self.cut()

    # Passing on

    def _to_server(self, link: Link, data: bytes) -> bytes:
        """The data to pass on instead of a piece that a client sends; may cut the link."""
        return data

    def _to_client(self, link: Link, data: bytes) -> bytes:
        """The data to pass on instead of a piece that the server sends; may cut the link."""
        return data

    def _request_passes(self, link: Link, data: bytes) -> None:
        """Called for each piece that a client sends, before it is passed on; may change what the link swallows."""

    def _answer_passes(self, link: Link, data: bytes) -> None:
        """Called for each piece that the server sends, swallowed or not; may cut the link."""

    def _swallow(self, directions: frozenset[Direction]) -> None:
        with self._lock:
            self._swallows = directions
            for link in self._links:
                link.swallows |= directions

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._refuses:
                Link(client, client).cut()
                continue
            try:
                server = socket.create_connection(self._upstream, timeout=5)
            except OSError:
                # The server is down; the client notices that as it would without the proxy.
                Link(client, client).cut()
                continue
            server.settimeout(None)
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link = Link(client, server)
            with self._lock:
                link.swallows |= self._swallows
                self._links.add(link)
            threading.Thread(target=self._pass_on, args=(link, "requests"), daemon=True).start()
            threading.Thread(target=self._pass_on, args=(link, "answers"), daemon=True).start()

    def _pass_on(self, link: Link, direction: Direction) -> None:
        requests = direction == "requests"
        source, sink = (link.client, link.server) if requests else (link.server, link.client)
        with contextlib.suppress(OSError):
            while not link.is_cut and (data := source.recv(_CHUNK_BYTES)):
                if self._delay_s:
                    time.sleep(self._delay_s)
                data, cut = self._count(data, direction)
                data = self._to_server(link, data) if requests else self._to_client(link, data)
                if requests:
                    self._request_passes(link, data)
                if not link.is_cut:
                    self._deliver(link, direction, data, sink)
                if not requests:
                    self._answer_passes(link, data)
                if cut:
                    self._cut_link(link)
        self._end(link, direction)

    def _deliver(self, link: Link, direction: Direction, data: bytes, sink: socket.socket) -> None:
        with self._lock:
            self._released.wait_for(lambda: direction not in self._held or link.is_cut)
        if direction in link.swallows:
            self._swallowed += 1
        elif self._bytes_per_s:
            for first in range(0, len(data), _SLOW_BYTES):
                time.sleep(len(data[first : first + _SLOW_BYTES]) / (self._bytes_per_s or 1e9))
                sink.sendall(data[first : first + _SLOW_BYTES])
        else:
            sink.sendall(data)

    def _count(self, data: bytes, direction: Direction) -> tuple[bytes, bool]:
        with self._lock:
            left = self._bytes_left.get(direction)
            if left is None:
                return data, False
            if len(data) < left:
                self._bytes_left[direction] = left - len(data)
                return data, False
            del self._bytes_left[direction]
            return data[: left - 1], True

    def _cut_link(self, link: Link) -> None:
        with self._lock:
            self._cuts += 1
            self._links.discard(link)
        link.cut()

    def _end(self, link: Link, direction: Direction) -> None:
        """Ends a link: if one side ended in order, or broke, so does the other."""
        if link.is_half_open and direction == "answers":
            return
        with self._lock:
            self._links.discard(link)
        if link.is_cut:
            return
        for end in (link.client, link.server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
