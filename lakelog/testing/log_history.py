"""Compares what a plain consumer saw of a table's log with the table's snapshots. Pure, in columns.

It does not know how either was recorded: `lakelog.testing.log_recording` reads the consumer's recording and the table's
own data.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

RECORDS_SCHEMA: Final = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("snapshot", pa.int64()),
        ("uuid", pa.string()),
        ("idx", pa.int64()),
        ("kind", pa.string()),
        ("key", pa.string()),
        ("row", pa.string()),
        ("appended_ms", pa.int64()),
        ("seen_ms", pa.int64()),
    ]
)
"""The records that were seen: place, headers (NULL if a record has none), the key as text (NULL: none), the text that
identifies the row (unused for deletes), when the broker appended it, and when the consumer saw it."""

SNAPSHOTS_SCHEMA: Final = pa.schema(
    [("snapshot", pa.int64()), ("uuid", pa.string()), ("committed_at_ms", pa.int64()), ("is_whole", pa.bool_())]
)
"""The table's snapshots with rows for the log; `is_whole`: published in one transaction, as small ones are."""

ROWS_SCHEMA: Final = pa.schema(
    [("snapshot", pa.int64()), ("kind", pa.string()), ("key", pa.string()), ("row", pa.string())]
)
"""The rows that each snapshot must bring to the log, with texts as in `RECORDS_SCHEMA`."""

STATE_SCHEMA: Final = pa.schema([("key", pa.string()), ("row", pa.string())])
"""The table as it is read; the key is NULL in append tables."""

_EXAMPLES: Final = 5
_RETRACTS: Final = pa.array(["-D", "-U"])
_NULL: Final = "\x00"
_BETWEEN: Final = "\x1f"

Mask = npt.NDArray[np.bool_]


class LogViolation(enum.Enum):
    """What can be wrong with what a consumer saw."""

    LOST = "a row of the table is not in the log"
    DUPLICATE = "a row is in the log twice"
    ABORTED_READ = "a record is of a snapshot that the table does not have"
    EARLY = "a record was there before its snapshot"
    TORN = "a snapshot that is to appear whole did not"
    OUT_OF_ORDER = "records of a partition are not in the order of their snapshots and rows"
    PHANTOM = "a record has no headers of ours, or its snapshot has no such row"
    MISPLACED = "records of one key are in several partitions"
    REPLAY = "applied one after the other, the records are not the table"


@dataclass(frozen=True)
class LogFinding:
    """One kind of violation."""

    violation: LogViolation
    count: int
    examples: tuple[str, ...]

    def __str__(self) -> str:
        more = f" and {self.count - len(self.examples)} more" if self.count > len(self.examples) else ""
        return f"{self.violation.name}: {self.violation.value}: {'; '.join(self.examples)}{more}"


def check_log(
    records: pa.Table,
    snapshots: pa.Table,
    rows: pa.Table,
    *,
    state: pa.Table | None = None,
    published_until: int | None = None,
    rows_are_merged: bool = False,
    clock_error_ms: int = 0,
) -> list[LogFinding]:
    """Finds all violations in a `transactional` log (`log.consistency`) that was read from its beginning.

    Pure; linear except for sorting. For compacted topics, which lose records by design, use `check_replay`.

    Args:
        records: As `RECORDS_SCHEMA`, in any order; records with the same partition and offset were seen again and count
            once.
        snapshots: As `SNAPSHOTS_SCHEMA`, all snapshots that the table ever had.
        rows: As `ROWS_SCHEMA`, of all these snapshots.
        state: As `STATE_SCHEMA`, of the last published snapshot; None: no replay, because rows changed in another way
            (INSERT OVERWRITE), or because merging yields something else than the last row.
        published_until: Snapshots after this one need not be there; None: all must.
        rows_are_merged: `rows` has only the last row of each key and snapshot, as in a primary-key table's files.
        clock_error_ms: By how much the database's clock may be ahead of the broker's and the consumer's.

    Returns:
        The violations by kind, records before rows. Empty: every row of each published snapshot is there exactly
        once, in order, whole, and never before its snapshot, and nothing else is there.
    """
    seen = _sort_by_place(records)
    places = _find_snapshots(seen, snapshots)
    ours = _has_headers(seen)
    again = _repeats_row(seen, ours)
    counted = _count_rows(seen.filter(pa.array(~again & (places >= 0))), rows, rows_are_merged)
    until = published_until if published_until is not None else _newest(snapshots)
    found = [
        _find_records(LogViolation.ABORTED_READ, seen, ours & (places < 0)),
        _find_records(LogViolation.PHANTOM, seen, ~ours),
        _find_records(LogViolation.DUPLICATE, seen, again),
        _find_records(LogViolation.EARLY, seen, _is_uncommitted(seen, snapshots, places, clock_error_ms)),
        _find_records(LogViolation.TORN, seen, _is_split(seen, snapshots, places)),
        _find_records(LogViolation.TORN, *_find_late(seen, ~again, snapshots, places, clock_error_ms)),
        _find_records(LogViolation.OUT_OF_ORDER, *_find_disorder(seen.filter(pa.array(~again & ours)))),
        _find_records(LogViolation.MISPLACED, seen, _is_misplaced(seen)),
        *_compare_rows(counted, snapshots, until),
        *([_compare_state(seen, state)] if state is not None else []),
    ]
    return [finding for finding in found if finding is not None]


def check_replay(records: pa.Table, state: pa.Table) -> list[LogFinding]:
    """Applies the records, in the order of each partition, and compares the result with the table. Pure.

    Args:
        records: As `RECORDS_SCHEMA`; records that a later one of their key replaces may be missing.
        state: As `STATE_SCHEMA`.
    """
    seen = _sort_by_place(records)
    found = [_find_records(LogViolation.MISPLACED, seen, _is_misplaced(seen)), _compare_state(seen, state)]
    return [finding for finding in found if finding is not None]


# Single records


def _sort_by_place(records: pa.Table) -> pa.Table:
    """The records by partition and offset; each place once, as it was first seen."""
    seen = records.sort_by([("partition", "ascending"), ("offset", "ascending"), ("seen_ms", "ascending")])
    partitions, offsets = seen["partition"].to_numpy(), seen["offset"].to_numpy()
    return seen.filter(pa.array(~_equals_before(partitions, offsets)))


def _equals_before(*columns: npt.NDArray[Any]) -> Mask:
    """Whether a row has the same values in all columns as the row before it."""
    same = np.ones(len(columns[0]), dtype=bool)
    same[:1] = False
    for values in columns:
        same[1:] &= values[1:] == values[:-1]
    return same


def _find_snapshots(seen: pa.Table, snapshots: pa.Table) -> npt.NDArray[np.int64]:
    """For each record, the index of its snapshot's row; -1: no snapshot has its number and uuid."""
    names = _join_texts(snapshots["snapshot"], snapshots["uuid"])
    found = pc.index_in(_join_texts(seen["snapshot"], seen["uuid"]), value_set=names)
    return pc.fill_null(found, -1).cast(pa.int64()).to_numpy()


def _join_texts(*columns: pa.ChunkedArray) -> pa.Array:
    """One text for the values of several columns; NULL is a value of its own."""
    texts = [pc.fill_null(column.cast(pa.string()), _NULL) for column in columns]
    joined = pc.binary_join_element_wise(*texts, _BETWEEN)
    return joined.combine_chunks() if isinstance(joined, pa.ChunkedArray) else joined


def _newest(snapshots: pa.Table) -> int:
    return int(pc.max(snapshots["snapshot"]).as_py() or 0)


def _has_headers(seen: pa.Table) -> Mask:
    known = [pc.is_valid(seen[name]).to_numpy() for name in ("snapshot", "uuid", "idx", "kind")]
    return np.logical_and.reduce(known)


def _repeats_row(seen: pa.Table, ours: Mask) -> Mask:
    """Whether an earlier record, by place, belongs to the same row."""
    return ours & ~_is_first(_join_texts(seen["uuid"], seen["idx"]))


def _is_first(texts: pa.Array) -> Mask:
    _, firsts = np.unique(_encode(texts), return_index=True)
    mask = np.zeros(len(texts), dtype=bool)
    mask[firsts] = True
    return mask


def _is_last(texts: pa.Array) -> Mask:
    return _is_first(texts[::-1])[::-1]


def _encode(texts: pa.Array) -> npt.NDArray[np.int32]:
    """Equal numbers for equal texts; NULL is a value."""
    return texts.dictionary_encode("encode").indices.to_numpy()


def _is_uncommitted(seen: pa.Table, snapshots: pa.Table, places: npt.NDArray[np.int64], error_ms: int) -> Mask:
    committed_ms = _of_snapshot(snapshots["committed_at_ms"], places, 0)
    there_ms = np.minimum(seen["appended_ms"].to_numpy(), seen["seen_ms"].to_numpy())
    return there_ms < committed_ms - error_ms


def _of_snapshot(column: pa.ChunkedArray, places: npt.NDArray[np.int64], otherwise: Any) -> npt.NDArray[Any]:
    values = np.append(column.to_numpy(), [otherwise])
    return values[places]


def _is_split(seen: pa.Table, snapshots: pa.Table, places: npt.NDArray[np.int64]) -> Mask:
    """Whether a gap separates a record from the one before it of the same whole snapshot and partition.

    The end of a transaction takes an offset: the snapshot came in two transactions.
    """
    whole = _of_snapshot(snapshots["is_whole"], places, False).astype(bool)
    offsets = seen["offset"].to_numpy()
    apart = np.diff(offsets, prepend=offsets[:1]) != 1
    return whole & apart & _equals_before(seen["partition"].to_numpy(), places)


def _find_late(
    seen: pa.Table, firsts: Mask, snapshots: pa.Table, places: npt.NDArray[np.int64], error_ms: int
) -> tuple[pa.Table, Mask]:
    """The first records of rows, and which were appended after another of the same whole snapshot had been seen.

    A transaction shows its records only when all are there: the snapshot came in two, perhaps in two partitions.
    """
    whole = _of_snapshot(snapshots["is_whole"], places, False).astype(bool)
    seen, places = seen.filter(pa.array(firsts & whole)), places[firsts & whole]
    first_seen_ms = np.full(snapshots.num_rows, np.iinfo(np.int64).max)
    np.minimum.at(first_seen_ms, places, seen["seen_ms"].to_numpy())
    return seen, first_seen_ms[places] < seen["appended_ms"].to_numpy() - error_ms


def _find_disorder(seen: pa.Table) -> tuple[pa.Table, Mask]:
    """The records, and which of them follow one that should come later."""
    partitions, snapshots, indexes = (seen[name].to_numpy() for name in ("partition", "snapshot", "idx"))
    after = np.zeros(seen.num_rows, dtype=bool)
    after[1:] = (snapshots[1:] < snapshots[:-1]) | ((snapshots[1:] == snapshots[:-1]) & (indexes[1:] < indexes[:-1]))
    return seen, after & _equals_before(partitions)


def _is_misplaced(seen: pa.Table) -> Mask:
    """Whether a record's key was in another partition before."""
    keys = _encode(seen["key"].combine_chunks())
    by_key = np.argsort(keys, kind="stable")
    partitions = seen["partition"].to_numpy()[by_key]
    moved = _equals_before(keys[by_key]) & ~_equals_before(partitions)
    mask = np.zeros(seen.num_rows, dtype=bool)
    mask[by_key] = moved
    return mask & pc.is_valid(seen["key"]).to_numpy()


# Rows and states


def _count_rows(seen: pa.Table, rows: pa.Table, rows_are_merged: bool) -> pa.Table:
    """How often each row must be in the log (`expected`) and how often it is (`there`)."""
    if rows_are_merged:
        seen = seen.filter(pa.array(_is_last(_join_texts(seen["snapshot"], seen["key"]))))
    counts = [
        table.select(["snapshot"])
        .append_column("row", _join_texts(table["key"], _to_row(table)))
        .group_by(["snapshot", "row"])
        .aggregate([([], "count_all")])
        .rename_columns(["snapshot", "row", name])
        for name, table in (("expected", rows), ("there", seen))
    ]
    joined = counts[0].join(counts[1], ["snapshot", "row"], join_type="full outer")
    filled = [pc.fill_null(joined[name], 0) for name in ("expected", "there")]
    return pa.table([joined["snapshot"], joined["row"], *filled], names=["snapshot", "row", "expected", "there"])


def _to_row(table: pa.Table) -> pa.ChunkedArray:
    """The text that identifies the row; NULL for deletes, whose other values may be anything."""
    return pc.if_else(pc.is_in(table["kind"], value_set=_RETRACTS), pa.scalar(None, pa.string()), table["row"])


def _compare_rows(counted: pa.Table, snapshots: pa.Table, until: int) -> list[LogFinding | None]:
    numbers, expected, there = (counted[name].to_numpy() for name in ("snapshot", "expected", "there"))
    missing = np.where(numbers <= until, np.maximum(expected - there, 0), 0)
    extra = np.maximum(there - expected, 0)
    sums = counted.group_by("snapshot").aggregate([("expected", "sum"), ("there", "sum")])
    whole = pc.is_in(sums["snapshot"], value_set=snapshots.filter(snapshots["is_whole"])["snapshot"].combine_chunks())
    partly = pc.and_(pc.less(sums["there_sum"], sums["expected_sum"]), pc.greater(sums["there_sum"], 0))
    torn = sums.filter(pc.and_(whole, partly)).sort_by("snapshot")
    parts = [
        f"{part['there_sum']} of {part['expected_sum']} rows of snapshot {part['snapshot']}"
        for part in torn.slice(0, _EXAMPLES).to_pylist()
    ]
    return [
        _find_rows(LogViolation.LOST, counted, missing),
        _find_rows(LogViolation.DUPLICATE, counted, np.where(expected > 0, extra, 0)),
        _find_rows(LogViolation.PHANTOM, counted, np.where(expected > 0, 0, extra)),
        LogFinding(LogViolation.TORN, torn.num_rows, tuple(parts)) if parts else None,
    ]


def _compare_state(seen: pa.Table, state: pa.Table) -> LogFinding | None:
    left = seen
    if seen["key"].null_count < seen.num_rows:
        last = seen.filter(pa.array(_is_last(seen["key"].combine_chunks())))
        left = last.filter(pc.invert(pc.is_in(last["kind"], value_set=_RETRACTS)))
    counted = _count_rows(_to_rows(left), _to_rows(state), rows_are_merged=False)
    differs = np.abs(counted["expected"].to_numpy() - counted["there"].to_numpy())
    return _find_rows(LogViolation.REPLAY, counted.drop_columns("snapshot"), differs)


def _to_rows(state: pa.Table) -> pa.Table:
    count = state.num_rows
    numbers, kinds = pa.array(np.zeros(count, dtype=np.int64)), pa.nulls(count, pa.string())
    return pa.table([numbers, kinds, state["key"], state["row"]], schema=ROWS_SCHEMA)


# Messages


def _find_records(violation: LogViolation, seen: pa.Table, wrong: Mask) -> LogFinding | None:
    if not wrong.any():
        return None
    examples = [
        f"partition {each['partition']} offset {each['offset']} (snapshot {each['snapshot']}, idx {each['idx']}, "
        f"key {each['key']}, row {each['row']})"
        for each in seen.filter(pa.array(wrong)).slice(0, _EXAMPLES).to_pylist()
    ]
    return LogFinding(violation, int(wrong.sum()), tuple(examples))


def _find_rows(violation: LogViolation, counted: pa.Table, times: npt.NDArray[np.int64]) -> LogFinding | None:
    if not times.any():
        return None
    chosen = counted.filter(pa.array(times > 0))
    chosen = chosen.sort_by([(name, "ascending") for name in ("snapshot", "row") if name in chosen.column_names])
    return LogFinding(
        violation, int(times.sum()), tuple(_describe_row(each) for each in chosen.slice(0, _EXAMPLES).to_pylist())
    )


def _describe_row(counted: dict[str, Any]) -> str:
    key, _, row = counted["row"].replace(_NULL, "NULL").partition(_BETWEEN)
    snapshot = f"snapshot {counted['snapshot']}, " if "snapshot" in counted else ""
    return f"{snapshot}key {key}, row {row}: {counted['expected']} times in the table, {counted['there']} in the log"
