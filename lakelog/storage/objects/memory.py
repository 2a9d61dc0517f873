"""Objects in memory, for tests and simulations."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from lakelog.clock import Clock, SystemClock
from lakelog.errors import AlreadyExists, NotFound
from lakelog.storage.objects.store import PassOver, StoredObject, check_path, check_prefix, to_pages


class MemoryStore:
    """Objects that live as long as the store; it cannot be pickled, since a copy would be another store.

    Args:
        name: Distinguishes stores in messages and locations.
        clock: Gives the objects their times.
    """

    def __init__(self, name: str = "memory", clock: Clock | None = None) -> None:
        self._name = name
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._objects: dict[str, tuple[pa.Buffer, int]] = {}
        self._open: set[str] = set()

    def __repr__(self) -> str:
        return f"MemoryStore({self._name!r})"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("A MemoryStore cannot be pickled: its objects are in this process only.")

    @property
    def location(self) -> str:
        return f"memory://{self._name}/"

    def open_input(self, path: str) -> pa.NativeFile:
        return pa.BufferReader(self._find(path)[0])

    def create(self, path: str) -> MemoryWriter:
        check_path(path)
        with self._lock:
            if path in self._objects or path in self._open:
                raise AlreadyExists(f"Object {self.location}{path} exists already and is never overwritten.")
            self._open.add(path)
        return MemoryWriter(lambda data: self._put(path, data))

    def delete(self, path: str) -> bool:
        check_path(path)
        with self._lock:
            return self._objects.pop(path, None) is not None

    def delete_many(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.delete(path)

    def list_objects(self, prefix: str = "") -> Iterator[StoredObject]:
        start = check_prefix(prefix)
        with self._lock:
            found = [
                StoredObject(path, data.size, modified_ms)
                for path, (data, modified_ms) in self._objects.items()
                if not start or path.startswith(start + "/")
            ]
        return iter(sorted(found, key=lambda object_: object_.path))

    def list_pages(self, page_size: int, pass_over: PassOver | None = None) -> Iterator[list[StoredObject]]:
        return to_pages(self.list_objects(), page_size)

    def delete_empty_folders(self) -> None:
        """Does nothing: there are no folders."""

    def size(self, path: str) -> int:
        return int(self._find(path)[0].size)

    def _find(self, path: str) -> tuple[pa.Buffer, int]:
        check_path(path)
        with self._lock:
            found = self._objects.get(path)
        if found is None:
            raise NotFound(f"Object {self.location}{path} does not exist.", reason="FILE_NOT_FOUND")
        return found

    def _put(self, path: str, data: pa.Buffer | None) -> None:
        with self._lock:
            self._open.discard(path)
            if data is not None:
                self._objects[path] = (data, self._clock.now_ms())


class MemoryWriter:
    """An object during its write to memory.

    Args:
        end: Called once with the bytes, or with None if the object is abandoned.
    """

    def __init__(self, end: Callable[[pa.Buffer | None], None]) -> None:
        self._end = end
        self._ended = False
        self._sink = pa.BufferOutputStream()

    @property
    def sink(self) -> pa.NativeFile:
        return self._sink

    def commit(self) -> int:
        data = self._sink.getvalue()
        self._ended = True
        self._end(data)
        return int(data.size)

    def abort(self) -> None:
        if not self._ended:
            self._ended = True
            self._end(None)
