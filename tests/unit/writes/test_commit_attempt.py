"""The life cycle of a commit attempt: what becomes of its files on each outcome (reliability C2, C4, C8).

The control tests switch a protection off and show that a committed snapshot then loses a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakelog.clock import SystemClock
from lakelog.errors import CommitConflict, Effect, LakelogError, OutcomeUnknown
from lakelog.format.commit.request import Change, CommitRequest, CommitResult
from lakelog.format.tables.files import DataFile
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.options.values import TableOptions
from lakelog.sdk.catalog import Catalog
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.objects.stores import LocationStores
from lakelog.storage.write.table_writer import TableWriter
from lakelog.writes.attempt import CommitAttempt
from metastore.memory import MemoryStore
from metastore.store.transaction import Store
from metastore.testing import InProcessMetastore, in_process
from metastore.use_cases import UseCases

ROWS = pa.table({"k": pa.array([1], pa.int64())})


class Killed(BaseException):
    """What is no error of lakelog's, such as an interrupt."""


class Lossy:
    """A metastore of whose answers a test decides."""

    def __init__(self, inner: InProcessMetastore) -> None:
        self.inner = inner
        self.on_commit: Callable[[CommitRequest], CommitResult] = inner.commit
        self.abandoned: list[str] = []
        self.on_abandon: Callable[[str], None] = inner.abandon_attempt

    def commit(self, request: CommitRequest) -> CommitResult:
        return self.on_commit(request)

    def abandon_attempt(self, attempt_id: str) -> None:
        self.abandoned.append(attempt_id)
        self.on_abandon(attempt_id)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class World:
    """A table, and attempts that write one file each."""

    def __init__(self, metastore: InProcessMetastore, root: Path) -> None:
        self.metastore: Any = Lossy(metastore)
        self.catalog = Catalog(metastore, LocationStores())
        self.catalog.create_database("shop")
        self.table = self.catalog.create_table("shop.log", ROWS.schema)
        self.root = root

    def open(self) -> CommitAttempt:
        return CommitAttempt(self.metastore, "w")

    def write(self, attempt: CommitAttempt, identifier: int = 1) -> tuple[CommitRequest, ObjectStore]:
        """Joins the table and writes its file; the request that commits it."""
        info = attempt.join(self.table.uuid)
        store = attempt.add_store(LocationStores().open(info.location))
        options = TableOptions(info.options)
        change = Change(
            table_uuid=info.table_uuid,
            kind=SnapshotKind.APPEND,
            schema_id=info.schema.schema_id,
            bucket_count=options.bucket_count(False),
            add_files=_write_file(store, self, attempt),
        )
        return CommitRequest("w", identifier, (change,), attempt.attempt_id), store

    def files(self) -> int:
        return len(list(self.root.rglob("*.parquet")))

    def rows(self) -> int:
        """All that the table shows; fails where a file of it is missing."""
        return int(self.table.scan().to_arrow().num_rows)

    def lose_answers(self) -> None:
        """Commits take effect, and their answers are lost."""

        def commit(request: CommitRequest) -> CommitResult:
            self.metastore.inner.commit(request)
            raise OutcomeUnknown("The answer was lost.")

        self.metastore.on_commit = commit


def _write_file(store: ObjectStore, world: World, attempt: CommitAttempt, prefix: str = "") -> tuple[DataFile, ...]:
    info = world.table.info
    writer = TableWriter(store, info.schema, TableOptions(info.options), attempt.attempt_id, name_prefix=prefix)
    writer.write(ROWS, None)
    return tuple(writer.finish())


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    async def open_store() -> Store:
        return MemoryStore(SystemClock())

    metastore = in_process(open_store, lambda store: UseCases(store, f"file://{tmp_path}/warehouse/"))
    yield World(metastore, tmp_path)
    metastore.close()


def refuse(request: CommitRequest) -> CommitResult:
    raise CommitConflict("Another came first.")


def test_committed_files_stay_and_what_the_commit_does_not_name_is_deleted(world: World) -> None:
    with world.open() as attempt:
        request, store = world.write(attempt)
        _write_file(store, world, attempt, "stray-")
        assert world.files() == 2
        answer = attempt.commit(request)
        attempt.delete_unnamed({file.path for file in request.changes[0].add_files})
    assert (answer.attempt_id, attempt.was_applied_before) == (attempt.attempt_id, False)
    assert (world.files(), world.rows(), world.metastore.abandoned) == (1, 1, [])


def test_of_a_commit_that_was_applied_before_the_second_files_are_deleted(world: World) -> None:
    for number in range(2):
        with world.open() as attempt:
            request, _ = world.write(attempt)
            attempt.commit(request)
            attempt.delete_unnamed({file.path for file in request.changes[0].add_files})
        assert attempt.was_applied_before is bool(number)
    assert (world.files(), world.rows()) == (1, 1)


def test_a_refused_commit_is_aborted_first_and_deleted_afterwards(world: World) -> None:
    world.metastore.on_commit = refuse
    present: list[int] = []

    def abandon(attempt_id: str) -> None:
        present.append(world.files())
        world.metastore.inner.abandon_attempt(attempt_id)

    world.metastore.on_abandon = abandon
    with pytest.raises(CommitConflict), world.open() as attempt:
        attempt.commit(world.write(attempt)[0])
    assert (present, world.files()) == ([1], 0)
    with pytest.raises(LakelogError):
        world.metastore.inner.stage_attempt([world.table.uuid], "w", attempt_id=attempt.attempt_id)


def test_a_refused_commit_may_be_sent_again(world: World) -> None:
    with world.open() as attempt:
        request, _ = world.write(attempt)
        world.metastore.on_commit = refuse
        with pytest.raises(CommitConflict):
            attempt.commit(request)
        world.metastore.on_commit = world.metastore.inner.commit
        attempt.commit(request)
    assert (world.files(), world.rows()) == (1, 1)


@pytest.mark.parametrize("error", [OutcomeUnknown("The answer was lost."), Killed()])
def test_an_unknown_outcome_aborts_and_deletes_nothing(world: World, error: BaseException) -> None:
    def commit(request: CommitRequest) -> CommitResult:
        world.metastore.inner.commit(request)
        raise error

    world.metastore.on_commit = commit
    with pytest.raises(type(error)), world.open() as attempt:
        attempt.commit(world.write(attempt)[0])
    attempt.abandon()
    assert (world.files(), world.rows(), world.metastore.abandoned) == (1, 1, [])


@pytest.mark.parametrize("error", [RuntimeError("boom"), Killed()])
def test_an_error_before_the_commit_aborts_and_deletes(world: World, error: BaseException) -> None:
    def write_and_fail(attempt: CommitAttempt) -> None:
        world.write(attempt)
        raise error

    with pytest.raises(type(error)), world.open() as attempt:
        write_and_fail(attempt)
    attempt.abandon()
    assert (world.files(), world.metastore.abandoned) == (0, [attempt.attempt_id])


def test_where_the_abort_fails_nothing_is_deleted(world: World) -> None:
    def abandon(attempt_id: str) -> None:
        raise OutcomeUnknown("The metastore is gone.")

    world.metastore.on_abandon = abandon
    with world.open() as attempt:
        world.write(attempt)
    assert world.files() == 1


def _commit_with_a_late_request(world: World) -> None:
    """A commit is refused in doubt, given up, and takes effect while it is being given up."""
    sent: list[CommitRequest] = []

    def commit(request: CommitRequest) -> CommitResult:
        sent.append(request)
        raise CommitConflict("The first try is still on its way.")

    def abandon(attempt_id: str) -> None:
        world.metastore.inner.commit(sent[0])
        world.metastore.inner.abandon_attempt(attempt_id)

    world.metastore.on_commit, world.metastore.on_abandon = commit, abandon
    with pytest.raises(CommitConflict), world.open() as attempt:
        attempt.commit(world.write(attempt)[0])


def test_a_request_that_arrives_before_the_abort_keeps_its_files(world: World) -> None:
    _commit_with_a_late_request(world)
    assert (world.files(), world.rows()) == (1, 1)


def test_control_deleting_before_the_abort_loses_a_committed_file(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    abandon = CommitAttempt.abandon

    def delete_first(attempt: CommitAttempt) -> None:
        attempt._delete_files()
        abandon(attempt)

    monkeypatch.setattr(CommitAttempt, "abandon", delete_first)
    _commit_with_a_late_request(world)
    with pytest.raises(LakelogError, match="missing"):
        world.rows()


def test_control_deleting_on_an_unknown_outcome_loses_a_committed_file(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.lose_answers()
    monkeypatch.setattr(OutcomeUnknown, "effect", Effect.NONE)
    monkeypatch.setattr(CommitAttempt, "abandon", CommitAttempt._delete_files)
    with pytest.raises(OutcomeUnknown), world.open() as attempt:
        attempt.commit(world.write(attempt)[0])
    with pytest.raises(LakelogError, match="missing"):
        world.rows()
