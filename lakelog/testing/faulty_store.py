"""A store around any other one, which fails on command."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Final, Literal

import pyarrow as pa

from lakelog.errors import Unavailable
from lakelog.storage.objects.store import ObjectStore, ObjectWriter, PassOver, StoredObject

Operation = Literal["create", "commit", "open_input", "delete"]


class FaultyStore:
    """Passes all operations on, and raises Unavailable at chosen ones.

    Args:
        inner: The store that does the work.
    """

    def __init__(self, inner: ObjectStore) -> None:
        self.inner: Final = inner
        self._lock = threading.Lock()
        self._countdown: dict[Operation, int] = {}
        self.failures: list[tuple[Operation, str]] = []
        """The failures so far: the operation and the path."""

    def fail_at(self, operation: Operation, number: int) -> None:
        """Makes the operation fail at its `number`-th call from now (from 1), and at each one after it."""
        with self._lock:
            self._countdown[operation] = number

    def heal(self) -> None:
        """Ends all failures."""
        with self._lock:
            self._countdown.clear()

    @property
    def location(self) -> str:
        return self.inner.location

    def open_input(self, path: str) -> pa.NativeFile:
        self._check("open_input", path)
        return self.inner.open_input(path)

    def create(self, path: str) -> FaultyWriter:
        self._check("create", path)
        return FaultyWriter(self, path, self.inner.create(path))

    def delete(self, path: str) -> bool:
        self._check("delete", path)
        return self.inner.delete(path)

    def delete_many(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.delete(path)

    def list_objects(self, prefix: str = "") -> Iterator[StoredObject]:
        return self.inner.list_objects(prefix)

    def list_pages(self, page_size: int, pass_over: PassOver | None = None) -> Iterator[list[StoredObject]]:
        return self.inner.list_pages(page_size, pass_over)

    def delete_empty_folders(self) -> None:
        self.inner.delete_empty_folders()

    def size(self, path: str) -> int:
        return self.inner.size(path)

    def _check(self, operation: Operation, path: str) -> None:
        with self._lock:
            if operation not in self._countdown:
                return
            self._countdown[operation] -= 1
            if self._countdown[operation] > 0:
                return
            self.failures.append((operation, path))
        raise Unavailable(f"The store was told to fail at {operation} of {path}.", reason="INJECTED")


class FaultyWriter:
    """An object that is being written to a `FaultyStore`."""

    def __init__(self, store: FaultyStore, path: str, inner: ObjectWriter) -> None:
        self._store = store
        self._path = path
        self._inner = inner

    @property
    def sink(self) -> pa.NativeFile:
        return self._inner.sink

    def commit(self) -> int:
        """Makes the object durable, or fails; the object is then as unfinished as before."""
        self._store._check("commit", self._path)
        return self._inner.commit()

    def abort(self) -> None:
        self._inner.abort()
