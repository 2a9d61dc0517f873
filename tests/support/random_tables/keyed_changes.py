"""What changed in a random table: the difference of each two states that follow each other, or its input."""

from __future__ import annotations

import dataclasses

import pyarrow as pa

from lakelog.reads.changes import NormalizedChanges
from tests.support.random_tables.conditions import Condition, Row, draw_condition
from tests.support.random_tables.history import History, sorted_rows


def alter_producer(history: History) -> None:
    """Later commits bring another changelog, or none."""
    if not history.key:
        return
    history.producer = history.random.choice(("none", "lookup") if history.keeps_first else ("none", "input", "lookup"))
    # Those of `lookup` are refused with another one.
    own = [each for each in history.options if each.startswith("changelog-producer.")]
    history.table.alter(set={"changelog-producer": history.producer}, unset=own)
    kept = {key: value for key, value in history.options.items() if key not in own}
    history.options = kept | {"changelog-producer": history.producer}


def check_keyed_changes(history: History, count: int) -> None:
    """What changed between two snapshots is what the table's producer is meant to tell."""
    if not history.key or not history.model.snapshots:
        return
    for _ in range(count):
        until = history.random.randrange(len(history.model.snapshots)) + 1
        after = history.random.randrange(until)
        names = history.random.sample([*history.by_name], history.random.randrange(len(history.by_name) + 1))
        condition = draw_condition(history.random, history.columns, history.model.snapshots[until - 1].rows)
        reported = f"{history!r}: changes of {after + 1} to {until}, columns {names}, filter {condition.sql}"
        scan = history.table.changes(
            after, until, columns=[*names, "_row_kind", "_snapshot_id"], filter=condition.sql or None
        )
        rows = scan._rows
        if history.producer == "none":
            assert isinstance(rows, NormalizedChanges)
            # Commits told together, one by one, and a large one by key ranges.
            rows = dataclasses.replace(rows, emitted_rows=history.random.choice((1, 10, 100, 10**6)))
        found = pa.Table.from_batches(list(rows.read_batches()), scan.schema).to_pylist()
        assert scan.count() == len(found), reported
        emit = _input if history.producer == "input" else _difference
        wanted = [row for number in range(after + 1, until + 1) for row in emit(history, number, names, condition)]
        assert sorted_rows(found) == sorted_rows(wanted), reported
        assert [row["_snapshot_id"] for row in found] == sorted(row["_snapshot_id"] for row in found), reported


def _difference(history: History, number: int, names: list[str], condition: Condition) -> list[Row]:
    model = history.model.snapshots[number - 1]
    if model.kind != "APPEND":
        return []
    before = history.model.snapshots[number - 2].rows if number > 1 else []
    old, new = ({repr([row[name] for name in history.key]): row for row in rows} for rows in (before, model.rows))
    compared = {*names, *condition.columns}
    drops_equal = True
    if history.producer == "lookup":
        ignored = history.options.get("changelog-producer.row-deduplicate-ignore-fields")
        compared = {*history.by_name} - {ignored}
        drops_equal = "changelog-producer.row-deduplicate" in history.options
    found: list[Row] = []
    for key in old.keys() | new.keys():
        rows = (old.get(key), new.get(key))
        if all(row is not None for row in rows):
            if key not in model.touched or history.keeps_first:
                continue
            if drops_equal and len({repr([row[name] for name in sorted(compared)]) for row in rows if row}) == 1:
                continue
            kinds = ("-U", "+U")
        else:
            kinds = ("-D", "+I")
        for row, kind in zip(rows, kinds, strict=True):
            if row is not None and condition.says(row) is True:
                found.append({name: row[name] for name in names} | {"_row_kind": kind, "_snapshot_id": number})
    return found


def _input(history: History, number: int, names: list[str], condition: Condition) -> list[Row]:
    """Every record as it was written, also what another one of the commit replaced."""
    model = history.model.snapshots[number - 1]
    if model.kind != "APPEND":
        return []
    return [
        {name: record.row[name] for name in names} | {"_row_kind": record.kind, "_snapshot_id": number}
        for record in model.records
        if condition.says(record.row) is True
    ]
