"""Rule 7.7: tables, and what reads of their system tables return, however they are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lakelog.sdk.catalog import Catalog
from tests.conformance.drivers import SdkDriver
from tests.conformance.language import Step, TableSpec, append, compact, delete, tag, upsert

KEYED = TableSpec(
    "dt STRING NOT NULL, k INT NOT NULL, v STRING", key=("dt", "k"), partition=("dt",), options={"bucket": "1"}
)
LOOKUP = TableSpec("k INT NOT NULL, v STRING", key=("k",), options={"bucket": "1", "changelog-producer": "lookup"})
LOG = TableSpec("k INT, v STRING")
HISTORIES: dict[str, tuple[TableSpec, tuple[Step, ...]]] = {
    "keyed": (
        KEYED,
        (
            upsert("a|1|x", "b|2|y"),
            compact(),
            upsert("a|1|X", "a|3|z"),
            tag("old", 1),
            delete("b|2", columns=("dt", "k")),
        ),
    ),
    "lookup": (LOOKUP, (upsert("1|a", "2|b"), upsert("1|A", "3|c"), delete("2", columns=("k",)))),
    "log": (LOG, (append("1|a"), append("1|a", "2|null"))),
}


@dataclass(frozen=True)
class Case:
    """What a read of a system table returns, in any order."""

    table: str
    kind: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    filter: str | None = None
    at: int | None = None


def a(**values: Any) -> dict[str, Any]:
    return values


CASES = (
    Case(
        "keyed",
        "snapshots",
        ("id", "kind", "added_rows"),
        ((1, "APPEND", 2), (2, "COMPACT", 1), (3, "COMPACT", 1), (4, "APPEND", 2), (5, "APPEND", 1)),
    ),
    Case("keyed", "snapshots", ("id",), ((2,), (3,)), "id BETWEEN 2 AND 3"),
    Case("keyed", "snapshots", ("kind",), ((("COMPACT"),),), "id = 2"),
    Case(
        "keyed",
        "schemas",
        ("column", "type", "partition_position"),
        (("dt", "STRING", 1), ("k", "INT", None), ("v", "STRING", None)),
    ),
    Case("keyed", "options", ("key", "value"), (("bucket", "1"),)),
    Case("keyed", "tags", ("name", "snapshot_id", "rows"), (("old", 1, 2),)),
    Case("keyed", "consumers", ("id",), ()),
    Case("keyed", "log", ("topic", "offset"), ()),
    Case(
        "keyed",
        "files",
        ("partition", "bucket", "rows", "min_key", "deletes"),
        ((a(dt="a"), 0, 2, "1", 0),),
        "partition.dt = 'a' AND level = 0",
    ),
    Case("keyed", "files", ("partition", "rows"), ((a(dt="a"), 1), (a(dt="b"), 1)), at=1),
    Case("keyed", "files", ("rows",), ((1,), (1,)), "level > 0"),
    Case("keyed", "files", ("rows",), (), "bucket = 7"),
    Case("keyed", "partitions", ("partition", "files", "rows"), ((a(dt="a"), 2, 3), (a(dt="b"), 2, 2))),
    Case("keyed", "partitions", ("files",), ((1,),), "partition.dt = 'b'", 2),
    Case("keyed", "buckets", ("partition", "bucket", "runs", "rows"), ((a(dt="a"), 0, 2, 3), (a(dt="b"), 0, 2, 2))),
    Case("keyed", "ro", ("dt", "k", "v"), (("a", 1, "x"), ("b", 2, "y"))),
    Case("keyed", "ro", ("v",), (("y",),), "k = 2"),
    Case("keyed", "ro", ("v",), (), at=1),
    Case(
        "keyed",
        "audit_log",
        ("_row_kind", "k", "v"),
        (("+I", 1, "x"), ("+I", 2, "y"), ("-U", 1, "x"), ("+U", 1, "X"), ("+I", 3, "z"), ("-D", 2, "y")),
    ),
    Case("keyed", "audit_log", ("_row_kind", "v"), (("+I", "x"), ("-U", "x"), ("+U", "X")), "k = 1"),
    Case("keyed", "audit_log", ("_row_kind", "k"), (("+I", 1), ("+I", 2)), at=2),
    Case("keyed", "audit_log", ("k",), ((2,),), "_row_kind = '-D' AND k < 5"),
    # Which updates there are does not depend on the columns that are read.
    Case(
        "keyed",
        "audit_log",
        ("_row_kind", "dt"),
        (("-U", "a"), ("+U", "a"), ("+I", "a")),
        "k <> 2 AND v <> 'x' OR v = 'x' AND _row_kind = '-U'",
    ),
    Case("keyed", "changelog", ("_row_kind", "_snapshot_id", "k"), (("-D", 5, 2),), "_snapshot_id = 5"),
    Case("keyed", "changelog", ("_snapshot_id", "v"), ((4, "x"), (4, "X"), (4, "z")), "_snapshot_id > 1 AND dt = 'a'"),
    Case(
        "keyed",
        "binlog",
        ("_row_kind", "_snapshot_id", "k", "v"),
        (
            ("+I", 1, [1], ["x"]),
            ("+I", 1, [2], ["y"]),
            ("+U", 4, [1, 1], ["x", "X"]),
            ("+I", 4, [3], ["z"]),
            ("-D", 5, [2], ["y"]),
        ),
    ),
    Case("keyed", "binlog", ("v",), ((["x", "X"],),), "_row_kind = '+U'"),
    Case("lookup", "audit_log", ("_row_kind", "k"), (("+I", 1), ("+I", 2), ("-U", 1), ("+U", 1), ("+I", 3), ("-D", 2))),
    Case("lookup", "changelog", ("_row_kind", "v"), (("-D", "b"),), "_snapshot_id >= 3"),
    Case(
        "lookup",
        "binlog",
        ("_row_kind", "v"),
        (("+I", ["a"]), ("+I", ["b"]), ("+U", ["a", "A"]), ("+I", ["c"]), ("-D", ["b"])),
    ),
    Case("log", "ro", ("k", "v"), ((1, "a"), (1, "a"), (2, None))),
    Case("log", "audit_log", ("_row_kind", "k", "v"), (("+I", 1, "a"), ("+I", 1, "a"), ("+I", 2, None))),
    Case("log", "binlog", ("k", "v"), (([1], ["a"]), ([1], ["a"]), ([2], [None]))),
    Case("log", "files", ("partition", "rows", "min_key"), ((None, 1, None), (None, 2, None))),
    Case("log", "files", ("rows",), ((1,), (2,)), "statistics.k.min = 1"),
    Case("log", "files", ("rows",), ((2,),), "statistics.v.nulls = 1"),
)


def make_tables(catalog: Catalog) -> dict[str, str]:
    """Makes the tables of the cases; returns their names."""
    driver = SdkDriver(catalog)
    found = {}
    for key, (table, steps) in HISTORIES.items():
        found[key] = driver.create(table)
        for step in steps:
            driver.apply(found[key], table, step)
    return found


def sort_rows(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Rows in an order of their own."""
    return sorted((tuple(row.values()) for row in rows), key=repr)
