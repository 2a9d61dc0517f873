"""How far readers with a name have read: a part of `Metastore`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from lakelog.format.retention.consumer import Consumer, ConsumerPosition


class Consumers(Protocol):
    """Consumers and their positions."""

    def open_consumer(self, consumer_id: str, table_uuids: Sequence[str], holder: str) -> list[Consumer]:
        """Begins to read as a consumer, in the order of the tables; fences any earlier reader of the same name.

        An expired one continues from its position. It belongs to the principal that opens it first.

        Raises:
            PermissionDenied: It belongs to another principal.
        """
        ...

    def advance_consumer(self, consumer_id: str, positions: Sequence[ConsumerPosition]) -> None:
        """Moves a consumer's positions, all or none.

        Raises:
            Fenced: Another reader has opened it since, or it was reset or deleted.
            PermissionDenied: It belongs to another principal.
            InvalidArgument: A position lies before the one that was reached, or beyond the newest snapshot.
            HistoryDiverged: The table's history has another snapshot of this number.
        """
        ...

    def renew_consumer(self, consumer_id: str, epochs: Mapping[str, int], holder: str) -> None:
        """Reports that a consumer's reader is there, or, with an empty holder, that it has closed.

        Args:
            consumer_id: The consumer.
            epochs: The epochs from opening it, by table uuid.
            holder: The reader.

        Raises:
            Fenced: Another reader has opened it since, or it was reset or deleted.
            PermissionDenied: It belongs to another principal.
        """
        ...

    def list_consumers(self, table_uuid: str) -> list[Consumer]:
        """A table's consumers by id, expired ones included."""
        ...

    def reset_consumer(self, table_uuid: str, consumer_id: str, snapshot_id: int) -> None:
        """Sets a consumer's position, back or forth.

        If an admin calls this, the principal that opens the consumer next owns it.

        Raises:
            PermissionDenied: It belongs to another principal.
            NotFound: The table has none of this id.
            InvalidArgument: The position is not one that the table has.
        """
        ...

    def delete_consumer(self, table_uuid: str, consumer_id: str) -> None:
        """Forgets a consumer.

        Raises:
            PermissionDenied: It belongs to another principal.
            NotFound: The table has none of this id.
        """
        ...
