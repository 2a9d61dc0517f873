"""The results of the SDK's writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class WriteResult:
    """The result of a write.

    Args:
        snapshot_id: The snapshot of its commit; None: there was nothing to commit.
        already_applied: Whether the writer had committed under this identifier before, in that snapshot.
    """

    snapshot_id: int | None
    already_applied: bool


@dataclass(frozen=True)
class UpdateResult(WriteResult):
    """The result of an update.

    Args:
        updated_rows: How many rows got new values; 0 if it had been applied before.
    """

    updated_rows: int


@dataclass(frozen=True)
class MergeResult(WriteResult):
    """The result of a merge; all counts are 0 if it had been applied before.

    Args:
        updated_rows: How many rows got new values.
        deleted_rows: How many rows were deleted.
        inserted_rows: How many rows are new.
        upserted_rows: How many rows were written without reading which of their keys had a row: of a merge that
            replaces the row of each key or adds one.
    """

    updated_rows: int = 0
    deleted_rows: int = 0
    inserted_rows: int = 0
    upserted_rows: int = 0


@dataclass(frozen=True)
class TransactionResult:
    """The result of a transaction.

    Args:
        snapshot_ids: The snapshot of each table, by the table's full name; None: there was nothing to commit.
        already_applied: Whether the writer had committed under this identifier before.
    """

    snapshot_ids: Mapping[str, int | None]
    already_applied: bool
