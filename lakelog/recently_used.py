"""A cache of what was used last, bounded by its size."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class RecentlyUsed(Generic[K, V]):
    """Values that never change, by key; the least recently used are evicted when it is full. Threads may share it.

    Args:
        max_size: The limit of the values' sizes together; 0 stores nothing.
        size_of: The size of a value, always the same.
    """

    def __init__(self, max_size: int, size_of: Callable[[V], int]) -> None:
        self._max_size = max_size
        self._size_of = size_of
        self._held_size = 0
        self._lock = threading.Lock()
        self._entries: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """The value of a key, or None."""
        with self._lock:
            found = self._entries.get(key)
            if found is not None:
                self._entries.move_to_end(key)
            return found

    def put(self, key: K, value: V) -> None:
        """Stores a value, unless its key has one, or it is larger than the whole cache."""
        size = self._size_of(value)
        with self._lock:
            if size > self._max_size or key in self._entries:
                return
            self._entries[key] = value
            self._held_size += size
            while self._held_size > self._max_size:
                _, dropped = self._entries.popitem(last=False)
                self._held_size -= self._size_of(dropped)

    def clear(self) -> None:
        """Forgets all values."""
        with self._lock:
            self._entries.clear()
            self._held_size = 0
