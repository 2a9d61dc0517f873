"""Rows of a source become rows of the table, a column at a time; what does not fit is left out with its reason.

Columns go by name, text is parsed as the pipeline says, all else is cast where nothing is lost, as everywhere in
lakelog. For each row the first column that does not fit gives the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from lakelog.format.types.cast import show_value
from lakelog.format.types.convert import ValueLost, convert_values, find_mismatch
from lakelog.format.types.defaults import fill_left_out, write_default
from lakelog.format.types.rowkind import ROW_KIND_COLUMN, RowKind
from lakelog.format.types.schema import TableSchema
from lakelog.format.types.sql_types import to_sql_type
from lakelog.log.codecs.casts import cast_or_null
from lakelog.records.bad_records import BadRecord, FileRefused, Report
from lakelog.records.blocks import Indices
from lakelog.records.json_records import NO_COLUMN
from lakelog.records.source_rows import SourceRows
from lakelog.records.text_options import EPOCH_FORMATS, TextOptions
from lakelog.records.text_values import Mask, is_parsable, parse_text

from ..pipeline.columns import ColumnSource
from ..pipeline.spec import Mode, RowKindSource

_KINDS: Final = tuple(kind.text for kind in RowKind)
Offences = list[tuple[str, Mask, str, pa.Array | None]]
"""By column that does not fit: its name, the rows, what it needs, and what it has; None: no value."""

_LEFT_OUT: Final = 'it, or set source.missing_columns: "null"'
_NO_SEQUENCE: Final = (
    "one: it is of the table's sequence.field, without which a delete deletes nothing. Send it along with the key"
)
_RETRACTS: Final = (RowKind.UPDATE_BEFORE.text, RowKind.DELETE.text)


@dataclass(frozen=True)
class Coercion:
    """How rows are fitted. Picklable; runs on executors.

    Args:
        schema: The table's columns.
        mode: What rows do to the table.
        columns: By column of the table: where it comes from, where that is not the column of the same name.
        row_kind: Which column of the source says what each row does.
        rowkind_field: The table's own column that does (option `rowkind.field`); None: none.
        ignore_unknown: Whether columns that the table does not have are passed over.
        fill_missing: Whether nullable columns that the source leaves out become NULL; deletes need only the key.
        text: How text is to be understood.
        sequence: The table's `sequence.field`, of which a delete needs the values; none where deletes are ignored.
        added: Columns that the table got after it was made: a source may leave them out, and they get their default or
            NULL.
        table: The table's name, for messages.
    """

    schema: TableSchema
    mode: Mode
    columns: Mapping[str, ColumnSource]
    row_kind: RowKindSource | None
    rowkind_field: str | None
    ignore_unknown: bool
    fill_missing: bool
    text: TextOptions
    sequence: tuple[str, ...] = ()
    added: frozenset[str] = frozenset()
    table: str = ""

    @cached_property
    def source_names(self) -> frozenset[str]:
        """The names of the source's columns that are used."""
        kinds = () if self.row_kind is None else (self.row_kind.column,)
        return frozenset({source.name for source in self.sources.values()}.union(kinds))

    @cached_property
    def sources(self) -> dict[str, ColumnSource]:
        """By column of the table: where it comes from."""
        return {name: self.columns.get(name, ColumnSource(name)) for name in self.schema.arrow.names}

    @cached_property
    def output(self) -> pa.Schema:
        """What `coerce` returns: the table's columns, all nullable, and `_row_kind` where rows may differ in it."""
        fields = [pa.field(field.name, field.type) for field in self.schema.arrow]
        if self.row_kind is not None:
            fields.append(pa.field(ROW_KIND_COLUMN, pa.string()))
        return pa.schema(fields)

    def json_types(self) -> dict[str, pa.DataType]:
        """By field of JSON records: as what the parser shall read it."""
        types: dict[str, pa.DataType] = {}
        for field in self.schema.arrow:
            source = self.sources[field.name]
            formats = source.formats or self.text.timestamp_formats
            is_number = pt.is_timestamp(field.type) and formats and all(item in EPOCH_FORMATS for item in formats)
            types[source.name] = pa.int64() if is_number else field.type
        if self.row_kind is not None:
            types[self.row_kind.column] = pa.string()
        return types

    def check_columns(self, names: list[str], where: str) -> None:
        """Checks the columns of a source that names them all.

        Args:
            names: Of the source's columns.
            where: What names them, for messages: `its header` ...

        Raises:
            FileRefused: A column that the table needs is missing, or there is one that it does not have.
        """
        missing = []
        for field in self.schema.arrow:
            source = self.sources[field.name].name
            needed = field.name in self.schema.primary_key or (not field.nullable and self.mode is not Mode.DELETE)
            if source not in names:
                if field.name in self.added and field.name not in self.columns:
                    continue
                if needed or field.name in self.columns:
                    raise FileRefused(f"{where} has no column '{source}' for the table's column '{field.name}'")
                missing.append(source)
        if self.row_kind is not None and self.row_kind.column not in names:
            raise FileRefused(f"{where} has no column '{self.row_kind.column}' (row_kind)")
        unknown = [name for name in names if name not in self.source_names]
        if unknown and not self.ignore_unknown:
            raise FileRefused(
                f"{where} has the column '{unknown[0][:100]}', which the table does not have; name the one that it is "
                f"for under source.columns, add it (ALTER TABLE {self.table} ADD COLUMN ...; schema.evolution: "
                "add-columns does so), or set schema.evolution: ignore"
            )
        if missing and not self._may_leave_out:
            shown = ", ".join(f"'{name}'" for name in missing[:20])
            raise FileRefused(f"{where} leaves out {shown}; add {_LEFT_OUT}")

    def hint(self, reason: str) -> str:
        """What helps where a record has a field that the table lacks, as a sentence behind a blank; else nothing."""
        if NO_COLUMN not in reason:
            return ""
        return f" ALTER TABLE {self.table} ADD COLUMN ... adds it, and so does schema.evolution: add-columns."

    def coerce(self, rows: SourceRows, report: Report) -> pa.RecordBatch:
        """Returns the rows of records that fit as a whole, as `output`; reports the other records."""
        bad = np.zeros(rows.count, bool)
        why: Offences = []
        kinds = self._coerce_kinds(rows, why)
        retracts = None if kinds is None else _mask(pc.fill_null(pc.is_in(kinds, value_set=pa.array(_RETRACTS)), False))
        arrays = []
        for field in self.schema.arrow:
            values = self._with_default(rows, field, self._coerce_column(rows, field, why))
            if not field.nullable:
                self._check_not_null(values, field, retracts, why)
            arrays.append(values)
        self._check_left_out(rows, arrays, retracts, why)
        self._check_sequence(rows, arrays, kinds, why)
        if self.row_kind is not None:
            arrays.append(kinds)
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.output)
        for column, mask, wanted, given in why:
            # One report for each record, of its first bad column; a loop over bad rows, of which there are few.
            reported = np.flatnonzero(mask & ~bad)
            for row in reported[np.unique(rows.lines[reported], return_index=True)[1]]:
                shown = "no value" if given is None else show_value(given[row])
                reason = f"column '{column}' has {shown}, but needs {wanted}"
                report(BadRecord(int(rows.lines[row]), column, reason, rows.raw(int(row))))
            bad |= _whole_records(mask, rows.lines)
        return batch.filter(pa.array(~bad)) if bad.any() else batch

    def _coerce_column(self, rows: SourceRows, field: pa.Field, why: Offences) -> pa.Array:
        source = self.sources[field.name]
        given = rows.columns.get(source.name)
        if given is None:
            return fill_left_out(field, rows.count)
        given = _plain_text(given)
        formats = source.formats or (self.text.timestamp_formats if pt.is_timestamp(field.type) else ())
        if pt.is_integer(given.type) and pt.is_timestamp(field.type) and formats:
            given = given.cast(pa.string())
        if pt.is_string(given.type) and is_parsable(field.type) and not pt.is_string(field.type):
            parsed = parse_text(given, field.type, self.text, source.formats)
            if parsed.bad.any():
                why.append((field.name, parsed.bad, parsed.wanted, given))
            return parsed.values
        mismatch = find_mismatch(given.type, field.type)
        if mismatch is not None:
            raise FileRefused(f"its column '{source.name}' is {given.type}, the table's is {field.type}: {mismatch}")
        return _convert(given, field, why)

    def _with_default(self, rows: SourceRows, field: pa.Field, values: pa.Array) -> pa.Array:
        """The values, with the column's default where a record leaves it out."""
        default, source = write_default(field), self.sources[field.name].name
        if default is None or rows.find_left_out is None or source not in rows.columns or not values.null_count:
            return values
        left_out = rows.find_left_out([source], _mask(values.is_null()))[0]
        return pc.if_else(pa.array(left_out), default, values)

    def _check_not_null(
        self,
        values: pa.Array,
        field: pa.Field,
        retracts: Mask | None,
        why: Offences,
    ) -> None:
        if values.null_count == 0:
            return
        missing = _mask(values.is_null())
        if field.name not in self.schema.primary_key:
            if self.mode is Mode.DELETE:
                return
            if retracts is not None:
                missing = missing & ~retracts
        if missing.any():
            why.append((field.name, missing, "one: it is NOT NULL", None))

    @property
    def _may_leave_out(self) -> bool:
        return self.fill_missing or self.mode is Mode.DELETE

    def _check_left_out(
        self, rows: SourceRows, arrays: Sequence[pa.Array], retracts: Mask | None, why: Offences
    ) -> None:
        """A column that a record does not name is not one that it says to be NULL."""
        if rows.find_left_out is None or self._may_leave_out:
            return
        nulls = {
            field.name: _mask(values.is_null())
            for field, values in zip(self.schema.arrow, arrays, strict=False)
            if values.null_count and field.nullable and field.name not in self.added
        }
        if not nulls:
            return
        looked_at = np.logical_or.reduce(list(nulls.values()))
        if retracts is not None:
            looked_at &= ~retracts
        found = rows.find_left_out([self.sources[name].name for name in nulls], looked_at)
        why += [
            (name, nulls[name] & mask, f"one, which its record leaves out: add {_LEFT_OUT}", None)
            for name, mask in zip(nulls, found, strict=True)
            if (nulls[name] & mask).any()
        ]

    def _check_sequence(
        self, rows: SourceRows, arrays: Sequence[pa.Array], kinds: pa.Array | None, why: Offences
    ) -> None:
        """A delete without its sequence loses against every row that has one: it would delete nothing, in silence.

        Where rows say that they are deletes, NULL is a value, the least; of keys to delete it is none.
        """
        by_mode = self.mode is Mode.DELETE
        if not self.sequence or (kinds is None and not by_mode):
            return
        deletes = np.ones(rows.count, bool)
        if not by_mode:
            deletes = _mask(pc.fill_null(pc.equal(kinds, RowKind.DELETE.text), False))
        for name in self.sequence:
            lacking = deletes & _mask(arrays[self.schema.arrow.get_field_index(name)].is_null())
            source = self.sources[name].name
            if not by_mode and source in rows.columns and lacking.any():
                if rows.find_left_out is None:
                    continue
                lacking = rows.find_left_out([source], lacking)[0]
            if lacking.any():
                why.append((name, lacking, _NO_SEQUENCE, None))

    def _coerce_kinds(self, rows: SourceRows, why: Offences) -> pa.Array | None:
        """The kind of each row; NULL where it is none."""
        if self.row_kind is None:
            name = self.rowkind_field and self.sources[self.rowkind_field].name
            if name is None or name not in rows.columns or self.mode is Mode.DELETE:
                return None
            values = {kind: kind for kind in _KINDS}
        else:
            name = self.row_kind.column
            values = dict(self.row_kind.values) or {kind: kind for kind in _KINDS}
        given = _plain_text(rows.columns[name])
        if not pt.is_string(given.type):
            raise FileRefused(f"its column '{name}' is {given.type}, but must hold texts: {', '.join(values)}")
        places = pc.index_in(given, value_set=pa.array(list(values)))
        kinds = pa.array(list(values.values())).take(places)
        allowed = _KINDS if self.schema.primary_key else (RowKind.INSERT.text,)
        fine = pc.fill_null(pc.is_in(kinds, value_set=pa.array(allowed)), False)
        bad = ~_mask(fine)
        if bad.any():
            shown = [text for text, kind in values.items() if kind in allowed]
            reason = "" if self.schema.primary_key else " (the table has no primary key, so rows are only added)"
            why.append((name, bad, f"one of {', '.join(shown)}{reason}", given))
        return kinds


def check_csv(schema: TableSchema) -> list[str]:
    """Says which of the table's columns cannot be read from CSV, a sentence each with the remedy. Pure."""
    return [
        f"column '{field.name}' is {to_sql_type(field.type)}, which cannot be read from CSV text; use JSON or Parquet "
        "files."
        for field in schema.arrow
        if not is_parsable(field.type)
    ]


def _plain_text(given: pa.Array) -> pa.Array:
    """Texts of any of Arrow's types as strings; all else as it is."""
    return given.cast(pa.string()) if pt.is_large_string(given.type) or pt.is_string_view(given.type) else given


def _convert(given: pa.Array, field: pa.Field, why: Offences) -> pa.Array:
    nullable = pa.field(field.name, field.type)

    def convert(part: pa.Array) -> pa.Array:
        try:
            return convert_values(part, nullable)
        except ValueLost as error:
            raise ValueError(str(error)) from error

    values = cast_or_null(given, convert, field.type)
    bad = _mask(pc.and_(given.is_valid(), values.is_null()))
    if bad.any():
        wanted = "text that is valid UTF-8"
        if not pt.is_string(field.type):
            wanted = f"a value of {to_sql_type(field.type)}, to which this cannot be brought without loss"
        why.append((field.name, bad, wanted, given))
    return values


def _whole_records(mask: Mask, lines: Indices) -> Mask:
    """All rows of the records of which one row is in the mask. Pure."""
    if not mask.any():
        return mask
    starts = np.flatnonzero(np.append(True, lines[1:] != lines[:-1]))
    return np.repeat(np.logical_or.reduceat(mask, starts), np.diff(np.append(starts, len(lines))))


def _mask(values: pa.Array) -> Mask:
    return np.asarray(values.to_numpy(zero_copy_only=False), bool)
