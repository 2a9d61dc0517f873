"""A TCP proxy in front of Postgres that loses what it is told to lose."""

from __future__ import annotations

import enum
import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self


class Cut(enum.Enum):
    """What happens to the next COMMIT that passes."""

    NOTHING = "nothing"
    BEFORE = "the connection ends before the server gets it"
    AFTER = "the server gets it, and the connection ends before its answer"


class CuttingProxy:
    """Forwards connections to a server on 127.0.0.1.

    Args:
        port: The server's.
    """

    def __init__(self, port: int) -> None:
        self._target = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.cut = Cut.NOTHING
        self.cuts = 0
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        for open_socket in list(self._sockets):
            _end(open_socket)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._target)
            except OSError:
                client.close()
                continue
            self._sockets |= {client, server}
            lost = threading.Event()
            threading.Thread(target=self._to_server, args=(client, server, lost), daemon=True).start()
            threading.Thread(target=self._to_client, args=(client, server, lost), daemon=True).start()

    def _to_server(self, client: socket.socket, server: socket.socket, lost: threading.Event) -> None:
        while data := _receive(client):
            cut = self._take_cut(data)
            if cut is Cut.BEFORE:
                break
            if cut is Cut.AFTER:
                lost.set()
            try:
                server.sendall(data)
            except OSError:
                break
        if not lost.is_set():
            _end(server)
            _end(client)

    def _to_client(self, client: socket.socket, server: socket.socket, lost: threading.Event) -> None:
        while data := _receive(server):
            if lost.is_set():
                # The server has answered, so the COMMIT took effect; the client never learns of it.
                break
            try:
                client.sendall(data)
            except OSError:
                break
        _end(client)
        _end(server)

    def _take_cut(self, data: bytes) -> Cut:
        if b"COMMIT" not in data:
            return Cut.NOTHING
        with self._lock:
            cut, self.cut = self.cut, Cut.NOTHING
            self.cuts += cut is not Cut.NOTHING
            return cut


def _receive(source: socket.socket) -> bytes:
    try:
        return source.recv(1 << 20)
    except OSError:
        return b""


def _end(open_socket: socket.socket) -> None:
    with suppress(OSError):
        open_socket.shutdown(socket.SHUT_RDWR)
    open_socket.close()
