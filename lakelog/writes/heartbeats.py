"""Reports that writers with rows sent before their commit are alive (`lakelog.format.log.heartbeat`).

Objectives, which conflict: readers take the rows of a dead writer back within seconds; a write that takes milliseconds
pays nothing. So a write only registers its attempt in this process. A thread renews all attempts that are still in use,
every few seconds, with one call.

An attempt is in use as long as its `Heartbeat` is referenced: a writer that forgot its transaction counts as dead.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import weakref
from collections.abc import Sequence

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import LakelogError
from lakelog.format.log.heartbeat import HEARTBEAT_S, MAX_ATTEMPTS

_log = logging.getLogger(__name__)


class Heartbeat:
    """Keeps an attempt in use until `end`, the end of the `with` block, or the last reference to this object.

    Args:
        attempt_id: The attempt.
    """

    def __init__(self, attempt_id: str) -> None:
        self.attempt_id = attempt_id
        self.is_over = False

    def end(self) -> None:
        """Ends the use of the attempt; idempotent, and does not wait."""
        self.is_over = True

    def __enter__(self) -> Heartbeat:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


class Heartbeats:
    """Renews the attempts of one process. For many threads.

    Args:
        metastore: The metastore in which they are open.
        pause_s: Time between renewals.
    """

    _in_use: weakref.WeakSet[Heartbeat]
    _thread: threading.Thread | None

    def __init__(self, metastore: Metastore, pause_s: float = HEARTBEAT_S) -> None:
        self._metastore = metastore
        self._pause_s = pause_s
        self._begin_empty()

    def begin(self, attempt_id: str) -> Heartbeat:
        """Renews an attempt from now on, the first time after a pause; it was opened just now."""
        heartbeat = Heartbeat(attempt_id)
        if self._pid != os.getpid():
            # SUBTLE: threads do not survive in a forked child, the parent renews these attempts, and the owner of the
            # lock is unknown.
            self._begin_empty()
        with self._lock:
            self._in_use.add(heartbeat)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="lakelog-heartbeats", daemon=True)
                self._thread.start()
        return heartbeat

    def close(self) -> None:
        """Ends the use of all attempts; does not wait."""
        if self._pid != os.getpid():
            # Those of its parent, whose thread may have held the lock at the fork: it would stay locked here.
            self._begin_empty()
        with self._lock:
            for each in list(self._in_use):
                each.end()

    def renew(self, attempt_ids: Sequence[str]) -> list[str] | None:
        """Renews attempts now, and returns the open ones; None: not known. Never raises lakelog errors.

        Blocks on the metastore.
        """
        try:
            found: list[str] = []
            for start in range(0, len(attempt_ids), MAX_ATTEMPTS):
                found += self._metastore.renew_attempts(attempt_ids[start : start + MAX_ATTEMPTS])
        except LakelogError as error:
            # The next renewal is soon, and readers tolerate some lost ones.
            _log.debug("attempts could not be renewed: %s", error)
            return None
        return found

    def _begin_empty(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._in_use = weakref.WeakSet()
        self._thread = None
        self._pause = threading.Event()

    def _run(self) -> None:
        pause = self._pause
        while True:
            pause.wait(self._pause_s)
            with self._lock:
                for each in [each for each in self._in_use if each.is_over]:
                    self._in_use.discard(each)
                left = list(self._in_use)
                if not left:
                    self._thread = None
                    return
            with contextlib.suppress(Exception):
                # A foreign error must not end the renewals of all other attempts.
                self._renew_used(left)
            # SUBTLE: the loop must not keep the attempts in use.
            left.clear()
            del left

    def _renew_used(self, used: Sequence[Heartbeat]) -> None:
        found = self.renew([each.attempt_id for each in used])
        if found is not None:
            for each in used:
                if each.attempt_id not in found:
                    each.end()
