"""Section 8: rows that a condition deletes (8.1 to 8.9); updates and merges are in `test_row_change_rules.py`."""

from __future__ import annotations

from tests.conformance.language import Case, TableSpec, append, compact, delete_where, overwrite, rollback, tag, upsert

LOG = TableSpec("id INT, v STRING")
BUCKETS = TableSpec("id INT, v STRING", options={"bucket": "1", "bucket-key": "id"})
PARTS = TableSpec("dt STRING, id INT", partition=("dt",))
KV = TableSpec("k INT NOT NULL, v STRING", key=("k",))
SEQ = TableSpec("k INT NOT NULL, s INT, v STRING", key=("k",), options={"sequence.field": "s"})
SHOWN = TableSpec("id INT, v STRING", options={"streaming-read-overwrite": "true"})

THREE = append("1|a", "2|b", "3|null")

CASES = (
    Case("8.1 the condition decides", LOG, (THREE, delete_where("id >= 2", snapshot=2)), ("1|a",)),
    Case(
        "8.1 NULL is not true", LOG, (THREE, delete_where("v <> 'a'"), delete_where("NOT (v = 'a')")), ("1|a", "3|null")
    ),
    Case(
        "8.1 where no row fulfils it there is no snapshot",
        LOG,
        (
            THREE,
            delete_where("id = 9", writer="w", identifier=1, snapshot=0),
            append("9|z", writer="w", identifier=1, snapshot=0),
        ),
        ("1|a", "2|b", "3|null"),
    ),
    Case(
        "8.1 a condition must be possible",
        LOG,
        (THREE, delete_where("nothing = 1", error="nothing")),
        at={1: ("1|a", "2|b", "3|null")},
    ),
    Case(
        "8.2 again and again",
        LOG,
        (THREE, append("4|d", "5|e"), delete_where("id IN (1, 4)"), delete_where("id = 5")),
        ("2|b", "3|null"),
    ),
    Case(
        "8.2 a file without a row left",
        LOG,
        (THREE, append("4|d"), delete_where("id < 4"), append("5|e")),
        ("4|d", "5|e"),
    ),
    Case(
        "8.2 whole partitions",
        PARTS,
        (append("a|1", "b|1", "c|1"), delete_where("dt IN ('a', 'c')"), append("a|2")),
        ("a|2", "b|1"),
    ),
    Case(
        "8.2 of several files of a bucket",
        BUCKETS,
        (append("1|a"), append("2|b", "3|c"), delete_where("id = 2")),
        ("1|a", "3|c"),
    ),
    Case(
        "8.3 with a key it is deletes",
        KV,
        (upsert("1|a", "2|b", "3|c"), delete_where("v > 'a'"), upsert("3|d")),
        ("1|a", "3|d"),
        changes={2: ("-D 2|b", "-D 3|c"), 3: ("+I 3|d",)},
    ),
    Case(
        "8.3 whatever the sequence",
        SEQ,
        (upsert("1|5|a", "2|9|b"), delete_where("s > 1"), upsert("1|4|late", "1|6|new")),
        ("1|6|new",),
    ),
    Case(
        "8.3 not where deletes are ignored",
        TableSpec("k INT NOT NULL, v STRING", key=("k",), options={"ignore-delete": "true"}),
        (upsert("1|a"), delete_where("k = 1", error="can be deleted")),
        ("1|a",),
    ),
    Case(
        "8.4 earlier states stay, and come back",
        LOG,
        (THREE, tag("all"), delete_where("id = 1"), delete_where("id = 2"), rollback(2), append("4|d")),
        ("2|b", "3|null", "4|d"),
        at={"all": ("1|a", "2|b", "3|null"), 3: ("3|null",), 2: ("2|b", "3|null")},
    ),
    Case(
        "8.5 a deletion shows nothing, and history stays",
        LOG,
        (THREE, delete_where("id = 1"), overwrite("7|g")),
        ("7|g",),
        changes={1: ("+I 1|a", "+I 2|b", "+I 3|null"), 2: (), 3: ()},
    ),
    Case(
        "8.5 a rollback shows what it brings back",
        SHOWN,
        (THREE, delete_where("id < 3"), rollback(1)),
        ("1|a", "2|b", "3|null"),
        changes={2: (), 3: ("+I 1|a", "+I 2|b")},
    ),
    Case(
        "8.7 a compaction changes no read",
        BUCKETS,
        (append("1|a"), append("2|b", "3|c"), append("4|d"), delete_where("id IN (2, 4)"), compact(), append("5|e")),
        ("1|a", "3|c", "5|e"),
        at={4: ("1|a", "3|c"), 5: ("1|a", "3|c"), 3: ("1|a", "2|b", "3|c", "4|d")},
    ),
    Case(
        "8.8 a guard holds",
        LOG,
        (THREE, append("4|d"), delete_where("id = 1", if_snapshot=1, error="if_snapshot=1")),
        ("1|a", "2|b", "3|null", "4|d"),
    ),
)
