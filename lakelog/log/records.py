"""What stands in the log: records in columns, whose they are, and how far a table's history has been published."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Kinds = npt.NDArray[np.int8]
"""A code of `lakelog.format.types.rowkind.RowKind` for each record."""

SNAPSHOT_HEADER: Final = "snapshot"
"""Id of the snapshot that a record is of, as decimal digits."""

UUID_HEADER: Final = "uuid"
"""That snapshot's uuid, 32 hexadecimal digits."""

ATTEMPT_HEADER: Final = "attempt"
"""Of records that were sent before their commit (`eventual`), instead of the snapshot: the attempt's id."""

REPLACES_HEADER: Final = "replaces"
"""Of records of `eventual` tables that were sent behind their commit: the attempt of that commit, whose rows may stand
in the topic already. Without it nobody could tell that they are the same rows: their indexes are others."""

INDEX_HEADER: Final = "idx"
"""A record's place among all rows of its snapshot's log, from 0, as decimal digits; of an update with its old row, the
place of the new row."""

KIND_HEADER: Final = "kind"
"""`+I`, `-U`, `+U` or `-D`."""

SEQUENCE_HEADER: Final = "sequence"
"""Where the table has a `sequence.field`: its value as the format `json` writes it, of several columns as a JSON array.

A tombstone has no other place for it."""


@dataclass(frozen=True)
class EncodedRecords:
    """Records of one partition in their order, ready to be sent. Columns of the same length.

    Args:
        partition: Of the topic; equal to the bucket where the table has buckets.
        keys: Binary, no NULL; None: records have no key, as those of append tables.
        values: Binary; NULL is a tombstone.
        kinds: What each record does.
        indexes: int64, strictly rising: see `INDEX_HEADER`.
        sequences: Binary; see `SEQUENCE_HEADER`; None: the table has no sequence field.
    """

    partition: int
    keys: pa.Array | None
    values: pa.Array
    kinds: Kinds
    indexes: npt.NDArray[np.int64]
    sequences: pa.Array | None = None

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True)
class LogSnapshot:
    """The snapshot that records are of.

    Args:
        snapshot_id: Its number.
        snapshot_uuid: Its uuid.
        replaces: `REPLACES_HEADER`; empty: nothing was sent before. It is written, and never read by us.
    """

    snapshot_id: int
    snapshot_uuid: str
    replaces: str = ""


@dataclass(frozen=True)
class LogPosition:
    """How far a table's history has been published.

    Args:
        snapshot_id: All snapshots before this one are in the log, or have nothing to show there. 0: none was published.
        snapshot_uuid: Its uuid; empty for snapshot 0.
        next_index: Rows of this snapshot's log before this index (`INDEX_HEADER`) are in the log, the others are not;
            None: all are.
    """

    snapshot_id: int
    snapshot_uuid: str
    next_index: int | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the snapshot is in the log as a whole."""
        return self.next_index is None


NOTHING_PUBLISHED: Final = LogPosition(0, "")


@dataclass(frozen=True)
class FetchedRecords:
    """Records as they were read, in columns of the same length; of one partition in rising offset.

    Args:
        partitions: int32.
        offsets: int64.
        timestamps_ms: int64, milliseconds since the epoch, as the broker appended them.
        keys: Binary; NULL where a record has none.
        values: Binary; NULL is a tombstone.
        kinds: Binary; the header `kind`; NULL where there is none, as of others' records.
        snapshot_ids: int64; the header `snapshot`; NULL where there is none.
        uuids: Binary; the header `uuid`.
        attempts: Binary; the header `attempt`.
        indexes: int64; the header `idx`.
        sequences: Binary; the header `sequence`.
    """

    partitions: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]
    timestamps_ms: npt.NDArray[np.int64]
    keys: pa.Array
    values: pa.Array
    kinds: pa.Array
    snapshot_ids: pa.Array
    uuids: pa.Array
    attempts: pa.Array
    indexes: pa.Array
    sequences: pa.Array

    def __len__(self) -> int:
        return len(self.offsets)


@dataclass(frozen=True)
class TailRecord:
    """The last record of a partition that readers of committed records see.

    Args:
        partition: The partition.
        offset: The record's.
        snapshot: Which it is of; None: it carries no header of ours.
        next_index: Behind its own `idx`.
    """

    partition: int
    offset: int
    snapshot: LogSnapshot | None
    next_index: int = 0


@dataclass(frozen=True)
class TopicSpec:
    """What a topic is to be like.

    Args:
        name: 1 to 249 of `[A-Za-z0-9._-]`.
        partitions: At least 1.
        replication: Brokers that hold each partition.
        retention_ms: How long records are kept; None: for ever.
        compact: Keep the last record of each key instead (changelog mode `upsert`), besides the retention.
        max_record_bytes: The largest record, key and headers included.
    """

    name: str
    partitions: int
    replication: int = 1
    retention_ms: int | None = None
    compact: bool = False
    max_record_bytes: int = 1 << 20


@dataclass(frozen=True)
class TopicState:
    """What a topic is like.

    Args:
        name: The topic.
        topic_id: The broker's own id of it: another one after the topic was deleted and made again.
        partitions: How many it has.
        replication: Of the partition that has the fewest replicas.
        settings: The topic's settings by their Kafka names, defaults included.
    """

    name: str
    topic_id: str
    partitions: int
    replication: int
    settings: dict[str, str] = field(default_factory=dict)
