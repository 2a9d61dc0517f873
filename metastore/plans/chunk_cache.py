"""Packed entries in memory. They never change, so an entry here is never wrong, only absent."""

from __future__ import annotations

from collections import OrderedDict


class ChunkCache:
    """The entries used last, up to a number of bytes."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._entries: OrderedDict[int, bytes] = OrderedDict()
        self._bytes = 0

    def get(self, chunk_id: int) -> bytes | None:
        """A chunk's entries, if they are cached."""
        entries = self._entries.get(chunk_id)
        if entries is not None:
            self._entries.move_to_end(chunk_id)
        return entries

    def put(self, chunk_id: int, entries: bytes) -> None:
        """Caches a chunk's entries and removes those not used for longest."""
        if chunk_id in self._entries or len(entries) > self._max_bytes:
            return
        self._entries[chunk_id] = entries
        self._bytes += len(entries)
        while self._bytes > self._max_bytes:
            _, oldest = self._entries.popitem(last=False)
            self._bytes -= len(oldest)
