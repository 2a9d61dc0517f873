"""Letting batches of a stream in until it ends."""

from __future__ import annotations

import threading


class Stop(Exception):
    """Raised inside a batch that shall not begin, because the stream ends."""


class Gate:
    """Lets batches in until it is closed; whoever closes it waits for the one inside. Thread-safe.

    Args:
        name: Whose batches they are, for people.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._closed = False
        self.has_refused = False
        """Whether a batch was not let in, which ends its query with an error in Spark's eyes."""

    def __enter__(self) -> None:
        self._lock.acquire()
        if self._closed:
            self.has_refused = True
            self._lock.release()
            raise Stop(f"{self._name} is stopping")

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def close(self) -> None:
        """Lets no batch in any more and blocks until none is inside."""
        with self._lock:
            self._closed = True
