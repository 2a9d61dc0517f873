"""What the SDK's writes return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class WriteResult:
    """What became of a write.

    Args:
        snapshot_id: The snapshot it made; None: there was nothing to commit.
        already_applied: Whether the writer had committed under this identifier before; the snapshot is then that one.
    """

    snapshot_id: int | None
    already_applied: bool


@dataclass(frozen=True)
class TransactionResult:
    """What became of a transaction.

    Args:
        snapshot_ids: The snapshot that each table got, by the table's full name; None: there was nothing to commit.
        already_applied: Whether the writer had committed under this identifier before.
    """

    snapshot_ids: Mapping[str, int | None]
    already_applied: bool
