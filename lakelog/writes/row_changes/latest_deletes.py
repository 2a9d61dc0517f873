"""Deletes that remove the current rows: each takes the sequence value of its row (semantics 1.3).

Among rows with one sequence value the later arrival wins, so such a delete removes its row and nothing newer. This
holds only while the row is the one that was found: the commit guards the buckets since the snapshot that was read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

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


class LatestDeletes:
    """Finds the deletes for some rows of a table with `sequence.field`, as they were at its newest snapshot."""

    def __init__(self, metastore: Metastore, store: ObjectStore, info: TableInfo, caches: Caches) -> None:
        key, sequence = info.schema.primary_key, TableOptions(info.options).get(SEQUENCE_FIELD)
        self._key = list(key)
        self._columns = list(dict.fromkeys((*key, *sequence)))
        self._lookup = StateLookup(metastore, store, info, self._columns, caches)
        self.base_snapshot_id: Final = info.latest_snapshot_id
        """The snapshot of the rows; 0: there is none."""

    def find(self, rows: pa.Table) -> pa.Table:
        """Returns the rows of some keys, with key and sequence columns; keys without a row are missing. Blocks.

        Args:
            rows: Rows with the columns of the primary key; keys can repeat.
        """
        keys = rows.select(self._key).group_by(self._key, use_threads=False).aggregate([])
        found = self._lookup.find(keys, self.base_snapshot_id)
        gone = is_retract(single_array(found.column(ROW_KIND_COLUMN)))
        return found.select(self._columns).filter(pa.array(np.logical_not(gone)))


def needs_latest(info: TableInfo) -> bool:
    """Whether a delete must know the row that it deletes; else it deletes the latest row anyway. Pure."""
    return bool(TableOptions(info.options).get(SEQUENCE_FIELD))
