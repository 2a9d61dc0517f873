"""The batches of subscriptions, and the positions of their readers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

NO_SNAPSHOT: Final = 0
"""Stands for a snapshot's id: the rows were shown before their commit."""


@dataclass(frozen=True)
class StreamBatch:
    """The rows that one snapshot changed, of all buckets, or some of these rows if they are many.

    It can also hold some of the rows that existed when the subscription began.

    Attributes:
        data: The rows; in a table with a primary key the last column, `_row_kind`, says what happened to each.
        snapshot_id: The snapshot that changed them, or whose state they are; 0: no snapshot has them yet (`is_early`).
        table: `database.table`.
    """

    data: pa.RecordBatch
    snapshot_id: int
    table: str

    @property
    def is_early(self) -> bool:
        """Whether the rows came before their commit, or are taken back because the commit never comes.

        This happens only with `log.consistency` = `eventual`. Such rows belong to no position: a reader that restarts
        at a position gets them again.
        """
        return self.snapshot_id == NO_SNAPSHOT


@dataclass(frozen=True)
class SnapshotChanges:
    """All that a subscription shows of one snapshot of a table.

    Attributes:
        table: `database.table`.
        snapshot_id: The snapshot; 0: rows that came before their commit (`StreamBatch.is_early`).
        batches: The rows of all its buckets in their order; at least one batch.
    """

    table: str
    snapshot_id: int
    batches: Sequence[pa.RecordBatch]

    @property
    def data(self) -> pa.Table:
        """The rows as one table, without a copy."""
        return pa.Table.from_batches(self.batches)


@dataclass(frozen=True)
class Position:
    """The position of a reader in a table: everything up to and including this snapshot is done.

    Attributes:
        snapshot_id: The snapshot; 0: nothing is done, and the first snapshot comes next.
        snapshot_uuid: Its uuid; empty if there is none.
    """

    snapshot_id: int
    snapshot_uuid: str = ""


@dataclass(frozen=True)
class Progress:
    """An item from a source of changes: a batch, the reader's position when it is done, or both.

    Args:
        batch: Rows; None: only the position moves.
        done: The reader's position when all of it is done, by table (`database.table`), for tables in which it
            advances; None: still inside a commit.
        skipped: Which of the snapshots that `done` passes overwrote rows and show nothing, by table; rising.
    """

    batch: StreamBatch | None
    done: Mapping[str, Position] | None
    skipped: Mapping[str, Sequence[int]] = field(default_factory=dict)


IDLE: Final = Progress(None, None)
"""Nothing has come; only from a follower that does not wait."""
