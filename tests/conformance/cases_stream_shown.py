"""Sections 5.2 to 5.4: what a stream shows and leaves out, in which order, with which columns and rows."""

from __future__ import annotations

from dataclasses import replace

from tests.conformance.language import TableSpec, append, delete, overwrite, upsert, write
from tests.conformance.stream_language import Alter, Compact, StreamCase

KV = TableSpec("k INT NOT NULL, v STRING", key=("k",), options={"bucket": "2"})
WIDE = TableSpec("k INT NOT NULL, v STRING, w INT", key=("k",))
RATES = TableSpec("currency STRING NOT NULL, rate INT", key=("currency",))
PT = TableSpec("pt INT NOT NULL, k INT NOT NULL, v STRING", key=("pt", "k"), partition=("pt",))
LOG = TableSpec("k INT, v STRING")
LOG_PT = TableSpec("pt STRING, k INT", partition=("pt",))
ORDERED = TableSpec("k INT, v STRING", options={"bucket": "2", "bucket-key": "k"})
LOOKUP = TableSpec("k INT NOT NULL, v STRING", key=("k",), options={"changelog-producer": "lookup"})
LOOKUP_WIDE = replace(WIDE, options={"changelog-producer": "lookup"})
INPUT = TableSpec("k INT NOT NULL, v STRING", key=("k",), options={"changelog-producer": "input"})
FIRST = TableSpec("k INT NOT NULL, v STRING", key=("k",), options={"merge-engine": "first-row"})
OPEN = replace(KV, options={"bucket": "2", "streaming-read-overwrite": "true"})

ALL = {"scan.snapshot-id": "1"}
SHOWN = {"streaming-read-overwrite": "true"}
HIDDEN = {"streaming-read-overwrite": "false"}

_FOUR = (upsert("1|a", "2|b"), upsert("1|A"), Compact(), upsert("1|x", "2|B"))
_FOUR_SHOWN = {1: ("+I 1|a", "+I 2|b"), 2: ("-U 1|a", "+U 1|A"), 4: ("-U 1|A", "+U 1|x", "-U 2|b", "+U 2|B")}

COMPACTIONS = (
    StreamCase("5.2 a compaction that was", KV, _FOUR, options=ALL, shows=_FOUR_SHOWN),
    StreamCase("5.2 a compaction while it runs", KV, then=_FOUR, shows=_FOUR_SHOWN),
    StreamCase("5.2 from a compaction on", KV, _FOUR, options={"scan.snapshot-id": "3"}, shows={4: _FOUR_SHOWN[4]}),
    StreamCase(
        "5.2 the rows at a compaction", KV, _FOUR[:3], _FOUR[3:], shows={3: ("+I 1|A", "+I 2|b"), 4: _FOUR_SHOWN[4]}
    ),
    StreamCase("5.2 a compaction with lookup", LOOKUP, _FOUR, options=ALL, shows=_FOUR_SHOWN),
    StreamCase("5.2 a compaction while it runs with lookup", LOOKUP, then=_FOUR, shows=_FOUR_SHOWN),
    StreamCase(
        "5.2 a compaction with input",
        INPUT,
        _FOUR,
        options=ALL,
        shows={1: ("+I 1|a", "+I 2|b"), 2: ("+I 1|A",), 4: ("+I 1|x", "+I 2|B")},
    ),
    StreamCase(
        "5.2 a compaction with first-row",
        FIRST,
        (upsert("1|a"), upsert("1|A", "2|b"), Compact(), upsert("1|x", "3|c")),
        options=ALL,
        shows={1: ("+I 1|a",), 2: ("+I 2|b",), 4: ("+I 3|c",)},
    ),
    StreamCase(
        "5.2 a compaction of an append table",
        LOG,
        (append("1|a"), append("1|a", "2|b")),
        (Compact(), append("3|c")),
        ALL,
        shows={1: ("1|a",), 2: ("1|a", "2|b"), 4: ("3|c",)},
    ),
    StreamCase(
        "5.2 a compaction shows nothing of what was written",
        KV,
        _FOUR,
        options=ALL | {"scan.remove-normalize": "true"},
        shows={1: ("+I 1|a", "+I 2|b"), 2: ("+I 1|A",), 4: ("+I 1|x", "+I 2|B")},
    ),
)

_REPLACED = (upsert("1|a", "2|b"), overwrite("2|B", "3|c"), upsert("3|C"))
_REPLACED_HIDDEN = {1: ("+I 1|a", "+I 2|b"), 3: ("-U 3|c", "+U 3|C")}
_REPLACED_SHOWN = {**_REPLACED_HIDDEN, 2: ("-D 1|a", "-U 2|b", "+U 2|B", "+I 3|c")}
_APPENDED = (append("1|a"), overwrite("1|a", "2|b"), append("3|c"))
_PARTS = (upsert("1|1|a", "2|1|b"), overwrite("1|2|c", partition={"pt": 1}), overwrite("2|1|x", partition="dynamic"))

OVERWRITES = (
    StreamCase("5.2 an overwrite that was", KV, _REPLACED, options=ALL, shows=_REPLACED_HIDDEN),
    StreamCase("5.2 an overwrite while it runs", KV, then=_REPLACED, shows=_REPLACED_HIDDEN),
    StreamCase("5.2 an overwrite shown", KV, _REPLACED, options=ALL | SHOWN, shows=_REPLACED_SHOWN),
    StreamCase("5.2 an overwrite shown while it runs", KV, then=_REPLACED, options=SHOWN, shows=_REPLACED_SHOWN),
    StreamCase("5.2 an overwrite shown as the table says", OPEN, then=_REPLACED, shows=_REPLACED_SHOWN),
    StreamCase("5.2 what the stream says wins", OPEN, then=_REPLACED, options=HIDDEN, shows=_REPLACED_HIDDEN),
    StreamCase("5.2 an overwrite with lookup", LOOKUP, _REPLACED, options=ALL, shows=_REPLACED_HIDDEN),
    StreamCase("5.2 an overwrite shown with lookup", LOOKUP, _REPLACED, options=ALL | SHOWN, shows=_REPLACED_SHOWN),
    StreamCase(
        "5.2 an overwrite shown to who runs with lookup", LOOKUP, then=_REPLACED, options=SHOWN, shows=_REPLACED_SHOWN
    ),
    StreamCase(
        "5.2 an overwrite of an append table",
        LOG,
        then=_APPENDED,
        shows={1: ("1|a",), 3: ("3|c",)},
    ),
    StreamCase(
        "5.2 an overwrite shown of an append table",
        LOG,
        then=_APPENDED,
        options=SHOWN,
        shows={1: ("1|a",), 2: ("1|a", "2|b"), 3: ("3|c",)},
    ),
    StreamCase(
        "5.2 overwrites of partitions shown",
        PT,
        _PARTS,
        options=ALL | SHOWN,
        shows={1: ("+I 1|1|a", "+I 2|1|b"), 2: ("-D 1|1|a", "+I 1|2|c"), 3: ("-U 2|1|b", "+U 2|1|x")},
    ),
    StreamCase("5.2 overwrites of partitions", PT, _PARTS, options=ALL, shows={1: ("+I 1|1|a", "+I 2|1|b")}),
    StreamCase(
        "5.2 an overwrite that empties, shown",
        KV,
        (upsert("1|a", "2|b"), overwrite()),
        (upsert("1|c"),),
        ALL | SHOWN,
        shows={1: ("+I 1|a", "+I 2|b"), 2: ("-D 1|a", "-D 2|b"), 3: ("+I 1|c",)},
    ),
)

_MANY = tuple(upsert(*(f"{key}|{number}" for key in range(12))) for number in range(4))

ORDERS = (
    StreamCase(
        "5.3 snapshot by snapshot over many buckets",
        replace(KV, options={"bucket": "5"}),
        _MANY,
        (upsert("1|x"), upsert("1|y", "2|y")),
        ALL,
        shows={
            1: tuple(f"+I {key}|0" for key in range(12)),
            **{
                n + 1: tuple(line for key in range(12) for line in (f"-U {key}|{n - 1}", f"+U {key}|{n}"))
                for n in (1, 2, 3)
            },
            5: ("-U 1|3", "+U 1|x"),
            6: ("-U 1|x", "+U 1|y", "-U 2|3", "+U 2|y"),
        },
    ),
    StreamCase(
        "5.3 buckets of an append table",
        ORDERED,
        tuple(append(*(f"{key}|{number}" for key in range(6))) for number in range(3)),
        (append("1|x"), append("1|y")),
        ALL,
        shows={
            **{n + 1: tuple(f"{key}|{n}" for key in range(6)) for n in range(3)},
            4: ("1|x",),
            5: ("1|y",),
        },
    ),
    StreamCase(
        "5.4 a partition that comes while it runs",
        PT,
        (upsert("1|1|a"),),
        (upsert("2|1|b"), upsert("3|1|c", "1|1|A"), delete("2|1", columns=("pt", "k"))),
        shows={1: ("+I 1|1|a",), 2: ("+I 2|1|b",), 3: ("+I 3|1|c", "-U 1|1|a", "+U 1|1|A"), 4: ("-D 2|1|b",)},
    ),
    StreamCase(
        "5.4 a partition of an append table that comes while it runs",
        LOG_PT,
        (append("x|1"),),
        (append("y|2", "null|3"),),
        shows={1: ("x|1",), 2: ("y|2", "null|3")},
    ),
)

_RATES = (
    upsert("Euro|114", "Yen|1"),
    upsert("Euro|116"),
    upsert("Euro|114", "Yen|2"),
    delete("Euro", columns=("currency",)),
)
_WIDE = (upsert("1|a|1", "2|b|2"), upsert("1|a|5", "2|c|2"), delete("1", columns=("k",)))

VIEWS = (
    StreamCase(
        "5.4 a filter tests each change row alone",
        RATES,
        _RATES,
        options=ALL,
        filter="rate = 114",
        apart=True,
        shows={1: ("+I Euro|114",), 2: ("-U Euro|114",), 3: ("+U Euro|114",), 4: ("-D Euro|114",)},
    ),
    StreamCase(
        "5.4 a filter on the key",
        RATES,
        _RATES[:2],
        _RATES[2:],
        filter="currency = 'Yen'",
        shows={2: ("+I Yen|1",), 3: ("-U Yen|1", "+U Yen|2")},
    ),
    StreamCase(
        "5.4 a filter on a changelog of lookup",
        replace(RATES, options={"changelog-producer": "lookup"}),
        _RATES,
        options=ALL,
        filter="rate = 114",
        apart=True,
        shows={1: ("+I Euro|114",), 2: ("-U Euro|114",), 3: ("+U Euro|114",), 4: ("-D Euro|114",)},
    ),
    StreamCase(
        "5.4 no update where no column that is read has changed",
        WIDE,
        _WIDE,
        options=ALL,
        columns=("k", "v"),
        shows={1: ("+I 1|a", "+I 2|b"), 2: ("-U 2|b", "+U 2|c"), 3: ("-D 1|a",)},
    ),
    StreamCase(
        "5.4 a column of the filter is read",
        WIDE,
        _WIDE,
        options=ALL,
        columns=("v",),
        filter="w < 9",
        shows={1: ("+I a", "+I b"), 2: ("-U a", "+U a", "-U b", "+U c"), 3: ("-D a",)},
    ),
    StreamCase(
        "5.4 a projection to the key shows no updates",
        WIDE,
        _WIDE,
        options=ALL,
        columns=("k",),
        shows={1: ("+I 1", "+I 2"), 3: ("-D 1",)},
    ),
    StreamCase(
        "5.4 a changelog of lookup stands as it is",
        LOOKUP_WIDE,
        _WIDE,
        options=ALL,
        columns=("v", "k"),
        shows={1: ("+I a|1", "+I b|2"), 2: ("-U a|1", "+U a|1", "-U b|2", "+U c|2"), 3: ("-D a|1",)},
    ),
    StreamCase(
        "5.4 the rows that it begins with",
        WIDE,
        _WIDE[:2],
        _WIDE[2:],
        columns=("w",),
        filter="v = 'a' OR k = 2",
        shows={2: ("+I 5", "+I 2"), 3: ("-D 5",)},
    ),
    StreamCase(
        "5.4 an append table",
        LOG,
        (append("1|a", "2|b"),),
        (append("2|c", "null|d"), append("3|e")),
        columns=("v",),
        filter="k = 2",
        shows={1: ("b",), 2: ("c",)},
    ),
    StreamCase("5.4 a column that is not there", KV, columns=("k", "w"), error="has no column 'w'; near it are"),
    StreamCase(
        "5.4 a filter on a column that is not there",
        KV,
        filter="w = 1",
        error="There is no column 'w'. Nearest are 'k', 'v'",
    ),
    StreamCase(
        "5.4 a filter of a wrong type",
        KV,
        filter="v > 1",
        error="Column 'v' of type STRING cannot be compared by > with 1 of type INT",
    ),
    StreamCase(
        "3.3 what was written, deletes with it",
        KV,
        (upsert("1|a"), write("+U 1|b", "-D 2|x")),
        options=ALL | {"scan.remove-normalize": "true"},
        apart=True,
        shows={1: ("+I 1|a",), 2: ("+U 1|b", "-D 2|x")},
    ),
    StreamCase(
        "3.3 first rows may not be streamed raw",
        FIRST,
        options={"scan.remove-normalize": "true"},
        error="Option 'scan.remove-normalize' is not possible for .*'merge-engine' = 'first-row' rows as they were",
    ),
    StreamCase(
        "3.5 a producer that is altered",
        KV,
        (upsert("1|a"),),
        (
            Alter({"changelog-producer": "lookup"}),
            upsert("1|b"),
            upsert("1|b"),
            Alter({"changelog-producer": "none"}),
            upsert("1|b", "2|c"),
        ),
        shows={1: ("+I 1|a",), 2: ("-U 1|a", "+U 1|b"), 3: ("-U 1|b", "+U 1|b"), 4: ("+I 2|c",)},
    ),
)

CASES = (*COMPACTIONS, *OVERWRITES, *ORDERS, *VIEWS)
