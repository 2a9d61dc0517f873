"""What the writes of one catalog have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakelog.context import Context
from lakelog.writes.attempts_ahead import AttemptsAhead
from lakelog.writes.uncommitted_sending import UncommittedSenders


class WriteState:
    """What the writes of one catalog share. Threads may share it.

    It pickles with the epochs, so that a copy is the same instance of each writer; attempts and connections it has of
    its own.

    Args:
        context: Of the catalog.
        epochs: Of the writers whose names the catalog has taken.
    """

    def __init__(self, context: Context, epochs: Mapping[str, int] | None = None) -> None:
        self._context = context
        self._epochs = dict(epochs or {})
        self.attempts_ahead: Final = AttemptsAhead(context.metastore, context.clock)
        self.uncommitted_senders: Final = UncommittedSenders(context.metastore, context.open_log, context.clock)

    def __reduce__(self) -> tuple[object, ...]:
        return (WriteState, (self._context, dict(self._epochs)))

    def register_writer(self, writer: str) -> int:
        """Takes a writer's name in the metastore, and returns the epoch that all later commits under it carry."""
        epoch = self._context.metastore.register_writer(writer)
        self._epochs[writer] = epoch
        return epoch

    def epoch_of(self, writer: str) -> int:
        """The epoch under which commits by `writer` go; 0 when its name was not taken."""
        return self._epochs.get(writer, 0)

    def close(self) -> None:
        """Ends the connections to brokers; does not wait. Idempotent."""
        self.uncommitted_senders.close()
