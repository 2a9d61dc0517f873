"""The stores of many tables: one for each location, made when it is first needed."""

from __future__ import annotations

import threading
from typing import Protocol

from lakelog.storage.objects.store import ObjectStore, S3Settings, open_store


class Stores(Protocol):
    """Gives the store of a table's location; may be called from several threads."""

    def open(self, location: str) -> ObjectStore:
        """The store of a location, as of `lakelog.storage.objects.store.open_store`."""
        ...


class LocationStores:
    """Stores by their URI; each location's store is kept. Pickles as its settings.

    Args:
        s3: How to reach S3.
    """

    def __init__(self, s3: S3Settings | None = None) -> None:
        self._s3 = s3
        self._lock = threading.Lock()
        self._open: dict[str, ObjectStore] = {}

    def __reduce__(self) -> tuple[object, ...]:
        return (LocationStores, (self._s3,))

    def open(self, location: str) -> ObjectStore:
        """The store of a location."""
        with self._lock:
            store = self._open.get(location)
            if store is None:
                store = self._open[location] = open_store(location, self._s3)
            return store
