"""A proxy for Postgres that detects commits of transactions and can cut there.

It parses only a part of the protocol: `COMMIT` comes as a simple query, or as a bound statement that was parsed before,
with or without a name. The tag of the answer shows that it took effect.
"""

from __future__ import annotations

import re
import struct
import threading
import time
from typing import Final, Literal

from lakelog.testing.proxy import Link, TcpProxy

CutPlace = Literal["before_commit", "after_commit"]

_DONE: Final = re.compile(rb"C....COMMIT\x00", re.DOTALL)
_PRESENCE: Final = re.compile(rb"(UPDATE|INTO|FROM) service\b")
"""Services report every few seconds, and such a report would take the cut that was meant for another commit."""
_KEPT_BYTES: Final = 64
"""So much of an answer's end is kept, since the tag may be split over two pieces."""
_SSL_REQUEST: Final = struct.pack(">ii", 8, 80877103)


class _Requests:
    """The messages of one client."""

    def __init__(self) -> None:
        self._rest = b""
        self._started = False
        self._statements: dict[bytes, bytes] = {}
        self._reports_presence = False

    def has_commit(self, data: bytes) -> bool:
        """Takes the next piece; returns whether a COMMIT ends in it, except one of a report of presence."""
        self._rest += data
        found = False
        while True:
            # The first message has no type. A request for SSL may precede it, which the server should decline.
            head = 1 if self._started else 0
            if len(self._rest) < head + 4:
                return found
            end = head + int.from_bytes(self._rest[head : head + 4], "big")
            if len(self._rest) < end:
                return found
            message, self._rest = self._rest[:end], self._rest[end:]
            if self._started:
                found = self._is_commit(message[:1], message[5:]) or found
            else:
                self._started = message != _SSL_REQUEST

    def _is_commit(self, kind: bytes, body: bytes) -> bool:
        if kind == b"P":
            name, statement = body.split(b"\x00")[:2]
            self._statements[name] = statement.strip()
        elif kind in (b"Q", b"B"):
            statement = body if kind == b"Q" else self._statements.get(body.split(b"\x00")[1], b"")
            if statement.upper().startswith(b"COMMIT"):
                is_report, self._reports_presence = self._reports_presence, False
                return not is_report
            if statement.upper().startswith((b"BEGIN", b"ROLLBACK")):
                self._reports_presence = False
            elif _PRESENCE.search(statement):
                self._reports_presence = True
        return False


class PostgresProxy(TcpProxy):
    """A `TcpProxy` for Postgres that can also cut at COMMIT; use it without TLS.

    Args:
        port: The server's port.
        host: The server's host.
    """

    def __init__(self, port: int, *, host: str = "127.0.0.1") -> None:
        self._places: list[CutPlace] = []
        self._place_lock = threading.Lock()
        self._requests: dict[Link, _Requests] = {}
        self._answers: dict[Link, bytes] = {}
        self._committing: set[Link] = set()
        super().__init__(port, host=host)

    def cut_at_commit(self, place: CutPlace, times: int = 1) -> None:
        """Resets the next connections that commit, except for reports of presence.

        Args:
            place: `before_commit`: COMMIT is not passed on, so the server rolls back. `after_commit`: it is passed on,
                and the connection is reset after the server has committed, before the client gets the answer.
            times: The number of commits; added to earlier requests.
        """
        with self._place_lock:
            self._places += [place] * times

    def heal(self) -> None:
        """Ends all faults, also those that still wait for their commit."""
        with self._place_lock:
            self._places.clear()
        super().heal()

    @property
    def cuts_to_come(self) -> int:
        """How many requested cuts still wait for their commit."""
        with self._place_lock:
            return len(self._places)

    def _request_passes(self, link: Link, data: bytes) -> None:
        if not self._requests.setdefault(link, _Requests()).has_commit(data):
            return
        with self._place_lock:
            if not self._places:
                return
            place = self._places.pop(0)
        if place == "before_commit":
            self._cut_link(link)
        else:
            self._answers[link] = b""
            self._committing.add(link)
            link.swallows.add("answers")
            threading.Thread(target=self._cut_when_late, args=(link,), daemon=True).start()

    def _answer_passes(self, link: Link, data: bytes) -> None:
        if link not in self._committing:
            return
        seen = self._answers.get(link, b"") + data
        self._answers[link] = seen[-_KEPT_BYTES:]
        if _DONE.search(seen):
            self._committing.discard(link)
            self._cut_link(link)

    def _cut_when_late(self, link: Link) -> None:
        """The server may refuse a commit and never send that answer; the connection must not hang then."""
        time.sleep(5)
        if link in self._committing and not link.is_cut:
            self._committing.discard(link)
            self._cut_link(link)
