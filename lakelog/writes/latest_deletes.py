"""Deletes that beat the rows that are there: each takes the sequence value of its row (semantics 1.3).

Of rows with one sequence value the later arrival wins, so such a delete removes its row and nothing newer. It holds
only while the row is the one that was found: the commit guards the buckets since the snapshot that was looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from lakelog.errors import CommitConflict, SnapshotExpired
from lakelog.format.commit.guards import CHANGED_SINCE, GUARD_EXPIRED
from lakelog.format.keys.ordering import single_array
from lakelog.format.tables.table import TableInfo
from lakelog.format.types.rowkind import ROW_KIND_COLUMN, is_retract
from lakelog.options.declared.tables import SEQUENCE_FIELD
from lakelog.options.values import TableOptions
from lakelog.reads.state_lookup import StateLookup
from lakelog.storage.lookup.caches import Caches
from lakelog.storage.objects.store import ObjectStore

if TYPE_CHECKING:
    from lakelog.client.metastore.metastore import Metastore

MAX_TRIES: Final = 20
"""Tries against others that change the same buckets, as for changelogs by lookup."""


class LatestDeletes:
    """Finds what deletes some rows of a table with `sequence.field`, as they were at its newest snapshot.

    Args:
        metastore: Tells which files the state consists of.
        store: Where they are.
        info: The table, with the snapshot that is looked at.
        caches: Of this process.
    """

    def __init__(self, metastore: Metastore, store: ObjectStore, info: TableInfo, caches: Caches) -> None:
        key, sequence = info.schema.primary_key, TableOptions(info.options).get(SEQUENCE_FIELD)
        self._key = list(key)
        self._columns = list(dict.fromkeys((*key, *sequence)))
        self._lookup = StateLookup(metastore, store, info, self._columns, caches)
        self.base_snapshot_id: Final = info.latest_snapshot_id
        """The snapshot that the rows are of; 0: there is none."""

    def find(self, rows: pa.Table) -> pa.Table:
        """The rows of some keys, with key and sequence columns; keys without a row are missing. Blocks.

        Args:
            rows: With the columns of the primary key; a key may come again.
        """
        keys = rows.select(self._key).group_by(self._key, use_threads=False).aggregate([])
        found = self._lookup.find(keys, self.base_snapshot_id)
        gone = is_retract(single_array(found.column(ROW_KIND_COLUMN)))
        return found.select(self._columns).filter(pa.array(np.logical_not(gone)))


def needs_latest(info: TableInfo) -> bool:
    """Whether a delete must know the row that it deletes; else it is the latest anyway. Pure."""
    return bool(TableOptions(info.options).get(SEQUENCE_FIELD))


def is_resolved_by_a_recheck(error: CommitConflict | SnapshotExpired, if_unchanged: int | None) -> bool:
    """Whether another look at the newest snapshot can help. Pure.

    Args:
        error: What became of the commit.
        if_unchanged: The guard that the user gave, past which nobody may look again; None: none.
    """
    if isinstance(error, SnapshotExpired):
        return True
    own = error.metadata.get("guard") == "if_unchanged" and if_unchanged is None
    return own and error.reason in (CHANGED_SINCE, GUARD_EXPIRED)
