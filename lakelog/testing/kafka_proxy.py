"""A proxy for a Kafka broker that detects ends of transactions: it can delay or repeat them, or lose their answers.

It parses only a part of the protocol: the length, the key and the correlation id of each request. Brokers tell clients
which address to connect to, so the proxy puts its own address into such answers. For plaintext listeners.
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
"""From this version on, the headers of answers have tagged fields."""


@dataclass(frozen=True)
class EndRequest:
    """The end of a transaction as on the wire, its length included."""

    frame: bytes

    @property
    def version(self) -> int:
        """The version of the request."""
        return int.from_bytes(self.frame[6:8], "big")


class _Frames:
    """Joins pieces of a stream to whole messages, each with its length."""

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
    """The state of one connection."""

    def __init__(self) -> None:
        self.requests: Final = _Frames()
        self.answers: Final = _Frames()
        self.asked: Final[dict[int, int]] = {}
        """The keys of requests without an answer, by correlation id."""
        self.loses: Final[set[int]] = set()
        """The correlation ids of requests whose answers are lost."""


class KafkaProxy(TcpProxy):
    """A `TcpProxy` before a broker; give clients `target` as `bootstrap.servers`.

    Args:
        port: The broker's port.
        host: The broker's host, as it advertises itself; the same length as `127.0.0.1`, which replaces it in answers.
    """

    def __init__(self, port: int, *, host: str = "127.0.0.1") -> None:
        self._conversations: dict[Link, _Conversation] = {}
        self._end_lock = threading.Lock()
        self._holds = 0
        self._loses = 0
        self._end_delay_s = 0.0
        self._held_ends: list[EndRequest] = []
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
        """How many ends of transactions clients have sent, repeats included."""
        return self._ends

    @property
    def held(self) -> int:
        """How many ends of transactions are held back and may still arrive late."""
        return len(self._held_ends)

    # Faults

    def hold_ends(self, count: int = 1) -> None:
        """Holds the next `count` ends of transactions back, and cuts their connections.

        Clients repeat them, and the repeats pass. `release_ends` delivers the ones held back.
        """
        with self._end_lock:
            self._holds = count

    def lose_end_answers(self, count: int = 1) -> None:
        """Passes the next `count` ends of transactions on, loses their answers, and cuts their connections."""
        with self._end_lock:
            self._loses = count

    def delay_ends(self, seconds: float) -> None:
        """Delays each end of a transaction by so long; it keeps its place on its connection."""
        self._end_delay_s = seconds

    def release_ends(self) -> list[int]:
        """Delivers all ends held back to the broker, on their own connections, like packets that took a detour.

        Returns:
            The broker's answer to each: Kafka's error codes; 0 if it took effect, now or before.
        """
        with self._end_lock:
            held, self._held_ends = self._held_ends, []
        return [_deliver(self._broker, request) for request in held]

    def heal(self) -> None:
        """Ends all faults; the ends held back never arrive."""
        with self._end_lock:
            self._holds = self._loses = 0
            self._end_delay_s = 0.0
            self._held_ends = []
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
                self._held_ends.append(EndRequest(frame))
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
