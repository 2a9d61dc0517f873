"""A proxy before Postgres that knows when a transaction commits, and cuts there.

It reads just enough of the protocol: `COMMIT` comes as a simple query, or as a prepared statement whose name is learned
when it is parsed; that it took effect shows in the tag of the server's answer.
"""

from __future__ import annotations

import re
import threading
import time
from typing import Final, Literal

from lakelog.testing.proxy import Link, TcpProxy

CutPlace = Literal["before_commit", "after_commit"]

_SIMPLE: Final = re.compile(rb"Q....COMMIT", re.DOTALL)
_PARSED: Final = re.compile(rb"P....([^\x00]*)\x00COMMIT\x00", re.DOTALL)
_BOUND: Final = re.compile(rb"B....[^\x00]*\x00([^\x00]*)\x00", re.DOTALL)
_DONE: Final = re.compile(rb"C....COMMIT\x00", re.DOTALL)
_KEPT_BYTES: Final = 256
"""A message that two pieces share is found all the same, where it is shorter than this."""


class PostgresProxy(TcpProxy):
    """A `TcpProxy` before Postgres that can also cut at COMMIT; use it without TLS.

    Args:
        port: The server's port.
        host: The server's host.
    """

    def __init__(self, port: int, *, host: str = "127.0.0.1") -> None:
        self._places: list[CutPlace] = []
        self._place_lock = threading.Lock()
        self._names: dict[Link, set[bytes]] = {}
        self._requests: dict[Link, bytes] = {}
        self._answers: dict[Link, bytes] = {}
        self._committing: set[Link] = set()
        super().__init__(port, host=host)

    def cut_at_commit(self, place: CutPlace, times: int = 1) -> None:
        """Resets the next connections that commit something.

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
        seen = self._requests.get(link, b"") + data
        self._requests[link] = seen[-_KEPT_BYTES:]
        names = self._names.setdefault(link, set())
        names.update(_PARSED.findall(seen))
        # Only what is new counts as a commit; a name may have been parsed long before.
        fresh = seen[max(0, len(seen) - len(data) - 16) :]
        commits = _SIMPLE.search(fresh) or any(name in names for name in _BOUND.findall(fresh))
        if not commits:
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
