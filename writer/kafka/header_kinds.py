"""What the headers of records of lakelog's own logs say: a row's kind, and the sequence of a tombstone.

Other records have no such headers: there a row is `+I`, and a tombstone says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.format.types.rowkind import RowKind
from lakelog.log.codecs import read_header_sequences
from lakelog.log.codecs.byte_columns import Mask
from lakelog.log.records import FetchedRecords
from lakelog.records.blocks import Indices
from lakelog.records.source_rows import SourceRows

KIND_COLUMN: Final = "_row_kind"
"""The source's column with row kinds, if no field of its records has them."""

_KINDS: Final = pa.array([kind.text.encode() for kind in RowKind], pa.binary())
_RETRACTS: Final = pa.array([RowKind.UPDATE_BEFORE.text.encode(), RowKind.DELETE.text.encode()], pa.binary())


def find_uncommitted(records: FetchedRecords) -> Mask:
    """The records that a lakelog table sent before their commit (`log.consistency` = `eventual`). Pure.

    Other records may have a header `attempt` of their own, but not all of our headers.
    """
    is_ours = np.asarray(records.attempts.is_valid()) & np.asarray(records.indexes.is_valid())
    return is_ours & np.asarray(pc.is_in(records.kinds, value_set=_KINDS))


@dataclass(frozen=True)
class HeaderKinds:
    """What the headers of some records say.

    Args:
        offsets: The records' offsets, rising.
        kinds: Strings; `+I` where a header says nothing.
        deletes: Records without a value that delete the row of their key.
    """

    offsets: Indices
    kinds: pa.Array
    deletes: Mask

    @property
    def nothing_deleted(self) -> HeaderKinds:
        """The same, with tombstones that delete nothing. Pure."""
        return replace(self, deletes=np.zeros_like(self.deletes))

    @staticmethod
    def of(records: FetchedRecords) -> HeaderKinds:
        """Reads the headers of some records. Pure."""
        kinds = pc.if_else(pc.is_in(records.kinds, value_set=_KINDS), records.kinds, _KINDS[int(RowKind.INSERT)])
        retracts = np.asarray(pc.is_in(records.kinds, value_set=_RETRACTS))
        deletes = retracts & np.asarray(records.values.is_null()) & np.asarray(records.keys.is_valid())
        return HeaderKinds(records.offsets, kinds.cast(pa.string()), deletes)

    def add_kinds(self, rows: SourceRows) -> SourceRows:
        """Rows of these records with the column `KIND_COLUMN`. Pure."""
        kinds = self.kinds.take(pa.array(np.searchsorted(self.offsets, rows.lines)))
        return replace(rows, columns={**rows.columns, KIND_COLUMN: kinds})


@dataclass(frozen=True)
class Sequences:
    """What the header `sequence` says of tombstones, which have no other place for it.

    Without it their delete would lose against every row that has one.

    Args:
        offsets: The records' offsets, rising.
        deletes: Tombstones that delete the row of their key.
        columns: By the source's name of a sequence field: its values, NULL where a record is no such tombstone.
        wrong: Tombstones whose header does not fit the fields.
    """

    offsets: Indices
    deletes: Mask
    columns: Mapping[str, pa.Array]
    wrong: Mask

    @staticmethod
    def of(records: FetchedRecords, deletes: Mask, types: Mapping[str, pa.DataType | None]) -> Sequences:
        """Reads the headers of some records. Pure.

        Args:
            records: The records.
            deletes: As in `HeaderKinds`.
            types: By the source's name of each sequence field of the table, in their order: the type that the format's
                reader gives it; None: the source does not have it.
        """
        if not types or not deletes.any():
            return Sequences(records.offsets, deletes, {}, np.zeros_like(deletes))
        columns, wrong = read_header_sequences(records.sequences, deletes, list(types.values()))
        # SUBTLE: NULL is `null` there. In a log without a sequence all deletes would lose, without any notice.
        wrong |= deletes & ~np.asarray(records.sequences.is_valid())
        found = {name: column for name, column in zip(types, columns, strict=True) if column is not None}
        return Sequences(records.offsets, deletes, found, wrong)

    def add_to(self, rows: SourceRows) -> SourceRows:
        """Rows of these records, with their sequences. Pure."""
        if not self.columns:
            return rows
        places = np.searchsorted(self.offsets, rows.lines)
        of_deletes, taken = pa.array(self.deletes[places]), pa.array(places)
        columns = dict(rows.columns)
        for name, values in self.columns.items():
            given = columns[name]
            # A record that was read on its own has strings for numbers.
            columns[name] = pc.if_else(of_deletes, values.take(taken).cast(given.type), given)
        find = rows.find_left_out
        if find is None:
            return replace(rows, columns=columns)
        said = self.deletes[places]
        return replace(rows, columns=columns, find_left_out=lambda names, chosen: find(names, chosen & ~said))
