"""What subscriptions hand out, and where their readers are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

NO_SNAPSHOT: Final = 0
"""In place of a snapshot's id: the rows were told before their commit."""


@dataclass(frozen=True)
class StreamBatch:
    """The rows that one snapshot changed, all buckets together, or some of them where they are many.

    Or some of the rows that were there when the subscription began.

    Attributes:
        data: The rows; of a table with a primary key the last column, `_row_kind`, says what became of each.
        snapshot_id: The snapshot that changed them, or whose state they are; 0: no snapshot has them yet (`is_early`).
        table: `database.table`.
    """

    data: pa.RecordBatch
    snapshot_id: int
    table: str

    @property
    def is_early(self) -> bool:
        """Whether the rows came before their commit, or are taken back because it never comes.

        This happens with `log.consistency` = `eventual` only. Such rows belong to no position: a reader that begins
        again at a position gets them again.
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
        """The rows as one table; nothing is copied."""
        return pa.Table.from_batches(self.batches)


@dataclass(frozen=True)
class Position:
    """Where a reader of a table is: all up to and with this snapshot is done.

    Attributes:
        snapshot_id: 0: nothing is done, and what comes next is the first snapshot.
        snapshot_uuid: Its uuid; empty where there is none.
    """

    snapshot_id: int
    snapshot_uuid: str = ""


@dataclass(frozen=True)
class Progress:
    """What a source of changes hands out: a batch, how far its reader is when it is done, or both.

    Args:
        batch: Rows; None: only the position moves.
        done: Where the reader is when it is done with all of it, by table (`database.table`), of those in which it gets
            ahead; None: still inside of a commit.
        skipped: Which of the snapshots that `done` moves behind overwrote rows and show nothing, by table; rising.
    """

    batch: StreamBatch | None
    done: Mapping[str, Position] | None
    skipped: Mapping[str, Sequence[int]] = field(default_factory=dict)
