"""How much may be on its way to a client: messages that it has not acknowledged yet."""

from __future__ import annotations

import threading
from collections import deque


class SendWindow:
    """Lets a thread send while there is room. Thread-safe.

    Args:
        max_bytes: The most bytes on their way, not counting the message that fills it.
        max_messages: The most messages on their way.
    """

    def __init__(self, max_bytes: int, max_messages: int) -> None:
        self._max_bytes = max_bytes
        self._max_messages = max_messages
        self._sent: deque[tuple[int, int]] = deque()
        self._bytes = 0
        self._last = 0
        self._closed = False
        self._changed = threading.Condition()

    @property
    def sent_bytes(self) -> int:
        """Bytes on their way."""
        return self._bytes

    def enter(self, size_bytes: int) -> int:
        """Waits until there is room for a message; returns its number, from 1, or 0 when closed."""
        with self._changed:
            while not self._closed and (len(self._sent) >= self._max_messages or self._bytes >= self._max_bytes):
                self._changed.wait()
            if self._closed:
                return 0
            self._last += 1
            self._sent.append((self._last, size_bytes))
            self._bytes += size_bytes
            return self._last

    def taken(self, sequence: int) -> None:
        """Records that the client has taken all messages up to and including this one."""
        with self._changed:
            while self._sent and self._sent[0][0] <= sequence:
                self._bytes -= self._sent.popleft()[1]
            self._changed.notify_all()

    def close(self) -> None:
        """Admits nothing any more; idempotent."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
