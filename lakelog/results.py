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
        updated_rows: How many rows got new values; None: `already_applied`, and the first answer said it.
    """

    updated_rows: int | None


@dataclass(frozen=True)
class MergeResult(WriteResult):
    """The result of a merge. All counts are None if it was `already_applied`: the first answer said them.

    Args:
        updated_rows: How many rows got new values.
        deleted_rows: How many rows were deleted.
        inserted_rows: How many rows are new.
        upserted_rows: How many rows were written without reading which of their keys had a row: of a merge that
            replaces the row of each key or adds one.
    """

    updated_rows: int | None
    deleted_rows: int | None
    inserted_rows: int | None
    upserted_rows: int | None


@dataclass(frozen=True)
class DeleteResult(WriteResult):
    """The result of a deletion by a condition.

    Args:
        deleted_rows: How many rows it deleted; None: `already_applied`, and the first answer said it.
    """

    deleted_rows: int | None


@dataclass(frozen=True)
class TransactionResult:
    """The result of a transaction.

    Args:
        snapshot_ids: The snapshot of each table, by the table's full name; None: there was nothing to commit.
        already_applied: Whether the writer had committed under this identifier before.
    """

    snapshot_ids: Mapping[str, int | None]
    already_applied: bool
