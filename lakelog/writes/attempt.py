"""The life cycle of a commit attempt: when its files are written, committed and deleted (reliability C2, C4, C8).

    opened -> files written -> commit sent -> committed:           what the commit does not name may be deleted
                                           -> applied before:      all files of this attempt are deleted
                                           -> certainly refused:   open again: sent again, or aborted, then deleted
                                           -> outcome unknown:     nothing is aborted, nothing is deleted
                            -> given up:   aborted, then deleted

Every program that writes files for a commit goes through `CommitAttempt`: transactions of the SDK, writes of Spark and
jobs of the compactor. So the rules stand here only.

Objectives, which conflict; the first one wins:

1. No file is deleted that a snapshot names, or that a snapshot may name later.
2. A write that fails leaves no files. The orphan collector is the second line of defence, and it comes hours later.
3. Cleaning up never hides the error of the write, and never makes a commit fail that was applied.

Invariants:

1. An attempt is open in the metastore before its first file is written. Each file lies in `data/<attempt id>`.
2. A file is deleted only after the metastore decided that no commit can take it: it aborted the attempt, it answered
   with the result of another attempt and aborted this one, or it committed the attempt without that file.
3. From the moment a request leaves until a definite answer arrives, the attempt may be committed. An error that proves
   nothing (`OutcomeUnknown`, and any error that is not lakelog's, such as an interrupt) leaves it in that state.

Rules that keep them:

1. Abort first, delete afterwards. Where the abort fails, nothing is deleted: a request that is still on its way could
   commit the attempt. The collector, or the next holder of the job, aborts the attempt and deletes its files.
2. `send` marks the attempt as sent before the request leaves. Only an answer, or an error whose effect is NONE, changes
   that. Such a refusal makes the attempt open again, so that a commit may be sent again on a newer base.
3. An answer that names another attempt means that the commit had been applied before. The metastore aborts the attempt
   that repeats a commit in the same transaction, so that its files can be deleted without a further call.
4. The `with` block gives up an attempt that is still open at its end, by an error or without one.
5. What cannot be deleted is left to the collector, which knows the attempt.
"""

from __future__ import annotations

import contextlib
import enum
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final, Self, TypeVar

from lakelog.client.cancellation import check_cancelled
from lakelog.client.connection.retry import RetryPolicy, call_repeatedly
from lakelog.client.metastore.metastore import Metastore
from lakelog.clock import Clock
from lakelog.errors import Effect, LakelogError
from lakelog.format.commit.request import Change, CommitRequest, CommitResult
from lakelog.format.tables.table import TableInfo
from lakelog.storage.objects.store import ObjectStore
from lakelog.tracing import spans
from lakelog.tracing.request_ids import current_or_new, request_id
from lakelog.writes.attempts_ahead import AttemptsAhead, CommitPurpose

log = logging.getLogger(__name__)

T = TypeVar("T")

_MAX_PROPERTIES: Final = 128
_MAX_PROPERTY_BYTES: Final = 64 * 1024
"""What the metastore takes; see docs/limits.md."""

_COMMIT_TOTAL_S: Final = 30.0
"""How long a commit with an unknown outcome is repeated, in addition to the retries of the metastore's client."""


class _State(enum.Enum):
    OPEN = "open"
    """Nothing was sent, or each request was certainly refused."""
    SENT = "sent"
    """It may be committed, now or later."""
    COMMITTED = "committed"
    """Its commit was applied."""
    APPLIED_BEFORE = "applied before"
    """Another attempt had applied the same commit; this one is aborted."""
    ABANDONED = "abandoned"
    """It was given up before a commit of it could take effect."""


@dataclass(frozen=True)
class Repeating:
    """How a commit with an unknown outcome is repeated: what the waits between tries need.

    Args:
        clock: For the time and for waiting.
        rng: Random in [0, 1).
    """

    clock: Clock
    rng: Callable[[], float]


class CommitAttempt:
    """One attempt to commit, and its files until it is certain what becomes of them. For one thread.

    An attempt for which other processes write files, such as Spark's tasks, is opened once and represented by its id:
    the process that commits makes a `CommitAttempt` of that id.

    Args:
        metastore: Opens, commits and aborts attempts.
        writer: The writer name that is stored with the attempt when it is opened.
        attempt_id: The id of an open attempt; empty: `join` or `take_ahead` opens one.
        identifier: The writer's number of the commit, which is stored with it; None: not known, or the name is used
            only once.
        epoch: With `identifier`: the writer's epoch.
    """

    def __init__(
        self,
        metastore: Metastore,
        writer: str,
        attempt_id: str = "",
        *,
        identifier: int | None = None,
        epoch: int = 0,
    ) -> None:
        self._metastore = metastore
        self._purpose = CommitPurpose(writer, identifier, epoch)
        self._state = _State.OPEN
        self._request_id = current_or_new()
        self._names: dict[str, str] = {}
        self._stores: list[tuple[ObjectStore, Callable[[], Sequence[str]] | None]] = []
        self.attempt_id = attempt_id
        """32 hexadecimal digits; empty until the first table joins."""

    @property
    def is_open(self) -> bool:
        """Whether certainly no commit has taken it, and it was not aborted."""
        return self._state is _State.OPEN

    @property
    def was_applied_before(self) -> bool:
        """Whether another attempt had applied its commit."""
        return self._state is _State.APPLIED_BEFORE

    def join(self, table_uuid: str) -> TableInfo:
        """Opens the attempt for a table, or lets a further table join it; returns the table as it is now.

        Raises:
            NotFound: The table was dropped.
        """
        purpose = self._purpose
        with request_id(self._request_id):
            staged = self._metastore.stage_attempt(
                [table_uuid],
                purpose.writer,
                attempt_id=self.attempt_id,
                identifier=None if self.attempt_id else purpose.identifier,
                epoch=purpose.epoch,
            )
        self.attempt_id = staged.attempt_id
        (info,) = staged.tables
        self._names[table_uuid] = str(info.name)
        return info

    def take_ahead(self, ahead: AttemptsAhead, table_uuid: str) -> TableInfo:
        """Uses an attempt that was opened ahead for a table; returns the table as it was then.

        Raises:
            NotFound: The table was dropped.
        """
        assert not self.attempt_id, "an attempt that is open lets further tables join"
        with request_id(self._request_id):
            opened = ahead.take(table_uuid, self._purpose)
        self.attempt_id = opened.attempt_id
        self._names[table_uuid] = str(opened.info.name)
        return opened.info

    def add_store(self, store: ObjectStore, paths: Callable[[], Sequence[str]] | None = None) -> ObjectStore:
        """Notes that files of the attempt are written to a table's store, and returns the store.

        Args:
            store: The table's.
            paths: Lists all files written there so far; None: all files in the attempt's folder.
        """
        self._stores.append((store, paths))
        return store

    def commit(self, request: CommitRequest, repeating: Repeating | None = None) -> CommitResult:
        """Commits the attempt by a request, and deletes its files where another attempt had applied it. Blocks.

        Args:
            request: Names this attempt.
            repeating: Repeat the request until its outcome is known; None: only the retries of the metastore's client.

        Raises:
            OutcomeUnknown: It may have been committed; its files stay.
            LakelogError: It was refused; the attempt is still open, and its files are there.
        """
        assert request.attempt_id == self.attempt_id, "the request names another attempt"
        with spans.root_span("commit", writer=request.writer, identifier=request.identifier):
            answer = self._commit(_in_trace(request), repeating)
        self._log(request, answer)
        if answer.attempt_id != self.attempt_id:
            self._state = _State.APPLIED_BEFORE
            self._delete_files()
        return answer

    def _commit(self, request: CommitRequest, repeating: Repeating | None) -> CommitResult:
        def call() -> CommitResult:
            if repeating is None:
                return self._metastore.commit(request)
            return call_repeatedly(
                lambda _: self._metastore.commit(request),
                policy=RetryPolicy(),
                total_s=_COMMIT_TOTAL_S,
                clock=repeating.clock,
                rng=repeating.rng,
            )

        return self.send(call)

    def _log(self, request: CommitRequest, answer: CommitResult) -> None:
        if log.isEnabledFor(logging.DEBUG):
            for result in answer.results:
                named = self._names.get(result.table_uuid, result.table_uuid)
                log.debug(
                    "committed snapshot %s of %s as %s of %s, request %s",
                    result.snapshot_id,
                    named,
                    request.identifier,
                    request.writer,
                    self._request_id,
                )

    def send(self, call: Callable[[], T]) -> T:
        """Makes the call that commits the attempt, by any kind of request, and returns its answer.

        Raises:
            OutcomeUnknown: As `commit`.
            LakelogError: As `commit`.
            CallCancelled: The call was cancelled, and nothing was sent.
        """
        assert self.is_open, f"the attempt is {self._state.value}"
        # The last moment: once sent, a commit goes on until its outcome is known.
        check_cancelled()
        # SUBTLE: before the call, so that an interrupt in the middle of it counts as an unknown outcome.
        self._state = _State.SENT
        try:
            with request_id(self._request_id):
                answer = call()
        except LakelogError as error:
            if error.effect is Effect.NONE:
                self._state = _State.OPEN
            raise
        self._state = _State.COMMITTED
        return answer

    def abandon(self) -> None:
        """Aborts the attempt, then deletes its files; idempotent, and never raises lakelog errors.

        Does nothing to an attempt that is committed, or may be.
        """
        if not self.is_open:
            return
        self._state = _State.ABANDONED
        if not self.attempt_id:
            return
        try:
            with request_id(self._request_id):
                self._metastore.abandon_attempt(self.attempt_id)
        except LakelogError:
            # Still open, or committed after all: this attempt must not delete its files.
            return
        self._delete_files()

    def delete_unnamed(self, named: Collection[str]) -> None:
        """Deletes what a committed attempt left in its folder besides the files that its commit names."""
        if self._is_committed():
            for store, _ in self._stores:
                delete_attempt_files(store, self.attempt_id, named)

    def delete_dropped(self, store: ObjectStore, paths: Sequence[str]) -> None:
        """Deletes files of a committed attempt that were part of its request, but not of what was committed."""
        if self._is_committed():
            with contextlib.suppress(LakelogError):
                store.delete_many(paths)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.abandon()

    def _is_committed(self) -> bool:
        """Whether a commit's files need cleaning up; if it was applied before, all of them are deleted."""
        assert self._state in (_State.COMMITTED, _State.APPLIED_BEFORE), f"the attempt is {self._state.value}"
        return self._state is _State.COMMITTED

    def _delete_files(self) -> None:
        for store, paths in self._stores:
            if paths is None:
                delete_attempt_files(store, self.attempt_id)
            else:
                with contextlib.suppress(LakelogError):
                    store.delete_many(paths())


def _in_trace(request: CommitRequest) -> CommitRequest:
    """A request whose snapshots name their trace: publishers see only these.

    A commit that may have no more properties goes without: it must not be refused because of its trace.
    """
    parent = spans.traceparent()
    if not parent:
        return request
    return replace(request, changes=tuple(_with_trace(change, parent) for change in request.changes))


def _with_trace(change: Change, parent: str) -> Change:
    properties = {**change.properties, spans.TRACE_PROPERTY: parent}
    size_bytes = sum(len(key.encode()) + len(value.encode()) for key, value in properties.items())
    if len(properties) > _MAX_PROPERTIES or size_bytes > _MAX_PROPERTY_BYTES:
        return change
    return replace(change, properties=properties)


def delete_attempt_files(store: ObjectStore, attempt_id: str, kept: Collection[str] = ()) -> int:
    """Deletes files of an attempt that did not commit them; returns how many. Never raises lakelog errors.

    Args:
        store: A table's store.
        attempt_id: An attempt that no commit can take any more.
        kept: Paths that its commit names.
    """
    with contextlib.suppress(LakelogError):
        paths = [each.path for each in store.list_objects(f"data/{attempt_id}") if each.path not in kept]
        if paths:
            store.delete_many(paths)
        return len(paths)
    return 0
