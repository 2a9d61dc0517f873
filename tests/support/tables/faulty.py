"""Stores and a metastore that fail where a test says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lakelog.format.commit.request import CommitRequest, CommitResult
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.objects.stores import open_store
from lakelog.testing.faulty_store import FaultyStore
from metastore.testing import InProcessMetastore


class FaultyStores:
    """All tables' stores behind one switch."""

    def __init__(self) -> None:
        self.opened: dict[str, FaultyStore] = {}

    def open(self, location: str) -> ObjectStore:
        return self.opened.setdefault(location, FaultyStore(open_store(location)))

    def fail_at(self, operation: Any, number: int) -> None:
        for store in self.opened.values():
            store.fail_at(operation, number)

    def heal(self) -> None:
        for store in self.opened.values():
            store.heal()

    @property
    def failures(self) -> int:
        return sum(len(store.failures) for store in self.opened.values())


class FaultyMetastore:
    """Passes everything on, but for what `on_commit` does instead of a commit."""

    def __init__(self, inner: InProcessMetastore) -> None:
        self.inner = inner
        self.on_commit: Callable[[CommitRequest], CommitResult] | None = None
        self.on_abandon: Callable[[str], None] | None = None
        self.commits: list[CommitRequest] = []

    def commit(self, request: CommitRequest) -> CommitResult:
        self.commits.append(request)
        return self.on_commit(request) if self.on_commit is not None else self.inner.commit(request)

    def abandon_attempt(self, attempt_id: str) -> None:
        if self.on_abandon is not None:
            self.on_abandon(attempt_id)
        self.inner.abandon_attempt(attempt_id)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)
