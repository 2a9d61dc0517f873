"""A proxy for Postgres that detects commits of transactions, and can cut or stop there.

It parses only a part of the protocol: `COMMIT` comes as a simple query, or as a bound statement that was parsed before,
with or without a name. The tag of the answer shows that it took effect.
"""

from __future__ import annotations

import re
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal

from lakelog.testing.proxy import Link, TcpProxy

CutPlace = Literal["before_commit", "after_commit"]

CommitStep = Literal["before the transaction", "holding locks", "before the answer"]
"""Of a commit to tables: before it locks their heads, when it has locked them, when it is durable."""

_DONE: Final = re.compile(rb"C....COMMIT\x00", re.DOTALL)
_PRESENCE: Final = re.compile(rb"(UPDATE|INTO|FROM) service\b")
"""Services report every few seconds, and such a report would take the cut that was meant for another commit."""
_LOCKS_HEADS: Final = re.compile(rb"FROM table_head\b.*FOR UPDATE", re.DOTALL)
_KEPT_BYTES: Final = 64
"""So much of an answer's end is kept, since the tag may be split over two pieces."""
_SSL_REQUEST: Final = struct.pack(">ii", 8, 80877103)


@dataclass
class _Stop:
    """A commit that is to stop at a step until it may go on."""

    step: CommitStep
    reached: Callable[[], None]
    may_go_on: threading.Event = field(default_factory=threading.Event)

    def stop(self) -> None:
        self.reached()
        self.may_go_on.wait()


class _Requests:
    """The messages of one client."""

    def __init__(self) -> None:
        self._rest = b""
        self._started = False
        self._statements: dict[bytes, bytes] = {}
        self._reports_presence = False
        self.locks_heads = False
        """Whether the transaction has locked heads of tables; after its COMMIT until the next BEGIN, too."""

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
                self._reports_presence = self.locks_heads = False
            elif _LOCKS_HEADS.search(statement):
                self.locks_heads = True
            elif _PRESENCE.search(statement):
                self._reports_presence = True
        return False


class PostgresProxy(TcpProxy):
    """A `TcpProxy` for Postgres that can also cut at COMMIT; use it without TLS."""

    def __init__(self, port: int, *, host: str = "127.0.0.1") -> None:
        self._places: list[CutPlace] = []
        self._place_lock = threading.Lock()
        self._requests: dict[Link, _Requests] = {}
        self._answers: dict[Link, bytes] = {}
        self._committing: set[Link] = set()
        self._stop: _Stop | None = None
        self._stopping: dict[Link, _Stop] = {}
        self._stopped: list[_Stop] = []
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

    def stop_at(self, step: CommitStep, reached: Callable[[], None]) -> None:
        """Stops the next commit to a table at a step, until `heal`.

        Args:
            step: Where. What stops there is the request of that step, or the answer to COMMIT; it is passed on later.
            reached: Called there, for instance to freeze the metastore.
        """
        with self._place_lock:
            self._stop = _Stop(step, reached)

    def heal(self) -> None:
        """Ends all faults, also those that still wait for their commit."""
        with self._place_lock:
            self._places.clear()
            self._stop = None
            stopped, self._stopped = self._stopped, []
        for stop in stopped:
            stop.may_go_on.set()
        super().heal()

    @property
    def cuts_to_come(self) -> int:
        """How many requested cuts still wait for their commit."""
        with self._place_lock:
            return len(self._places)

    def _request_passes(self, link: Link, data: bytes) -> None:
        requests = self._requests.setdefault(link, _Requests())
        had_locks = requests.locks_heads
        has_commit = requests.has_commit(data)
        if requests.locks_heads:
            self._stop_request(link, "holding locks" if has_commit and had_locks else "before the transaction")
        if not has_commit:
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

    def _stop_request(self, link: Link, step: CommitStep) -> None:
        with self._place_lock:
            stop = self._stop
            if stop is None:
                return
            if stop.step == "before the answer" and step == "holding locks":
                self._stop, self._stopping[link] = None, stop
                return
            if stop.step != step:
                return
            self._stop = None
            self._stopped.append(stop)
        stop.stop()

    def _to_client(self, link: Link, data: bytes) -> bytes:
        stop = self._stopping.get(link)
        if stop is not None and _DONE.search(data):
            del self._stopping[link]
            with self._place_lock:
                self._stopped.append(stop)
            stop.stop()
        return data

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
