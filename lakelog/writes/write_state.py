"""What the writes of one catalog share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakelog.context import Context
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
        self.attempts_ahead: Final = AttemptsAhead(context.metastore, context.clock)
        self.uncommitted_senders: Final = UncommittedSenders(context.metastore, context.open_log, context.clock)

    def __reduce__(self) -> tuple[object, ...]:
        return (WriteState, (self._context, dict(self._epochs)))

    def register_writer(self, writer: str) -> int:
        """Registers a writer's name in the metastore; returns the epoch that all later commits under it carry."""
        epoch = self._context.metastore.register_writer(writer)
        self._epochs[writer] = epoch
        return epoch

    def epoch_of(self, writer: str) -> int:
        """The epoch of commits by `writer`; 0 if its name was not registered."""
        return self._epochs.get(writer, 0)

    def close(self) -> None:
        """Ends the connections to brokers; does not wait. Idempotent."""
        self.uncommitted_senders.close()
