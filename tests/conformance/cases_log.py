"""Section 4: what the log holds of commits of each kind, in each form, and what a stream out of it shows."""

from __future__ import annotations

from dataclasses import replace

from tests.conformance.language import TableSpec, append, compact, delete, overwrite, rollback, upsert, write
from tests.conformance.log_language import ALL_KEYED, APPENDED, TWO, LogCase
from tests.conformance.stream_language import Compact

KV = TableSpec("k INT NOT NULL, v STRING", key=("k",), options={"bucket": "2"})
PT = TableSpec("pt STRING NOT NULL, k INT NOT NULL, v STRING", key=("pt", "k"), partition=("pt",))
KVS = TableSpec("k INT NOT NULL, v STRING, s INT", key=("k",), options={"sequence.field": "s"})
KVST = TableSpec("k INT NOT NULL, s INT, t STRING", key=("k",), options={"sequence.field": "s,t"})
LOOKUP = TableSpec("k INT NOT NULL, v STRING", key=("k",), options={"changelog-producer": "lookup"})
CHANGELOG = replace(LOOKUP, options={**LOOKUP.options, "log.content": "changelog"})
APPEND = TableSpec("k INT, v STRING")


def _with(table: TableSpec, **options: str) -> TableSpec:
    more = {key.replace("_", "-"): value for key, value in options.items()}
    return replace(table, options={**table.options, **more})


_AS_WRITTEN = (
    upsert("1|a", "1|b", "2|x"),
    write("+I 1|c", "-D 1|q", "+U 1|d"),
)
_AS_WRITTEN_HOLDS = {
    "all": {1: ("+I 1|a", "+I 1|b", "+I 2|x"), 2: ("+I 1|c", "-D 1|q", "+U 1|d")},
    "upsert": {1: ("+I 1|a", "+I 1|b", "+I 2|x"), 2: ("+I 1|c", "-D #1", "+U 1|d")},
}
_NET = {1: ("+I 1|b", "+I 2|x"), 2: ("-U 1|b", "+U 1|d")}

RECORDS = (
    LogCase("4.1 each record as it came, none merged", KV, _AS_WRITTEN, _AS_WRITTEN_HOLDS, _NET),
    LogCase(
        "4.1 the producer input governs files only",
        _with(KV, changelog_producer="input"),
        _AS_WRITTEN,
        _AS_WRITTEN_HOLDS,
        _AS_WRITTEN_HOLDS["all"],
        forms=TWO,
    ),
    LogCase("4.1 the producer lookup governs files only", LOOKUP, _AS_WRITTEN, _AS_WRITTEN_HOLDS, _NET, TWO),
    LogCase(
        "4.1 the producer full-compaction governs files only",
        _with(KV, changelog_producer="full-compaction", bucket="1"),
        (*_AS_WRITTEN, compact(), upsert("2|y")),
        {mode: {**holds, 4: ("+I 2|y",)} for mode, holds in _AS_WRITTEN_HOLDS.items()},
        {3: ("+I 1|d", "+I 2|x")},
        forms=TWO,
    ),
    LogCase(
        "4.1 rows that come second to others are in the log of first-row",
        _with(KV, merge_engine="first-row"),
        (upsert("1|a", "1|b"), upsert("1|c", "2|d")),
        {"every": {1: ("+I 1|a", "+I 1|b"), 2: ("+I 1|c", "+I 2|d")}},
        {1: ("+I 1|a",), 2: ("+I 2|d",)},
        forms=TWO,
    ),
    LogCase(
        "1.4 what ignore-delete drops is not in the log",
        _with(KV, ignore_delete="true"),
        (write("+I 1|a", "-D 1|a"), write("-U 1|a", "+U 1|b", "-U 7|x")),
        {"every": {1: ("+I 1|a",), 2: ("+U 1|b",)}},
        {1: ("+I 1|a",), 2: ("-U 1|a", "+U 1|b")},
        forms=TWO,
    ),
    LogCase(
        "1.4 what ignore-update-before drops is not in the log",
        _with(KV, ignore_update_before="true"),
        (upsert("1|a", "2|b"), write("-U 1|a", "+U 1|b", "-D 2|b")),
        {
            "all": {1: ("+I 1|a", "+I 2|b"), 2: ("+U 1|b", "-D 2|b")},
            "upsert": {1: ("+I 1|a", "+I 2|b"), 2: ("+U 1|b", "-D #2")},
        },
        {1: ("+I 1|a", "+I 2|b"), 2: ("-U 1|a", "+U 1|b", "-D 2|b")},
        forms=TWO,
    ),
    LogCase(
        "1.4 kinds may come out of a column",
        TableSpec("k INT NOT NULL, op STRING", key=("k",), options={"rowkind.field": "op"}),
        (write("1|+I", "2|+I"), write("1|-U", "1|+U", "2|-D")),
        {
            "debezium all": {1: ("+I 1|+I", "+I 2|+I"), 2: ("+U 1|-U > 1|+U", "-D 2|-D")},
            "debezium upsert": {1: ("+I 1|+I", "+I 2|+I"), 2: ("+U 1|-U > 1|+U", "-D #2")},
            "rows all": {1: ("+I 1|+I", "+I 2|+I"), 2: ("-U 1|-U", "+U 1|+U", "-D 2|-D")},
            "rows upsert": {1: ("+I 1|+I", "+I 2|+I"), 2: ("+U 1|+U", "-D #2")},
        },
        {1: ("+I 1|+I", "+I 2|+I"), 2: ("-U 1|+I", "+U 1|+U", "-D 2|+I")},
    ),
)

_BEGIN = {1: ("+I 1|a", "+I 2|b")}

KINDS = (
    LogCase(
        "4.4 each kind by itself",
        KV,
        (
            upsert("1|a", "2|b"),
            write("+U 1|A", "-D 2|b"),
            write("-U 1|A", "+U 1|B"),
            write("-U 1|B"),
            delete("9", columns=("k",)),
        ),
        {
            "debezium upsert": {**_BEGIN, 2: ("+U 1|A", "-D #2"), 3: ("+U 1|A > 1|B",), 4: ("-U #1",), 5: ("-D #9",)},
            "debezium all": {
                **_BEGIN,
                2: ("+U 1|A", "-D 2|b"),
                3: ("+U 1|A > 1|B",),
                4: ("-U 1|B",),
                5: ("-D 9|null",),
            },
            "rows upsert": {**_BEGIN, 2: ("+U 1|A", "-D #2"), 3: ("+U 1|B",), 4: ("-U #1",), 5: ("-D #9",)},
            "rows all": {
                **_BEGIN,
                2: ("+U 1|A", "-D 2|b"),
                3: ("-U 1|A", "+U 1|B"),
                4: ("-U 1|B",),
                5: ("-D 9|null",),
            },
        },
        {**_BEGIN, 2: ("-U 1|a", "+U 1|A", "-D 2|b"), 3: ("-U 1|A", "+U 1|B"), 4: ("-D 1|B",)},
        forms=ALL_KEYED,
    ),
    LogCase(
        "4.4 rows of other keys do not part a -U from its +U",
        KV,
        (upsert("1|a", "2|b"), write("-U 1|a", "-U 2|b", "+U 2|B", "+U 1|A")),
        {
            "debezium": {**_BEGIN, 2: ("+U 1|a > 1|A", "+U 2|b > 2|B")},
            "rows upsert": {**_BEGIN, 2: ("+U 1|A", "+U 2|B")},
            "rows all": {**_BEGIN, 2: ("-U 1|a", "+U 1|A", "-U 2|b", "+U 2|B")},
        },
        {**_BEGIN, 2: ("-U 1|a", "+U 1|A", "-U 2|b", "+U 2|B")},
        forms=TWO,
    ),
    LogCase(
        "4.4 a -U with another row of its key behind it",
        KV,
        (
            upsert("1|a", "2|b"),
            write("-U 1|a", "+I 1|x", "+U 1|A"),
            write("-U 1|A", "-U 1|x", "+U 1|B"),
            write("-U 1|B", "+I 1|C"),
            write("+U 1|D", "-U 1|D"),
        ),
        {
            "debezium upsert": {
                **_BEGIN,
                2: ("+I 1|x", "+U 1|A"),
                3: ("+U 1|x > 1|B",),
                4: ("+I 1|C",),
                5: ("+U 1|D", "-U #1"),
            },
            "debezium all": {
                **_BEGIN,
                2: ("-U 1|a", "+I 1|x", "+U 1|A"),
                3: ("-U 1|A", "+U 1|x > 1|B"),
                4: ("-U 1|B", "+I 1|C"),
                5: ("+U 1|D", "-U 1|D"),
            },
            "rows upsert": {
                **_BEGIN,
                2: ("+I 1|x", "+U 1|A"),
                3: ("+U 1|B",),
                4: ("+I 1|C",),
                5: ("+U 1|D", "-U #1"),
            },
            "rows all": {
                **_BEGIN,
                2: ("-U 1|a", "+I 1|x", "+U 1|A"),
                3: ("-U 1|A", "-U 1|x", "+U 1|B"),
                4: ("-U 1|B", "+I 1|C"),
                5: ("+U 1|D", "-U 1|D"),
            },
        },
        {
            **_BEGIN,
            2: ("-U 1|a", "+U 1|A"),
            3: ("-U 1|A", "+U 1|B"),
            4: ("-U 1|B", "+U 1|C"),
            5: ("-D 1|C",),
        },
    ),
    LogCase(
        "4.4 keys hold the partition columns",
        PT,
        (upsert("a|1|x", "b|1|y"), write("+U a|1|X", "-D b|1|y")),
        {
            "all": {1: ("+I a|1|x", "+I b|1|y"), 2: ("+U a|1|X", "-D b|1|y")},
            "upsert": {1: ("+I a|1|x", "+I b|1|y"), 2: ("+U a|1|X", "-D #b|1")},
        },
        {1: ("+I a|1|x", "+I b|1|y"), 2: ("-U a|1|x", "+U a|1|X", "-D b|1|y")},
        forms=("debezium auto", "json all", "avro upsert"),
    ),
    LogCase(
        "4.4 the sequence is in a header, of tombstones too",
        KVS,
        (upsert("1|a|5", "2|b|5"), upsert("1|late|3"), write("-D 2|b|6")),
        {
            "all": {1: ("+I 1|a|5", "+I 2|b|5"), 2: ("+I 1|late|3",), 3: ("-D 2|b|6",)},
            "upsert": {1: ("+I 1|a|5", "+I 2|b|5"), 2: ("+I 1|late|3",), 3: ("-D #2",)},
        },
        {1: ("+I 1|a|5", "+I 2|b|5"), 3: ("-D 2|b|5",)},
        forms=TWO,
        sequences={1: ("5", "5"), 2: ("3",), 3: ("6",)},
    ),
    LogCase(
        "4.4 an old row that beats the new one by its sequence is a message of its own",
        KVS,
        (upsert("1|a|5", "2|b|5"), write("-U 1|a|7", "+U 1|b|6", "-U 2|b|5", "+U 2|c|6")),
        {
            "debezium all": {1: ("+I 1|a|5", "+I 2|b|5"), 2: ("-U 1|a|7", "+U 1|b|6", "+U 2|b|5 > 2|c|6")},
            "debezium upsert": {1: ("+I 1|a|5", "+I 2|b|5"), 2: ("-U #1", "+U 1|b|6", "+U 2|b|5 > 2|c|6")},
            "rows upsert": {1: ("+I 1|a|5", "+I 2|b|5"), 2: ("-U #1", "+U 1|b|6", "+U 2|c|6")},
        },
        {1: ("+I 1|a|5", "+I 2|b|5"), 2: ("-D 1|a|5", "-U 2|b|5", "+U 2|c|6")},
        forms=("debezium auto", "avro upsert", "json upsert", "debezium all"),
        sequences={1: ("5", "5"), 2: ("7", "6", "6")},
    ),
    LogCase(
        "4.4 several sequence fields are an array",
        KVST,
        (upsert("1|5|x"), upsert("1|null|y")),
        {"every": {1: ("+I 1|5|x",), 2: ("+I 1|null|y",)}},
        {1: ("+I 1|5|x",)},
        forms=TWO,
        sequences={1: ('[5,"x"]',), 2: ('[null,"y"]',)},
    ),
)

_CHANGED = (
    upsert("1|a", "2|b"),
    write("+I 1|A", "+I 1|AA", "-D 2|other", "+I 3|c", "+I 4|d", "-D 4|d"),
    write("-D 9|x"),
    upsert("1|AA"),
)
_CHANGED_SHOWN = {**_BEGIN, 2: ("-U 1|a", "+U 1|AA", "-D 2|b", "+I 3|c"), 4: ("-U 1|AA", "+U 1|AA")}

CONTENTS = (
    LogCase(
        "4.4 the content input is what was written",
        LOOKUP,
        _CHANGED,
        {
            "all": {
                **_BEGIN,
                2: ("+I 1|A", "+I 1|AA", "-D 2|other", "+I 3|c", "+I 4|d", "-D 4|d"),
                3: ("-D 9|x",),
                4: ("+I 1|AA",),
            },
            "upsert": {
                **_BEGIN,
                2: ("+I 1|A", "+I 1|AA", "-D #2", "+I 3|c", "+I 4|d", "-D #4"),
                3: ("-D #9",),
                4: ("+I 1|AA",),
            },
        },
        _CHANGED_SHOWN,
        forms=TWO,
    ),
    LogCase(
        "4.4 the content changelog is each key's change with its old row",
        CHANGELOG,
        _CHANGED,
        {
            "debezium all": {**_BEGIN, 2: ("+U 1|a > 1|AA", "-D 2|b", "+I 3|c"), 4: ("+U 1|AA > 1|AA",)},
            "debezium upsert": {**_BEGIN, 2: ("+U 1|a > 1|AA", "-D #2", "+I 3|c"), 4: ("+U 1|AA > 1|AA",)},
            "rows all": _CHANGED_SHOWN,
            "rows upsert": {**_BEGIN, 2: ("+U 1|AA", "-D #2", "+I 3|c"), 4: ("+U 1|AA",)},
        },
        _CHANGED_SHOWN,
        forms=("debezium auto", "json upsert", "avro upsert", "json all", "avro all", "debezium all"),
    ),
    LogCase(
        "3.2 the content changelog leaves out equal rows with row-deduplicate",
        _with(CHANGELOG, **{"changelog-producer.row-deduplicate": "true"}),
        (upsert("1|a", "2|b"), upsert("1|a", "2|B")),
        {
            "debezium": {**_BEGIN, 2: ("+U 2|b > 2|B",)},
            "rows all": {**_BEGIN, 2: ("-U 2|b", "+U 2|B")},
        },
        {**_BEGIN, 2: ("-U 2|b", "+U 2|B")},
        forms=TWO,
    ),
)

APPENDS = (
    LogCase(
        "4.4 append tables: +I without keys",
        APPEND,
        (append("1|a", "2|b"), append("1|a")),
        {"every": {1: ("+I 1|a", "+I 2|b"), 2: ("+I 1|a",)}},
        {1: ("1|a", "2|b"), 2: ("1|a",)},
        forms=APPENDED,
    ),
    LogCase(
        "4.3 a bucket of an append table is a partition",
        replace(APPEND, options={"bucket": "3", "bucket-key": "k"}),
        (append(*(f"{k}|{n}" for n in range(3) for k in range(6))), append("1|z", "1|y")),
        {
            "every": {
                1: tuple(f"+I {k}|{n}" for n in range(3) for k in range(6)),
                2: ("+I 1|z", "+I 1|y"),
            }
        },
        {1: tuple(f"{k}|{n}" for n in range(3) for k in range(6)), 2: ("1|z", "1|y")},
        forms=TWO,
    ),
)

SILENT = (
    LogCase(
        "4.7 overwrites, rollbacks and compactions are not in the log",
        replace(KV, options={"bucket": "1"}),
        (upsert("1|a"), overwrite("2|b"), Compact(), rollback(1), upsert("3|c")),
        {"every": {1: ("+I 1|a",), 5: ("+I 3|c",)}},
        {1: ("+I 1|a",), 5: ("+I 3|c",)},
        forms=TWO,
    ),
    LogCase(
        "4.7 overwrites of an append table are not in the log",
        replace(APPEND, partition=("v",)),
        (append("1|a"), overwrite("2|a", partition="dynamic"), Compact(), append("3|a")),
        {"every": {1: ("+I 1|a",), 4: ("+I 3|a",)}},
        {1: ("1|a",), 4: ("3|a",)},
        forms=TWO,
    ),
)

CASES = (*RECORDS, *KINDS, *CONTENTS, *APPENDS, *SILENT)
