"""What the writes of one catalog share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from lakelog.context import Context
from lakelog.errors import HistoryDiverged
from lakelog.format.commit.request import Change, ChangeResult
from lakelog.writes.attempts_ahead import AttemptsAhead
from lakelog.writes.uncommitted_sending import UncommittedSenders


class WriteState:
    """What the writes of one catalog share. Threads may share it.

    It pickles with the epochs, so a copy is the same instance of each writer; attempts and connections are not
    copied.

    Args:
        context: The catalog's context.
        epochs: The epochs of the writer names that the catalog has taken.
    """

    def __init__(self, context: Context, epochs: Mapping[str, int] | None = None) -> None:
        self._context = context
        self._epochs = dict(epochs or {})
        self._last: dict[tuple[str, str], tuple[int, str]] = {}
        self.attempts_ahead: Final = AttemptsAhead(context.metastore, context.clock)
        self.uncommitted_senders: Final = UncommittedSenders(context.metastore, context.open_log, context.clock)

    def __reduce__(self) -> tuple[object, ...]:
        return (WriteState, (self._context, dict(self._epochs)))

    def register_writer(self, writer: str) -> int:
        """Registers a writer's name in the metastore; returns the epoch that all later commits under it carry."""
        epoch = self._context.metastore.register_writer(writer)
        self._epochs[writer] = epoch
        for key in [key for key in list(self._last) if key[0] == writer]:
            self._last.pop(key, None)
        return epoch

    def epoch_of(self, writer: str) -> int:
        """The epoch of commits by `writer`; 0 if its name was not registered."""
        return self._epochs.get(writer, 0)

    def note_commit(self, writer: str, results: Sequence[ChangeResult]) -> None:
        """Remembers the last snapshot that a registered writer has made in each table."""
        if not self.epoch_of(writer):
            return
        for result in results:
            if result.snapshot_id is not None:
                key = (writer, result.table_uuid)
                self._last[key] = max(self._last.get(key, (0, "")), (result.snapshot_id, result.snapshot_uuid))

    def rest_on_last(self, writer: str, change: Change) -> Change:
        """Lets a change of a registered writer rest on its last snapshot.

        So a program that was acknowledged commits which the database has lost since, for instance by a restore, does
        not go on with the next number in silence: the metastore refuses it. A change that rests on a snapshot already,
        by its changelog, is checked here.

        Raises:
            HistoryDiverged: The change rests on a history without the writer's last snapshot.
        """
        known = self._last.get((writer, change.table_uuid))
        if known is None:
            return change
        if change.base_snapshot_id is None:
            return replace(change, base_snapshot_id=known[0], base_snapshot_uuid=known[1])
        base = (change.base_snapshot_id, change.base_snapshot_uuid or known[1])
        if base[0] > known[0]:
            page = self._context.metastore.list_snapshots(
                change.table_uuid, after=known[0] - 1, until=known[0], limit=1
            )
            # Of an expired snapshot nothing is known.
            base = next(((each.snapshot_id, each.snapshot_uuid) for each in page.snapshots), known)
        if base != known:
            raise HistoryDiverged(
                f"Writer '{writer}' has committed snapshot {known[0]} ({known[1]}), but the table's history has it no "
                "more: the metastore was restored to an earlier state. Read catalog.last_identifier, register the "
                "writer's name again, and write what is lost.",
                reason="SNAPSHOT_UNKNOWN",
                metadata={"writer": writer, "table_uuid": change.table_uuid, "snapshot_id": str(known[0])},
            )
        return change

    def close(self) -> None:
        """Ends the connections to brokers; does not wait. Idempotent."""
        self.uncommitted_senders.close()
