"""The system tables of a random table show what its other reads show (semantics 7.7)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tests.support.random_tables.conditions import Row, draw_condition
from tests.support.random_tables.history import History, sorted_rows

_OWN = ("_row_kind", "_snapshot_id")


def check_system_tables(history: History, count: int) -> None:
    """Changes agree with `changes`, and sums over files with the snapshots."""
    if not history.model.snapshots:
        return
    _check_sums(history)
    for _ in range(count):
        _check_changes(history)


def _check_sums(history: History) -> None:
    table = history.table
    for number, model in enumerate(history.model.snapshots, 1):
        files = table.system_table("files").scan(snapshot_id=number).to_arrow()
        total = pc.sum(files.column("rows")).as_py() or 0
        for kind in ("partitions", "buckets"):
            sums = table.system_table(kind).scan(["rows", "files"], snapshot_id=number).to_arrow()
            assert (pc.sum(sums.column("rows")).as_py() or 0) == total
            assert (pc.sum(sums.column("files")).as_py() or 0) == files.num_rows
        if not history.key:
            assert total == table.scan(snapshot_id=number).count() == len(model.rows)
            _check_statistics(files, model.rows)


def _check_statistics(files: pa.Table, rows: list[Row]) -> None:
    """The number of NULLs is exact, and the bounds of whole numbers are."""
    for name, column in ((each.name, each) for each in files.schema.field("statistics").type):
        found = [each for each in pc.struct_field(files.column("statistics"), name).to_pylist() if each is not None]
        if len(found) < files.num_rows:
            continue
        values = [row[name] for row in rows]
        assert sum(each["nulls"] for each in found) == values.count(None)
        if pa.types.is_integer(column.type.field("min").type) and any(value is not None for value in values):
            known = [value for value in values if value is not None]
            assert min(each["min"] for each in found if each["min"] is not None) == min(known)
            assert max(each["max"] for each in found if each["max"] is not None) == max(known)


def _check_changes(history: History) -> None:
    random, table = history.random, history.table
    until = random.randrange(len(history.model.snapshots)) + 1
    after = random.randrange(until)
    names = random.sample([*history.by_name], random.randrange(len(history.by_name) + 1))
    condition = draw_condition(random, history.columns, history.model.snapshots[until - 1].rows).sql or None
    between = {"incremental-between": f"{after},{until}"}
    own = [*_OWN]
    reported = f"{history!r}: changes of {after + 1} to {until}, columns {names}, filter {condition}"

    def read(kind: str, columns: list[str] | None, sql: str | None) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (
            table.system_table(kind).scan(columns, sql, options=between).to_arrow().to_pylist()
        )
        return found

    # All columns are compared, whichever are read.
    wanted = table.changes(after, until, columns=[*history.by_name, *own], filter=condition).to_arrow().to_pylist()
    picked = [{name: row[name] for name in (*own, *names)} for row in wanted]
    assert sorted_rows(read("changelog", [*own, *names], condition)) == sorted_rows(picked), reported
    without = [{name: row[name] for name in ("_row_kind", *names)} for row in wanted]
    assert sorted_rows(read("audit_log", ["_row_kind", *names], condition)) == sorted_rows(without), reported
    last = [row for row in picked if row["_snapshot_id"] == until]
    both = f"_snapshot_id = {until}" + (f" AND ({condition})" if condition else "")
    assert sorted_rows(read("changelog", [*own, *names], both)) == sorted_rows(last), reported
    whole = table.changes(after, until, columns=[*history.by_name, *own]).to_arrow().to_pylist()
    assert sorted_rows(_unpack(read("binlog", None, None))) == sorted_rows(whole), reported


def _unpack(rows: list[dict[str, Any]]) -> list[Row]:
    """The changes in the rows of `$binlog`."""
    found = []
    for row in rows:
        columns = {name: values for name, values in row.items() if name not in _OWN}
        (size,) = {len(values) for values in columns.values()}
        kinds = [row["_row_kind"]] if size == 1 else ["-U", "+U"]
        assert size == 1 or row["_row_kind"] == "+U"
        for place, kind in enumerate(kinds):
            values = {name: values[place] for name, values in columns.items()}
            found.append(values | {"_row_kind": kind, "_snapshot_id": row["_snapshot_id"]})
    return found
