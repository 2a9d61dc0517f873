"""Turns the input of a write into rows of the table: columns and types, row kinds, and rows that the options drop."""

from __future__ import annotations

import enum
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.errors import InvalidArgument
from lakelog.format.keys.ordering import single_array
from lakelog.format.types.cast import cast_batch, check_schema
from lakelog.format.types.rowkind import ROW_KIND_COLUMN, RowKind, encode_kinds, is_retract
from lakelog.format.types.schema import TableSchema
from lakelog.options.declared.tables import (
    FIRST_ROW,
    IGNORE_DELETE,
    IGNORE_UPDATE_BEFORE,
    MERGE_ENGINE,
    ROWKIND_FIELD,
    SEQUENCE_FIELD,
)
from lakelog.options.values import TableOptions
from lakelog.storage.parquet.writer import plan_file_schema

Kinds = npt.NDArray[np.int8]


class KindSource(enum.Enum):
    """The source of the row kinds of a write."""

    INSERTS = "inserts"
    """All rows are +I, unless the table has a `rowkind.field`, which then decides."""
    DELETES = "deletes"
    """All rows are -D and need only the primary key and `sequence.field`."""
    FOUND_DELETES = "found deletes"
    """As DELETES, with the sequence values of the rows that they delete, which may be NULL."""
    COLUMN = "column"
    """A column `_row_kind` of `+I -U +U -D`, or the table's `rowkind.field`."""


@dataclass(frozen=True)
class RowNormalizer:
    """How input becomes rows of a table (semantics 1.2, 1.4, 1.5). Picklable; pure."""

    table_name: str
    schema: TableSchema
    options: TableOptions

    def take(
        self, batch: pa.RecordBatch | pa.Table, source: KindSource, *, fill_missing: bool = False
    ) -> tuple[pa.Table, Kinds | None]:
        """Returns rows with exactly the table's columns and types, and their kinds.

        Args:
            batch: Input with any Arrow types; columns are matched by name.
            source: The source of the kinds.
            fill_missing: Whether columns that the input leaves out become NULL; deletes need only their key anyway.

        Returns:
            The rows that the options keep, and a code for each; None: all are +I.

        Raises:
            InvalidArgument: Columns, types, values or kinds do not fit; reports all differences of the schemas
                together.
        """
        table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
        given: pa.Array | None = None
        if source is KindSource.COLUMN and ROW_KIND_COLUMN in table.schema.names:
            given = self._take_kind_column(table)
            table = table.drop_columns([ROW_KIND_COLUMN])
        field = self._rowkind_field
        if source is KindSource.INSERTS and field is None:
            rows = cast_batch(table, self.schema.arrow, fill_missing=fill_missing)
            # One schema for all rows, so that they can be buffered together with deletes.
            return pa.Table.from_arrays(rows.columns, schema=self._relaxed), None
        deletes = source in (KindSource.DELETES, KindSource.FOUND_DELETES)
        keys_do = deletes or (given is not None and bool(is_retract(given).all()))
        rows = cast_batch(table, self._relaxed, fill_missing=fill_missing or keys_do or field is not None)
        if deletes:
            if source is KindSource.DELETES:
                self._check_sequence(rows)
            kinds = np.full(rows.num_rows, RowKind.DELETE, np.int8)
        elif given is not None:
            kinds = given.to_numpy()
        elif field is not None:
            if field not in table.schema.names and table.num_rows:
                raise InvalidArgument(
                    f"The rows written to {self.table_name} have no column '{field}' of +I, -U, +U or -D, by which the "
                    "table's 'rowkind.field' says what they do. Add it.",
                    metadata={"column": field},
                )
            kinds = self._read_kind_field(rows, field)
            if not is_retract(pa.array(kinds)).all():
                check_schema(table.schema, self._relaxed, fill_missing=fill_missing)
        else:
            raise InvalidArgument(
                f"The rows written to {self.table_name} have no column '{ROW_KIND_COLUMN}' of +I, -U, +U or -D. "
                f"Add it, or use {'upsert() or delete()' if self.schema.primary_key else 'append()'}.",
                metadata={"column": ROW_KIND_COLUMN},
            )
        # Deletes by DELETES are checked above, row by row; with kinds, a NULL may be intended, but not a missing
        # column.
        sequence = self.options.get(SEQUENCE_FIELD)
        lacks_sequence = not deletes and not set(sequence) <= set(table.schema.names)
        return self._keep(rows, kinds, lacks_sequence)

    @cached_property
    def _relaxed(self) -> pa.Schema:
        """The columns; those that a delete does not need are nullable."""
        return plan_file_schema(self.schema, with_row_kind=False)

    @cached_property
    def _rowkind_field(self) -> str | None:
        return self.options.get(ROWKIND_FIELD)

    def _take_kind_column(self, table: pa.Table) -> pa.Array:
        if table.schema.names.count(ROW_KIND_COLUMN) > 1:
            raise InvalidArgument(f"The input has the column '{ROW_KIND_COLUMN}' more than once: drop all but one.")
        if self._rowkind_field is not None:
            raise InvalidArgument(
                f"Table {self.table_name} takes the kinds of its rows from its column '{self._rowkind_field}' "
                f"(rowkind.field), so a column '{ROW_KIND_COLUMN}' would contradict it. Leave that out.",
                metadata={"column": ROW_KIND_COLUMN},
            )
        return encode_kinds(table.column(ROW_KIND_COLUMN))

    def _read_kind_field(self, table: pa.Table, name: str) -> Kinds:
        try:
            kinds: Kinds = encode_kinds(table.column(name)).to_numpy()
        except InvalidArgument as error:
            message = error.message.replace(f"Column '{ROW_KIND_COLUMN}'", f"Column '{name}' (rowkind.field)")
            raise InvalidArgument(message, reason=error.reason, metadata=error.metadata | {"column": name}) from None
        return kinds

    def _keep(self, table: pa.Table, kinds: Kinds, lacks_sequence: bool) -> tuple[pa.Table, Kinds | None]:
        """Drops rows that the options ignore, and checks the others."""
        if not kinds.any():
            self._check_not_null(table, None)
            return table, None
        if not self.schema.primary_key:
            kind = RowKind(int(kinds[kinds != RowKind.INSERT][0]))
            raise InvalidArgument(
                f"A row of kind {kind.text} cannot be written to {self.table_name}: it has no primary key and takes "
                "only +I. Filter such rows out, or use a table with a primary key.",
                metadata={"table": self.table_name, "kind": kind.text},
            )
        retracts = is_retract(pa.array(kinds))
        if self.options.get(IGNORE_DELETE):
            dropped = retracts
        elif self.options.get(IGNORE_UPDATE_BEFORE):
            dropped = kinds == RowKind.UPDATE_BEFORE
        else:
            dropped = _NOTHING
        if dropped.any():
            table = table.filter(pa.array(~dropped))
            kinds, retracts = kinds[~dropped], retracts[~dropped]
        if retracts.any() and self.options.get(MERGE_ENGINE) == FIRST_ROW:
            kind = RowKind(int(kinds[retracts][0]))
            raise InvalidArgument(
                f"A row of kind {kind.text} cannot be written to {self.table_name}: its merge engine, {FIRST_ROW}, "
                f"keeps the first row of each key for good. Filter such rows out, or set '{IGNORE_DELETE.key}' to have "
                "them dropped.",
                metadata={"table": self.table_name, "kind": kind.text},
            )
        if lacks_sequence:
            self._check_sequence(table.filter(pa.array(retracts)))
        self._check_not_null(table, retracts)
        return table, kinds if kinds.any() else None

    def _check_sequence(self, table: pa.Table) -> None:
        """A delete without a sequence value loses against every row with one: it would delete nothing."""
        if self.options.get(IGNORE_DELETE):
            return
        for name in self.options.get(SEQUENCE_FIELD):
            missing = single_array(table.column(name)).is_null()
            if missing.true_count:
                row = int(np.argmax(missing.to_numpy(zero_copy_only=False)))
                raise _lacks_sequence(f"Row {row} of the keys", "has no value for", self.table_name, name)

    def _check_not_null(self, table: pa.Table, retracts: npt.NDArray[np.bool_] | None) -> None:
        """Rows that add need every NOT NULL column; deletes need only their key, which is checked."""
        for field in self.schema.arrow:
            if field.nullable or table.column(field.name).null_count == 0:
                continue
            missing = single_array(table.column(field.name)).is_null().to_numpy(zero_copy_only=False)
            if retracts is not None:
                missing = missing & ~retracts
            if missing.any():
                raise InvalidArgument(
                    f"Column '{field.name}' of {self.table_name} is NOT NULL, but row {int(np.argmax(missing))} of the "
                    "rows to add has no value for it. Give it one; only deletes may leave it out.",
                    reason="VALUE_MISMATCH",
                    metadata={"column": field.name},
                )


_NOTHING: Final = np.zeros(1, bool)


def check_keys_to_delete(table_name: str, options: TableOptions, names: Collection[str]) -> None:
    """Raises InvalidArgument if keys to delete lack a column of the table's `sequence.field`. Pure."""
    left_out = [name for name in options.get(SEQUENCE_FIELD) if name not in names]
    if left_out and not options.get(IGNORE_DELETE):
        raise _lacks_sequence("The keys", "have no column", table_name, left_out[0])


def _lacks_sequence(keys: str, lack: str, table_name: str, column: str) -> InvalidArgument:
    return InvalidArgument(
        f"{keys} to delete from {table_name} {lack} '{column}', which is part of its 'sequence.field'. Such a delete "
        "loses against every row that has a value, and deletes nothing. Give the value along with the key: the delete "
        "beats all rows up to it. Or beat the row that is there, whatever its value: table.delete(keys, latest=True), "
        "lakelog insert --mode delete --latest.",
        reason="SEQUENCE_MISSING",
        metadata={"table": table_name, "column": column},
    )
