"""What users do with lakelog, by the SDK alone: `python usual_work.py STEP DATABASE`, in either version.

It imports nothing of the tests, as a version runs it that has none. `LAKELOG_TARGET` and `LAKELOG_READER` name the
services. It prints a line of JSON with what it has found.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import pyarrow as pa

import lakelog

WAIT_S = 60.0
SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
TABLES = ("events", "orders", "prices")


def rows(first: int, count: int, what: str) -> pa.Table:
    return pa.table({"k": range(first, first + count), "v": [f"{what} {n}" for n in range(count)]}, schema=SCHEMA)


def make(catalog: Any, database: str) -> None:
    catalog.create_database(database)
    logged = {"log.system": "kafka"}
    catalog.create_table(f"{database}.events", SCHEMA, options=logged)
    keyed = {"bucket": "2", "changelog-producer": "lookup", **logged, "log.content": "changelog", "log.format": "json"}
    catalog.create_table(f"{database}.orders", SCHEMA, primary_key=["k"], options=keyed)
    catalog.create_table(f"{database}.prices", SCHEMA, primary_key=["k"], options={"bucket": "1"})


def write(catalog: Any, database: str, first: int, what: str) -> None:
    """Each kind of write: appends, upserts, deletions, an overwrite, two tables at once, a numbered commit."""
    events, orders, prices = (catalog.table(f"{database}.{name}") for name in TABLES)
    events.append(rows(first, 5, what))
    orders.upsert(rows(first, 6, what))
    orders.upsert(rows(first + 1, 2, f"{what} again"))
    orders.delete(rows(first + 5, 1, ""))
    with catalog.transaction() as tx:
        tx.table(f"{database}.events").append(rows(first + 5, 2, f"{what} together"))
        tx.table(f"{database}.prices").upsert(rows(first, 3, f"{what} together"))
    name = f"writer-{what}"
    catalog.register_writer(name)
    number = (catalog.last_identifier(name, f"{database}.prices") or 0) + 1
    prices.upsert(rows(first + 3, 1, f"{what} numbered"), writer=name, identifier=number)
    again = prices.upsert(rows(first + 3, 1, f"{what} numbered"), writer=name, identifier=number)
    assert again.already_applied


def work(catalog: Any, database: str) -> None:
    """Makes tables and does all that users do with them."""
    make(catalog, database)
    for turn, what in enumerate(("first", "second", "third")):
        write(catalog, database, 10 * turn, what)
    prices = catalog.table(f"{database}.prices")
    before = snapshots(prices)[-1]
    prices.tags.create("kept", snapshot_id=before)
    prices.upsert(rows(0, 2, "regretted"))
    prices.rollback_to("kept")
    compacted = catalog.table(f"{database}.orders").compact(full=True, timeout=WAIT_S)
    assert compacted.buckets, compacted
    catalog.table(f"{database}.events").compact(timeout=WAIT_S)
    write(catalog, database, 30, "fourth")
    catalog.create_table(f"{database}.gone", SCHEMA)
    catalog.table(f"{database}.gone").append(rows(0, 1, "back"))
    catalog.drop_table(f"{database}.gone")
    assert catalog.restore_table(f"{database}.gone").scan().count() == 1
    prices.alter(set={"snapshot.num-retained.max": "100"})


def snapshots(table: Any) -> list[int]:
    return [int(each) for each in table.snapshots().column("id").to_pylist()]


def follow(table: Any, **options: Any) -> list[str]:
    """All changes of a table, by a subscription that has reached its newest snapshot."""
    newest, give_up_s = snapshots(table)[-1], time.monotonic() + WAIT_S
    found: list[str] = []
    with table.subscribe("from-snapshot", options={"scan.snapshot-id": "1"}, **options) as stream:
        while (stream.position or 0) < newest:
            batch = stream.read(0.05)
            if batch is not None:
                found += [" ".join(map(str, each.values())) for each in batch.data.to_pylist()]
            assert time.monotonic() < give_up_s, f"{table.name}: {len(found)} changes, at {stream.position}"
    return sorted(found)


def see(catalog: Any, database: str) -> dict[str, Any]:
    """Everything that can be read: rows, a condition, an earlier state, changes by files, logs and the reader."""
    seen: dict[str, Any] = {}
    for name in TABLES:
        table = catalog.table(f"{database}.{name}")
        seen[name] = sorted(f"{row['k']} {row['v']}" for row in table.scan().to_arrow().to_pylist())
        assert table.scan(filter="k >= 10").count() == sum(int(each.split()[0]) >= 10 for each in seen[name])
        seen[f"{name} at 2"] = table.scan(snapshot_id=2).count()
        direct = follow(table, reader="")
        assert follow(table) == direct, "by the reader service"
        seen[f"{name} changes"] = direct
        changed = table.changes(1, snapshots(table)[-1])
        seen[f"{name} changed"] = changed.to_arrow().num_rows
        checked = table.check_files()
        assert not checked.broken_files, checked
    seen["tagged"] = catalog.table(f"{database}.prices").scan(tag="kept").count()
    return seen


def load(catalog: Any, database: str, writer: str, count: int) -> list[str]:
    """Commits numbered rows one after the other, and returns what was acknowledged."""
    events, orders = catalog.table(f"{database}.events"), catalog.table(f"{database}.orders")
    catalog.register_writer(writer)
    for number in range(1, count + 1):
        value = pa.table({"k": [number], "v": [f"{writer} {number}"]}, schema=SCHEMA)
        events.append(value, writer=writer, identifier=number)
        orders.upsert(value, writer=writer, identifier=number)
        time.sleep(0.05)
    return [f"{writer} {number}" for number in range(1, count + 1)]


def read(catalog: Any, database: str, count: int) -> list[list[Any]]:
    """The first rows of a subscription that is open all the time, each with its snapshot."""
    found: list[list[Any]] = []
    give_up_s = time.monotonic() + WAIT_S
    with catalog.table(f"{database}.events").subscribe("from-snapshot", options={"scan.snapshot-id": "1"}) as stream:
        while len(found) < count:
            batch = stream.read(0.5)
            if batch is not None:
                found += [[batch.snapshot_id, value] for value in batch.data.column("v").to_pylist()]
            assert time.monotonic() < give_up_s, f"only {len(found)} rows"
    return found


def do(catalog: Any, step: str, database: str, *words: str) -> Any:
    """Does a step, and returns what it has found."""
    if step == "make":
        return make(catalog, database)
    if step == "work":
        work(catalog, database)
        return see(catalog, database)
    if step == "go on":
        before = see(catalog, database)
        write(catalog, database, 50, "by the other")
        return [before, see(catalog, database)]
    if step == "load":
        return load(catalog, database, words[0], int(words[1]))
    assert step == "read", step
    return read(catalog, database, int(words[0]))


def main() -> int:
    with lakelog.connect() as catalog:
        found = do(catalog, *sys.argv[1:])
    sys.stdout.write(json.dumps({"lakelog": lakelog.__file__, "found": found}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
