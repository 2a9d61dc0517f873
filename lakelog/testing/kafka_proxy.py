"""A proxy before a Kafka broker that knows the ends of transactions: it delays them, repeats them, loses their answers.

It reads just enough of the protocol: the length, the key and the correlation id of each request. Brokers tell clients
where to connect, so that answers which say so are changed to name the proxy. For plaintext listeners.
"""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import threading
import time
from dataclasses import dataclass
from typing import Final

from lakelog.testing.proxy import Link, TcpProxy

END_TXN: Final = 26
_NAMES_BROKERS: Final = frozenset({3, 10, 60})
"""Metadata, FindCoordinator, DescribeCluster."""

_ANSWER_TIMEOUT_S: Final = 10.0
_END_TXN_FLEXIBLE: Final = 3
"""From this version on answers have tagged fields in their header."""


@dataclass(frozen=True)
class EndRequest:
    """An end of a transaction as it stands on the wire, its length included."""

    frame: bytes

    @property
    def version(self) -> int:
        """Of the request."""
        return int.from_bytes(self.frame[6:8], "big")


class _Frames:
    """Pieces of a stream become whole messages, each with its length."""

    def __init__(self) -> None:
        self._rest = b""

    def take(self, data: bytes) -> list[bytes]:
        self._rest += data
        frames = []
        while len(self._rest) >= 4:
            end = 4 + int.from_bytes(self._rest[:4], "big")
            if len(self._rest) < end:
                break
            frames.append(self._rest[:end])
            self._rest = self._rest[end:]
        return frames


class _Conversation:
    """What one connection has said and asked."""

    def __init__(self) -> None:
        self.requests: Final = _Frames()
        self.answers: Final = _Frames()
        self.asked: Final[dict[int, int]] = {}
        """Keys of requests without an answer so far, by correlation id."""
        self.loses: Final[set[int]] = set()
        """Correlation ids of requests whose answers are lost."""


class KafkaProxy(TcpProxy):
    """A `TcpProxy` before a broker; give clients `target` as `bootstrap.servers`.

    Args:
        port: The broker's port.
        host: The broker's host, as it advertises itself; as long as `127.0.0.1`, whose place it takes in answers.
    """

    def __init__(self, port: int, *, host: str = "127.0.0.1") -> None:
        self._conversations: dict[Link, _Conversation] = {}
        self._end_lock = threading.Lock()
        self._holds = 0
        self._loses = 0
        self._end_delay_s = 0.0
        self._held: list[EndRequest] = []
        self._ends = 0
        self._broker = (host, port)
        super().__init__(port, host=host)
        ours = b"127.0.0.1" + struct.pack(">i", self.port)
        theirs = host.encode() + struct.pack(">i", port)
        if len(ours) != len(theirs):
            raise ValueError(f"host: {host!r} must be as long as '127.0.0.1', since answers keep their lengths.")
        self._ours = ours
        self._theirs = re.compile(re.escape(theirs))

    @property
    def ends(self) -> int:
        """How many ends of transactions clients have sent, repeated ones included."""
        return self._ends

    @property
    def held(self) -> int:
        """How many ends of transactions are kept back and may still come late."""
        return len(self._held)

    # Faults

    def hold_ends(self, count: int = 1) -> None:
        """Keeps back the next so many ends of transactions, and cuts the connections on which they came.

        Clients repeat them, and those pass. `release_ends` lets what was kept back arrive.
        """
        with self._end_lock:
            self._holds = count

    def lose_end_answers(self, count: int = 1) -> None:
        """Passes the next so many ends of transactions on; their answers are lost, and the connections cut."""
        with self._end_lock:
            self._loses = count

    def delay_ends(self, seconds: float) -> None:
        """Holds each end of a transaction back for so long; it stays in its place on its connection."""
        self._end_delay_s = seconds

    def release_ends(self) -> list[int]:
        """Lets all that was kept back arrive at the broker, on connections of its own, as packets that took a detour.

        Returns:
            What the broker said to each: Kafka's error codes, 0 where it took effect, or had before.
        """
        with self._end_lock:
            held, self._held = self._held, []
        return [_deliver(self._broker, request) for request in held]

    def heal(self) -> None:
        """Ends all faults; what was kept back never arrives."""
        with self._end_lock:
            self._holds = self._loses = 0
            self._end_delay_s = 0.0
            self._held = []
        super().heal()

    # Passing on

    def _to_server(self, link: Link, data: bytes) -> bytes:
        talk = self._conversations.setdefault(link, _Conversation())
        passed = []
        for frame in talk.requests.take(data):
            key, correlation = int.from_bytes(frame[4:6], "big"), int.from_bytes(frame[8:12], "big")
            talk.asked[correlation] = key
            if key == END_TXN and not self._may_pass(link, talk, frame, correlation):
                break
            passed.append(frame)
        return b"".join(passed)

    def _may_pass(self, link: Link, talk: _Conversation, frame: bytes, correlation: int) -> bool:
        with self._end_lock:
            self._ends += 1
            holds, loses = self._holds > 0, not self._holds and self._loses > 0
            if holds:
                self._holds -= 1
                self._held.append(EndRequest(frame))
            if loses:
                self._loses -= 1
                talk.loses.add(correlation)
            delay_s = self._end_delay_s
        if holds:
            self._cut_link(link)
            return False
        if delay_s:
            time.sleep(delay_s)
        return True

    def _to_client(self, link: Link, data: bytes) -> bytes:
        talk = self._conversations.setdefault(link, _Conversation())
        passed = []
        for frame in talk.answers.take(data):
            correlation = int.from_bytes(frame[4:8], "big")
            key = talk.asked.pop(correlation, -1)
            if correlation in talk.loses:
                self._cut_link(link)
                break
            passed.append(self._theirs.sub(lambda _: self._ours, frame) if key in _NAMES_BROKERS else frame)
        return b"".join(passed)


def _deliver(broker: tuple[str, int], request: EndRequest) -> int:
    with contextlib.closing(socket.create_connection(broker, timeout=_ANSWER_TIMEOUT_S)) as connection:
        connection.sendall(request.frame)
        frames, whole = _Frames(), list[bytes]()
        while not whole:
            data = connection.recv(1 << 16)
            if not data:
                raise ConnectionError(
                    "the broker closed the connection instead of answering a late end of a transaction"
                )
            whole = frames.take(data)
    # Length, correlation id, tagged fields, throttle time.
    head = 4 + 4 + (1 if request.version >= _END_TXN_FLEXIBLE else 0) + 4
    (code,) = struct.unpack(">h", whole[0][head : head + 2])
    return int(code)
