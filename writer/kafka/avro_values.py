"""Turns Avro values of records into rows of the source, in columns. Runs on executors."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.log.codecs import read_debezium_keys
from lakelog.log.codecs.avro.writer_records import read_writer_records
from lakelog.log.codecs.byte_columns import Mask
from lakelog.records.bad_records import BadRecord, Report
from lakelog.records.blocks import Indices
from lakelog.records.source_rows import SourceRows

from ..pipeline.kafka_spec import AvroForm

_MOST_BYTES: Final = 2**31 - 1
_NO_VALUE: Final = "it has no value (as a tombstone), so it says no row"
_NO_RECORD: Final = "it is no record of the schema that the pipeline has"
_NO_KEY: Final = "it deletes a row, but its key is no JSON object with all columns of the table's primary key"
_HINT: Final = "; it begins as records of a schema registry do: give the schema's number there in source.schema_id"


def read_avro_values(
    values: pa.Array,
    keys: pa.Array,
    offsets: Indices,
    form: AvroForm,
    *,
    key: pa.Schema,
    deletes: Mask,
    report: Report,
) -> SourceRows | None:
    """Reads values that each are one Avro record.

    Args:
        values: Binary.
        keys: Binary: identify the row of a delete, as JSON.
        offsets: Of the records.
        form: Their schemas, and the bytes before each value.
        key: The fields that are the table's primary key, with its types.
        deletes: Tombstones that delete the row of their key.
        report: Called with records that match none of these schemas.

    Returns:
        The rows; None: there are none.
    """
    there = np.asarray(values.is_valid())
    _report(report, ~there & ~deletes, values, offsets, _NO_VALUE)
    known, wrong = np.zeros_like(there), np.zeros_like(there)
    tables: list[pa.Table] = []
    found_at: list[Indices] = []
    for each in form.all:
        fits = there & np.asarray(pc.starts_with(values, each.header).fill_null(False))
        known |= fits
        # SUBTLE: without an end marker Arrow fails at a second value.
        datums = pc.binary_slice(values.filter(pa.array(fits)), start=len(each.header), stop=_MOST_BYTES)
        found, wrong_there = read_writer_records(datums, each.schema)
        wrong[fits] = wrong_there
        tables.append(found.filter(pa.array(~wrong_there)) if wrong_there.any() else found)
        found_at.append(np.flatnonzero(fits)[~wrong_there])
    numbers = ", ".join(str(each.registry_id) for each in form.all)
    _report(report, there & ~known, values, offsets, f"its header names another schema than {numbers}")
    is_hinted = form.registry_id is None
    has_header = np.asarray(pc.starts_with(values, b"\0\0").fill_null(False)) if is_hinted else np.zeros_like(wrong)
    _report(report, wrong & ~has_header, values, offsets, _NO_RECORD)
    _report(report, wrong & has_header, values, offsets, _NO_RECORD + _HINT)
    if deletes.any():
        gone, is_whole = _read_keys(keys.filter(pa.array(deletes)), form.arrow, key)
        of_deletes = np.flatnonzero(deletes)
        lacks_key = np.zeros_like(deletes)
        lacks_key[of_deletes[~is_whole]] = True
        _report(report, lacks_key, keys, offsets, _NO_KEY)
        tables.append(gone.filter(pa.array(is_whole)))
        found_at.append(of_deletes[is_whole])
    found, places = tables[0], found_at[0]
    if len(tables) > 1:
        places = np.concatenate(found_at)
        found = pa.concat_tables(tables, promote_options="permissive").take(pa.array(np.argsort(places)))
        places = np.sort(places)
    if not len(places):
        return None
    columns = {name: column.combine_chunks() for name, column in zip(found.column_names, found.columns, strict=True)}
    return SourceRows(columns, len(places), offsets[places], lambda row: values[int(places[row])].as_py() or b"")


def _read_keys(keys: pa.Array, schema: pa.Schema, key: pa.Schema) -> tuple[pa.Table, Mask]:
    """The columns of keys that are JSON, with the schema's types, and which keys are complete."""
    rows, is_whole = read_debezium_keys(keys, key)
    fields = [schema.field(name) for name in key.names if name in schema.names]
    try:
        return pa.table([rows.column(field.name).cast(field.type) for field in fields], pa.schema(fields)), is_whole
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return schema.empty_table().take(pa.nulls(len(keys), pa.int64())), np.zeros(len(keys), np.bool_)


def _report(report: Report, mask: Mask, values: pa.Array, offsets: Indices, reason: str) -> None:
    # A loop over bad records, of which there are few.
    for place in np.flatnonzero(mask):
        report(BadRecord(int(offsets[place]), None, reason, values[int(place)].as_py() or b""))
