"""What records of lakelog's own logs say by their header `kind`: what a row does, and that a tombstone is a delete.

Records of others have no such header: there a row is `+I`, and a tombstone says nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.format.rowkind import RowKind
from lakelog.log.codecs.byte_columns import Mask
from lakelog.log.records import FetchedRecords

from ..records.blocks import Places
from ..records.source_rows import SourceRows

KIND_COLUMN: Final = "_row_kind"
"""The source's column that says what each row does, where no field of its records does."""

_KINDS: Final = pa.array([kind.text.encode() for kind in RowKind], pa.binary())
_RETRACTS: Final = pa.array([RowKind.UPDATE_BEFORE.text.encode(), RowKind.DELETE.text.encode()], pa.binary())


@dataclass(frozen=True)
class HeaderKinds:
    """What the headers of some records say.

    Args:
        offsets: Of the records, rising.
        kinds: Strings; `+I` where a header says nothing.
        deletes: Records without a value that delete the row of their key.
    """

    offsets: Places
    kinds: pa.Array
    deletes: Mask

    @staticmethod
    def of(records: FetchedRecords) -> HeaderKinds:
        """What those of some records say. Pure."""
        kinds = pc.if_else(pc.is_in(records.kinds, value_set=_KINDS), records.kinds, _KINDS[int(RowKind.INSERT)])
        retracts = np.asarray(pc.is_in(records.kinds, value_set=_RETRACTS))
        deletes = retracts & np.asarray(records.values.is_null()) & np.asarray(records.keys.is_valid())
        return HeaderKinds(records.offsets, kinds.cast(pa.string()), deletes)

    def add_to(self, rows: SourceRows) -> SourceRows:
        """Rows of these records with the column `KIND_COLUMN`. Pure."""
        kinds = self.kinds.take(pa.array(np.searchsorted(self.offsets, rows.lines)))
        return replace(rows, columns={**rows.columns, KIND_COLUMN: kinds})
