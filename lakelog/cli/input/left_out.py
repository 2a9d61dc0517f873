"""Which columns a line of JSON need not name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.format.types.rowkind import ROW_KIND_COLUMN, RowKind
from lakelog.records.bad_records import BadRecord
from lakelog.records.source_rows import SourceRows

_RETRACTS: Final = (RowKind.UPDATE_BEFORE.text, RowKind.DELETE.text)
_MOST_SHOWN: Final = 30


@dataclass(frozen=True)
class MayLeaveOut:
    """Which columns a line need not name; they are NULL then.

    Args:
        all: Every column, but `sequence` of a delete.
        kind_column: Where a line says its kind: a delete, or an old row, needs no more than its key and `sequence`.
        sequence: The table's `sequence.field`: without it a delete deletes nothing.
    """

    all: bool = False
    kind_column: str = ROW_KIND_COLUMN
    sequence: tuple[str, ...] = ()

    def find_fault(self, rows: SourceRows, batch: pa.RecordBatch) -> BadRecord | None:
        """The first row whose line lacks a column that it needs. Pure.

        Args:
            rows: The rows, which know what their lines name.
            batch: The same rows as the table has them; what a line lacks is NULL there.
        """
        retracts = np.zeros(batch.num_rows, np.bool_)
        if self.kind_column in batch.schema.names:
            retracts = np.asarray(pc.is_in(batch.column(self.kind_column), value_set=pa.array(_RETRACTS)))
        others = np.zeros_like(retracts) if self.all else ~retracts
        nulls = {
            name: np.asarray(column.is_null()) & (retracts | others if name in self.sequence else others)
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
            if column.null_count
        }
        names = [name for name, mask in nulls.items() if mask.any()]
        if not names or rows.find_left_out is None:
            return None
        found = rows.find_left_out(names, np.logical_or.reduce([nulls[name] for name in names]))
        lacking = {name: nulls[name] & mask for name, mask in zip(names, found, strict=True)}
        bad = np.logical_or.reduce(list(lacking.values()))
        if not bad.any():
            return None
        row = int(bad.argmax())
        shown = ", ".join([name for name in names if lacking[name][row]][:_MOST_SHOWN])
        reason = f"it leaves out {shown}; name every column, or add --fill-missing for NULL"
        if self.all:
            reason = (
                f"it is a delete that leaves out {shown}, the table's sequence.field, and would delete nothing; give "
                "the value, which beats all rows up to it"
            )
        return BadRecord(int(rows.lines[row]), None, reason, rows.raw(row))


NOTHING_LEFT_OUT: Final = MayLeaveOut()
