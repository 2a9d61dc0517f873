"""What a reader was shown of rows before their commit, and what it should be shown next (semantics 4.2, `eventual`).

Objectives, which conflict: a row is shown as soon as it was sent, though it may never be committed; at rest, the shown
changes, folded by key, are the table. So the overlay keeps two rows for each key that an open attempt has written: the
row *shown* last, and the *wanted* row. The wanted row is the row of the base, which is the last snapshot that was
shown, merged with the rows of the open attempts after it as their commits would merge them. After each event the
difference is emitted.

Committed rows win over older rows that are not committed. Once a snapshot has decided a key, rows of the key from
attempts that were opened before it come only with their commits. So a dead attempt hides nothing that was committed
after it, even before anything shows that it is dead.

Invariants:

1. For a key that is not kept here, the shown row is its row in the base.
2. A key is kept for as long as an open attempt has a row of it that is not left to its commit.
3. The shown row is the wanted row after the last event. So repeated rows emit nothing, rows of an aborted attempt are
   taken back, and of two writers of a key the result of their commits is shown in the end.

Nothing here knows of logs, files or attempts' states, and nothing loops over rows.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.format.keys.ordering import single_array
from lakelog.format.merge.changelog import ChangelogRules, find_difference
from lakelog.format.merge.runs import COMMIT_TIMESTAMP_COLUMN, MergeRun, find_deleted_rows
from lakelog.format.types.rowkind import ROW_KIND_COLUMN

KEY_COLUMN: Final = "\x1fkey"
"""The whole primary key as bytes that compare (`lakelog/format/keys/encoding.py`).

No column of a table has a control character in its name.
"""

_KEY: Final = pa.field(KEY_COLUMN, pa.binary())
_KIND: Final = pa.field(ROW_KIND_COLUMN, pa.int8())
_TIME: Final = pa.field(COMMIT_TIMESTAMP_COLUMN, pa.int64())
_MAX_CHUNKS: Final = 16


@dataclass(frozen=True)
class UncommittedRows:
    """Rows that an attempt has sent.

    Args:
        attempt_id: The attempt.
        rows: `KEY_COLUMN`, the table's columns, `_row_kind` (int8 codes), in the order of the attempt.
        opened_ms: When the attempt was opened, by the clock of the commits; 0: not known, so before any commit.
        are_late: Which of the rows can have been sent before the last snapshot that was shown; None: none.
    """

    attempt_id: str
    rows: pa.Table
    opened_ms: int = 0
    are_late: npt.NDArray[np.bool_] | None = None


@dataclass
class _Pending:
    rows: pa.Table
    sent_at_ms: int
    opened_ms: int


class UncommittedOverlay:
    """The keys of one table that open attempts have written. Does no I/O; one thread uses it.

    Args:
        schema: The table's columns that are read, including those of the key and of the sequence.
        rules: What decides between rows of a key, and which columns make an update worth emitting.
    """

    def __init__(self, schema: pa.Schema, rules: ChangelogRules) -> None:
        self._rules = replace(rules, key=(KEY_COLUMN,), drop_equal=True)
        self._row_schema = pa.schema([_KEY, *(each.remove_metadata().with_nullable(True) for each in schema)])
        self._sent_schema = pa.schema([*self._row_schema, _KIND])
        self._base: pa.Table = self.base_schema.empty_table()
        self._emitted: pa.Table = self._row_schema.empty_table()
        # In the order in which the attempts were first seen: their commits are assumed to come in this order.
        self._pending: dict[str, _Pending] = {}
        self._keys: pa.Array = pa.array([], _KEY.type)

    @property
    def base_schema(self) -> pa.Schema:
        """`KEY_COLUMN`, the table's columns, `_row_kind` (int8 codes), `_commit_timestamp` (int64 milliseconds)."""
        return pa.schema([*self._sent_schema, _TIME])

    @property
    def row_count(self) -> int:
        """How many rows of open attempts are kept."""
        return sum(each.rows.num_rows for each in self._pending.values())

    @property
    def keys(self) -> pa.Array:
        """The keys that are kept, each once, encoded."""
        return self._keys

    @property
    def rows(self) -> pa.Table:
        """A row of each kept key, for callers that need its columns."""
        return _first_of_keys(self._concat_pending())

    def find_unknown(self, uncommitted: Sequence[UncommittedRows]) -> pa.Table:
        """A row of each key that is not kept yet, for a lookup in the base."""
        rows = pa.concat_tables(
            [self._sent_schema.empty_table(), *(_coerce(each.rows, self._sent_schema) for each in uncommitted)]
        )
        return _first_of_keys(rows.filter(pc.invert(_is_in(rows, self._keys))))

    def add(self, uncommitted: Sequence[UncommittedRows], found: pa.Table, now_ms: int) -> pa.Table:
        """Adds rows of open attempts.

        Args:
            uncommitted: The rows, each of them for the first time.
            found: For the keys of `find_unknown` the records that decide them in the base (`base_schema`); including
                deletes.
            now_ms: When they were sent.

        Returns:
            The changes to show: `KEY_COLUMN`, the table's columns, `_row_kind` (int8 codes), by key, `-U` right before
            its `+U`.
        """
        records = _coerce(found, self.base_schema)
        self._base = _tidy(pa.concat_tables([self._base, records]))
        self._emitted = _tidy(pa.concat_tables([self._emitted, self._visible([MergeRun(records)])]))
        for each in uncommitted:
            empty = _Pending(self._sent_schema.empty_table(), now_ms, each.opened_ms)
            known = self._pending.setdefault(each.attempt_id, empty)
            known.rows = _tidy(pa.concat_tables([known.rows, self._leave_late(each)]))
        return self._update(_find_keys([each.rows for each in uncommitted]))

    def drop(self, attempt_ids: Collection[str]) -> pa.Table:
        """Takes back what aborted attempts have sent; returns the changes to show, as `add`."""
        return self._update(self._pop(attempt_ids))

    def resolve(self, attempt_id: str, touched: pa.Array, found: pa.Table, committed_at_ms: int) -> pa.Table:
        """Makes a snapshot the base.

        Args:
            attempt_id: The attempt of its commit; one that has sent nothing early is not known here.
            touched: Which of `keys` it wrote; additional ones do no harm.
            found: The records that decide these keys in it (`base_schema`), including deletes.
            committed_at_ms: When it was committed.

        Returns:
            The changes to show for the kept keys, as `add`; its changelog has those of other keys.
        """
        is_touched = _is_in(self._base, touched)
        records = _coerce(found, self.base_schema)
        before = self._base.filter(is_touched)
        gone = before.filter(pc.invert(_is_in(before, _find_keys([records]))))
        self._base = _tidy(pa.concat_tables([self._base.filter(pc.invert(is_touched)), records]))
        own = self._pop([attempt_id])
        for pending in self._pending.values():
            newer = _find_newer(records, pending.opened_ms)
            if gone.num_rows and committed_at_ms > pending.opened_ms:
                newer = single_array(pa.chunked_array([newer, *gone.column(KEY_COLUMN).chunks], _KEY.type))
            if len(newer):
                pending.rows = pending.rows.filter(pc.invert(_is_in(pending.rows, newer)))
        return self._update(pc.unique(pa.chunked_array([touched, own], _KEY.type)))

    def _leave_late(self, uncommitted: UncommittedRows) -> pa.Table:
        """The rows without those that can be older than rows that were committed after the attempt was opened."""
        rows = _coerce(uncommitted.rows, self._sent_schema)
        if uncommitted.are_late is None or not uncommitted.are_late.any():
            return rows
        is_older = _is_in(rows, _find_newer(self._base, uncommitted.opened_ms))
        return rows.filter(pc.invert(pc.and_(is_older, pa.array(uncommitted.are_late))))

    def _pop(self, attempt_ids: Collection[str]) -> pa.Array:
        """Forgets attempts, and returns their keys."""
        return _find_keys([self._pending.pop(each).rows for each in attempt_ids if each in self._pending])

    def _update(self, keys: pa.Array) -> pa.Table:
        """Returns the changes of some keys, and forgets keys that no open attempt has."""
        changes = self._emit_changes(keys)
        self._keys = self._find_keys()
        self._base = self._base.filter(_is_in(self._base, self._keys))
        self._emitted = self._emitted.filter(_is_in(self._emitted, self._keys))
        return changes

    def _emit_changes(self, keys: pa.Array) -> pa.Table:
        """Marks the wanted rows of some keys as shown, and returns the difference."""
        concerns = _is_in(self._emitted, keys)
        old = self._emitted.filter(concerns)
        runs = [MergeRun(self._base.filter(_is_in(self._base, keys)))]
        for pending in self._pending.values():
            rows = pending.rows.filter(_is_in(pending.rows, keys))
            if rows.num_rows:
                runs.append(MergeRun(rows, pending.sent_at_ms, sorted_unique=False))
        new = self._visible(runs)
        self._emitted = _tidy(pa.concat_tables([self._emitted.filter(pc.invert(concerns)), new]))
        return find_difference(old, new, self._rules)

    def _visible(self, runs: Sequence[MergeRun]) -> pa.Table:
        """What a read would show of some runs."""
        deleted = find_deleted_rows(
            runs,
            self._rules.key,
            self._rules.sequence,
            sequence_descending=self._rules.sequence_descending,
            delete_retention_ms=self._rules.delete_retention_ms,
        )
        left = [
            pa.table(run.table)
            .select(self._row_schema.names)
            .take(pa.array(np.delete(np.arange(run.table.num_rows), gone)))
            for run, gone in zip(runs, deleted, strict=True)
        ]
        return pa.concat_tables([self._row_schema.empty_table(), *left])

    def _concat_pending(self) -> pa.Table:
        return pa.concat_tables([self._sent_schema.empty_table(), *(each.rows for each in self._pending.values())])

    def _find_keys(self) -> pa.Array:
        return _find_keys([each.rows for each in self._pending.values()])


def _coerce(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows with these columns, whatever their nullability."""
    return pa.Table.from_arrays([rows.column(name) for name in schema.names], schema=schema)


def _find_keys(tables: Sequence[pa.Table]) -> pa.Array:
    """The keys of some rows, each once."""
    chunks = [chunk for table in tables for chunk in table.column(KEY_COLUMN).chunks]
    return pc.unique(pa.chunked_array(chunks, _KEY.type))


def _find_newer(records: pa.Table, opened_ms: int) -> pa.Array:
    """The keys of the records that were committed after an attempt was opened."""
    is_newer = pc.fill_null(pc.greater(records.column(COMMIT_TIMESTAMP_COLUMN), opened_ms), True)
    return single_array(records.column(KEY_COLUMN).filter(is_newer))


def _is_in(rows: pa.Table, keys: pa.Array) -> pa.ChunkedArray:
    return pc.is_in(rows.column(KEY_COLUMN), value_set=keys)


def _first_of_keys(rows: pa.Table) -> pa.Table:
    keys = rows.column(KEY_COLUMN).combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
    return rows.take(pa.array(np.unique(keys, return_index=True)[1]))


def _tidy(rows: pa.Table) -> pa.Table:
    """The same in one chunk if it has many small ones."""
    return rows.combine_chunks() if rows.column(0).num_chunks > _MAX_CHUNKS else rows
