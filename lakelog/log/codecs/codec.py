"""The codec of a table and schema: chooses the record format of the log, makes records of rows, and rows of records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import InvalidArgument
from lakelog.format.keys.ordering import comparable_keys, comparable_sequences, single_array
from lakelog.format.tables.table import TableName
from lakelog.format.types.rowkind import RowKind
from lakelog.format.types.schema import TableSchema
from lakelog.log.codecs.avro.schema import to_key_fields, to_value_fields
from lakelog.log.codecs.avro.write import to_avro
from lakelog.log.codecs.byte_columns import as_text
from lakelog.log.codecs.changes import Changes, read_avro_rows, read_debezium_changes, read_json_rows
from lakelog.log.codecs.decode import DecodedRecords, join_records
from lakelog.log.codecs.json.debezium_text import MessageSource, find_envelope_bytes, to_debezium_texts
from lakelog.log.codecs.json.text import to_array_texts, to_json_texts, to_object_texts
from lakelog.log.codecs.messages import Mask, MessagePlan, plan_messages
from lakelog.log.codecs.row_sizes import Sizes, find_largest_size, find_row_sizes
from lakelog.log.records import EncodedRecords, FetchedRecords, Kinds

DEBEZIUM_JSON: Final = "debezium-json"
JSON: Final = "json"
AVRO: Final = "avro"

_MAX_CHUNK_BYTES: Final = 1 << 30
"""Of what is encoded in one go, by its upper bound: columns of bytes count them in 31 bits."""

_FRAME_BYTES: Final = 256
"""Of the other headers, whose names and values take some 170, and of the lengths in front of all of them."""


@dataclass(frozen=True)
class LogForm:
    """How a table's rows are written in its log.

    Args:
        value_format: `debezium-json`, `json` or `avro`.
        key_format: `json` or `avro`.
        is_upsert: The changelog mode is `upsert`, else `all`.
        sequence_fields: The table's `sequence.field`.
        sequence_descends: Whether a smaller sequence is the later one.
    """

    value_format: str = DEBEZIUM_JSON
    key_format: str = JSON
    is_upsert: bool = False
    sequence_fields: tuple[str, ...] = ()
    sequence_descends: bool = False


@dataclass(frozen=True)
class EncodedChunk:
    """What some rows became.

    Args:
        records: Ready to be sent; may be none.
        consumed: So many of the rows they are of. Those behind it are handed in again, before the rows that follow.
    """

    records: EncodedRecords
    consumed: int


@dataclass(frozen=True)
class LogCodec:
    """Encodes rows of one schema of a table, and decodes its records. Immutable; all methods are pure.

    Args:
        schema: The rows' columns.
        name: The table.
        form: How they are written.
    """

    schema: TableSchema
    name: TableName
    form: LogForm

    @property
    def has_before(self) -> bool:
        """Whether the format has a place for old rows."""
        return self.form.value_format == DEBEZIUM_JSON

    @property
    def needs_followed(self) -> bool:
        """Whether `encode` must be told what follows where a bucket's rows are not ordered by key as a whole."""
        return self.form.is_upsert and not self.form.sequence_fields

    def find_followed(self, keys: pa.Table) -> Mask:
        """Whether a later row of its key follows each row.

        Args:
            keys: The primary key's columns of all rows of a bucket and snapshot, in their order.
        """
        followed = np.zeros(len(keys), dtype=np.bool_)
        if len(keys):
            values = comparable_keys(self._columns(keys, self.schema.primary_key))
            order = np.argsort(values, kind="stable")
            followed[order[:-1]] = values[order[1:]] == values[order[:-1]]
        return followed

    def encode(
        self,
        rows: pa.Table,
        kinds: Kinds,
        first_index: int,
        *,
        partition: int,
        snapshot_id: int,
        ts_ms: int,
        bucket: int | None,
        is_last: bool,
        followed: Mask | None = None,
    ) -> EncodedChunk:
        """Encodes rows of one bucket and snapshot, in the order of its log files: by key, then arrival in each file.

        Args:
            rows: The table's columns.
            kinds: What each row does.
            first_index: The place of the first row among all rows of the snapshot's log.
            partition: Of the topic.
            snapshot_id: The snapshot.
            ts_ms: When it was committed.
            bucket: None: the table has no buckets.
            is_last: No more rows of this bucket and snapshot follow. Else the last row may be held back.
            followed: Of `find_followed`; only where `needs_followed` and the bucket has more than one file.

        Returns:
            The records, and how many rows they are of: fewer than there are where the last one is held back or the
            rows would become too many bytes for one piece.
        """
        in_bounds = self._count_in_bounds(rows)
        is_last = is_last and in_bounds == len(rows)
        rows, kinds = rows.slice(0, in_bounds).combine_chunks(), kinds[:in_bounds]
        plan = plan_messages(
            kinds,
            self._find_same_keys(rows, kinds),
            is_upsert=self.form.is_upsert,
            has_before=self.has_before,
            is_last=is_last,
            followed=None if followed is None else followed[:in_bounds],
            outranks=self._find_outranking(rows, kinds),
        )
        rows, kinds = rows.slice(0, plan.consumed), kinds[: plan.consumed]
        source = MessageSource(self.name.database, self.name.name, snapshot_id, bucket, ts_ms)
        sent = rows if plan.is_plain else rows.take(pa.array(plan.rows))
        records = EncodedRecords(
            partition=partition,
            keys=self._encode_keys(sent),
            values=self._encode_values(rows, kinds, plan, source),
            kinds=kinds[plan.rows],
            indexes=first_index + plan.rows,
            sequences=self._encode_sequences(sent),
        )
        return EncodedChunk(records, plan.consumed)

    def check_row_sizes(self, rows: pa.Table, max_record_bytes: int) -> None:
        """Checks that each row's record will fit into the topic (reliability R7).

        Of a format with old rows a record may hold two rows of a key, so that one may take half of it.

        Raises:
            InvalidArgument: Names the first row that does not.
        """
        bound = find_largest_size(rows)
        if bound is not None and not len(self._find_largest(np.array([bound]), max_record_bytes)):
            return
        most = self._find_largest(find_row_sizes(rows), max_record_bytes)
        if not len(most):
            return
        exact = self._find_exact_sizes(rows.take(pa.array(most)))
        too_large = np.flatnonzero(exact > max_record_bytes)
        if not len(too_large):
            return
        row, size = int(most[too_large[0]]), int(exact[too_large[0]])
        twice = " It counts twice, since a record may hold a key's old and its new row." if self._may_hold_two else ""
        raise InvalidArgument(
            f"Row {row} for table {self.name} would make a record of {size} bytes in its log, which takes "
            f"{max_record_bytes} ('log.max-record-size').{twice} Make the row smaller, for instance by storing large "
            "values elsewhere and their address here, or alter 'log.max-record-size'.",
            reason="RECORD_TOO_LARGE",
            metadata={
                "table": str(self.name),
                "row": str(row),
                "bytes": str(size),
                "log.max-record-size": str(max_record_bytes),
            },
        )

    def decode(self, records: FetchedRecords, *, topic: str, columns: Sequence[str] | None = None) -> DecodedRecords:
        """Decodes records of the table's log, whoever reads them; the inverse of `encode`.

        Args:
            records: As they were read.
            topic: For messages.
            columns: Names, in the order wanted; None: all columns. Others are not read.

        Raises:
            DataCorrupted: A record is damaged; names the topic, the partition and the offset.
        """
        arrow = self.schema.arrow
        wanted = arrow if columns is None else pa.schema([arrow.field(name) for name in columns])
        return join_records(
            records,
            self._read_values(records.values, wanted),
            wanted,
            self._read_keys,
            topic=topic,
            sequence_fields=self.form.sequence_fields,
        )

    def _read_values(self, values: pa.Array, wanted: pa.Schema) -> Changes:
        if self.form.value_format == AVRO:
            return read_avro_rows(values, to_value_fields(self.schema), wanted)
        if self.has_before:
            return read_debezium_changes(values, wanted, is_bounded=False)
        return read_json_rows(values, wanted)

    def _read_keys(self, keys: pa.Array, wanted: pa.Schema) -> Changes:
        """The columns of `wanted` that are in the key."""
        wanted = pa.schema([field for field in wanted if field.name in self.schema.primary_key])
        if self.form.key_format == AVRO:
            return read_avro_rows(keys, to_key_fields(self.schema), wanted)
        return read_json_rows(keys, wanted)

    @property
    def _may_hold_two(self) -> bool:
        return self.has_before and bool(self.schema.primary_key)

    @cached_property
    def _frame_bytes(self) -> int:
        longest = 10**19
        source = MessageSource(self.name.database, self.name.name, longest, longest, longest)
        return _FRAME_BYTES + (find_envelope_bytes(source) if self.has_before else 0)

    def _find_largest(self, sizes: Sizes, limit: int) -> Sizes:
        # A key and a sequence are parts of the row.
        copies = 3 + self._may_hold_two
        return np.flatnonzero(sizes * copies + self._frame_bytes > limit)

    def _find_exact_sizes(self, rows: pa.Table) -> Sizes:
        sizes = _find_lengths(self._encode_rows(rows)) * (1 + self._may_hold_two)
        for extra in (self._encode_keys(rows), self._encode_sequences(rows)):
            if extra is not None:
                sizes += _find_lengths(extra)
        return sizes + self._frame_bytes

    def _count_in_bounds(self, rows: pa.Table) -> int:
        if rows.nbytes * 2 < _MAX_CHUNK_BYTES // 16:
            return len(rows)
        sizes = np.cumsum(find_row_sizes(rows) + self._frame_bytes)
        # At least two rows, so that an old row is not held back for ever.
        return min(len(rows), max(2, int(np.searchsorted(sizes, _MAX_CHUNK_BYTES))))

    def _find_same_keys(self, rows: pa.Table, kinds: Kinds) -> Mask:
        if not (kinds == RowKind.UPDATE_BEFORE).any():
            return np.zeros(0, dtype=np.bool_)
        same = np.ones(max(len(rows) - 1, 0), dtype=np.bool_)
        for column in self._columns(rows, self.schema.primary_key):
            same &= np.asarray(pc.equal(column.slice(0, len(same)), column.slice(1)))
        return same

    def _find_outranking(self, rows: pa.Table, kinds: Kinds) -> Mask | None:
        """Whether a row has a higher sequence than the one behind it; None where nothing depends on it."""
        fields = self.form.sequence_fields
        if not fields or not (kinds == RowKind.UPDATE_BEFORE).any():
            return None
        values = comparable_sequences(self._columns(rows, fields), self.form.sequence_descends)
        return np.asarray(values[:-1] > values[1:])

    def _encode_values(self, rows: pa.Table, kinds: Kinds, plan: MessagePlan, source: MessageSource) -> pa.Array:
        values = self._encode_rows(rows)
        if self.has_before:
            return to_debezium_texts(as_text(values), kinds, plan, source).cast(pa.binary())
        return values if plan.is_plain else values.take(pa.array(plan.rows, mask=plan.tombstones))

    def _encode_rows(self, rows: pa.Table) -> pa.Array:
        """Each row by itself."""
        names = self.schema.arrow.names
        if self.form.value_format == AVRO:
            return to_avro(self._columns(rows, names), to_value_fields(self.schema))
        return to_object_texts(names, self._columns(rows, names)).cast(pa.binary())

    def _encode_keys(self, rows: pa.Table) -> pa.Array | None:
        key = self.schema.primary_key
        if not key:
            return None
        if self.form.key_format == AVRO:
            return to_avro(self._columns(rows, key), to_key_fields(self.schema))
        return to_object_texts(key, self._columns(rows, key)).cast(pa.binary())

    def _encode_sequences(self, rows: pa.Table) -> pa.Array | None:
        fields = self.form.sequence_fields
        if not fields:
            return None
        columns = self._columns(rows, fields)
        return (to_json_texts(columns[0]) if len(columns) == 1 else to_array_texts(columns)).cast(pa.binary())

    @staticmethod
    def _columns(rows: pa.Table, names: Sequence[str]) -> list[pa.Array]:
        return [single_array(rows[name]) for name in names]


def _find_lengths(texts: pa.Array) -> Sizes:
    return np.asarray(pc.binary_length(texts)).astype(np.int64)
