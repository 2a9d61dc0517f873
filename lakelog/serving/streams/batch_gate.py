"""Admits the batches of a stream until the stream ends."""

from __future__ import annotations

import threading


class Stop(Exception):
    """Raised inside a batch that must not begin, because the stream ends."""


class Gate:
    """Admits batches until it is closed; `close` waits for a batch inside. Thread-safe.

    Args:
        name: The stream of the batches, for people.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._closed = False
        self.has_refused = False
        """Whether a batch was refused; for Spark, its query then ends with an error."""

    def __enter__(self) -> None:
        self._lock.acquire()
        if self._closed:
            self.has_refused = True
            self._lock.release()
            raise Stop(f"{self._name} is stopping")

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def close(self) -> None:
        """Admits no more batches, and blocks until none is inside."""
        with self._lock:
            self._closed = True
