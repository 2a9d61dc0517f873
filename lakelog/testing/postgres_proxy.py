"""A proxy before Postgres that knows when a transaction commits, and cuts there.

It reads just enough of the protocol: `COMMIT` comes as a simple query, or as a statement that was parsed, named or not,
and is bound; that it took effect shows in the tag of the answer.
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
"""The end of an answer is kept, since two pieces may share the tag."""
_SSL_REQUEST: Final = struct.pack(">ii", 8, 80877103)


class _Requests:
    """What one client sends, message by message."""

    def __init__(self) -> None:
        self._rest = b""
        self._started = False
        self._statements: dict[bytes, bytes] = {}
        self._reports_presence = False

    def has_commit(self, data: bytes) -> bool:
        """Takes the next piece; whether a COMMIT ends in it, of anything but a service's report of its presence."""
        self._rest += data
        found = False
        while True:
            # The first message has no type. SSL may be asked for before it, which the server is to decline.
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
            self._reports_presence = self._reports_presence or _PRESENCE.search(statement) is not None
        return False


class PostgresProxy(TcpProxy):
    """A `TcpProxy` before Postgres that can also cut at COMMIT; use it without TLS.

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
        """Resets the next connections that commit something, a report of presence excepted.

        Args:
            place: `before_commit`: COMMIT is not passed on, so the server rolls back. `after_commit`: it is, and the
                connection is reset when the server has committed, without its answer.
            times: For so many commits; added to what was asked for before.
        """
        with self._place_lock:
            self._places += [place] * times

    def heal(self) -> None:
        """Ends all faults, those included that have not found their commit yet."""
        with self._place_lock:
            self._places.clear()
        super().heal()

    @property
    def cuts_to_come(self) -> int:
        """How many of the cuts asked for have not found their commit yet."""
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
        """A commit that the server refuses has no such answer; the connection must not hang for that."""
        time.sleep(5)
        if link in self._committing and not link.is_cut:
            self._committing.discard(link)
            self._cut_link(link)
