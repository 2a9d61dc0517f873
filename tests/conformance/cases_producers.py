"""Sections 2.4, 3.1, 3.2, 3.4 and 3.5: what the changelog files of commits hold, and the merge engine `first-row`."""

from __future__ import annotations

from tests.conformance.language import Case, TableSpec, delete, overwrite, upsert, write

PT = "pt INT NOT NULL, k INT NOT NULL, v INT"
LOOKUP = TableSpec("k INT NOT NULL, v STRING", key=("k",), options={"changelog-producer": "lookup"})
LOOKUP4 = TableSpec("k INT NOT NULL, v STRING", key=("k",), options={"changelog-producer": "lookup", "bucket": "4"})
LOOKUP_PT = TableSpec(PT, key=("pt", "k"), partition=("pt",), options={"changelog-producer": "lookup"})
LOOKUP_SEQ = TableSpec(
    "k INT NOT NULL, s INT, v STRING", key=("k",), options={"changelog-producer": "lookup", "sequence.field": "s"}
)
DEDUPLICATED = TableSpec(
    "k INT NOT NULL, v DOUBLE, w STRING",
    key=("k",),
    options={"changelog-producer": "lookup", "changelog-producer.row-deduplicate": "true"},
)
IGNORING = TableSpec(
    "k INT NOT NULL, v INT, seen INT",
    key=("k",),
    options={
        "changelog-producer": "lookup",
        "changelog-producer.row-deduplicate": "true",
        "changelog-producer.row-deduplicate-ignore-fields": "seen",
    },
)
NESTED = TableSpec(
    "k INT NOT NULL, v BINARY, d DECIMAL(10, 2)",
    key=("k",),
    options={"changelog-producer": "lookup", "changelog-producer.row-deduplicate": "true"},
)
INPUT = TableSpec("k INT NOT NULL, v STRING", key=("k",), options={"changelog-producer": "input"})
INPUT_BUFFERS = TableSpec(
    "k INT NOT NULL, v STRING",
    key=("k",),
    options={"changelog-producer": "input", "write-buffer-size": "1 kb", "target-file-size": "1 kb"},
)
INPUT_PT = TableSpec(PT, key=("pt", "k"), partition=("pt",), options={"changelog-producer": "input"})
FIRST = TableSpec("k INT NOT NULL, v STRING", key=("k",), options={"merge-engine": "first-row"})
FIRST_LOOKUP = TableSpec(
    "k INT NOT NULL, v STRING",
    key=("k",),
    options={"merge-engine": "first-row", "changelog-producer": "lookup", "bucket": "2"},
)
FIRST_IGNORING = TableSpec(
    "k INT NOT NULL, v STRING", key=("k",), options={"merge-engine": "first-row", "ignore-delete": "true"}
)

_KINDS = ("+I", "-D", "-U", "+U")
_FIRST = upsert("1|10|100", "1|20|200", "1|40|400")
_SECOND = write("+I 1|10|101", "+I 1|30|300", "+I 1|10|102", "-D 1|40|0")

LOOKUP_CASES = (
    Case(
        "3.8 the vectors by lookup",
        LOOKUP_PT,
        (_FIRST, _SECOND),
        changes={
            1: ("+I 1|10|100", "+I 1|20|200", "+I 1|40|400"),
            2: ("-U 1|10|100", "+U 1|10|102", "+I 1|30|300", "-D 1|40|400"),
        },
        raw={2: ("+I 1|10|102", "+I 1|30|300", "-D 1|40|0")},
    ),
    Case("3.1 lookup: a delete of an absent key", LOOKUP, (upsert("1|a"), write("-D 2|x")), changes={2: ()}),
    Case(
        "3.1 lookup: a delete tells the old values whatever it carried",
        LOOKUP,
        (upsert("1|a"), write("-D 1|other"), upsert("1|b"), delete("1", columns=("k",))),
        changes={2: ("-D 1|a",), 3: ("+I 1|b",), 4: ("-D 1|b",)},
    ),
    Case(
        "3.1 lookup: insert and delete of a new key in one commit",
        LOOKUP,
        (write("+I 1|a", "-D 1|a", "+I 2|b", "-D 2|b", "+I 2|c"),),
        changes={1: ("+I 2|c",)},
    ),
    Case(
        "3.1 lookup: one net change a key and commit",
        LOOKUP4,
        (upsert(*(f"{i}|a" for i in range(8))), write("-D 1|a", "+I 1|b", "+U 2|b", "-U 2|b", "+U 2|c", "-D 3|x")),
        changes={2: ("-U 1|a", "+U 1|b", "-U 2|a", "+U 2|c", "-D 3|a")},
    ),
    Case(
        "3.1 lookup: a retraction alone is a delete",
        LOOKUP,
        (upsert("1|a", "2|b"), write("-U 1|a")),
        expect=("2|b",),
        changes={2: ("-D 1|a",)},
    ),
    Case("3.2 lookup: an equal row is told", LOOKUP, (upsert("1|a"), upsert("1|a")), changes={2: ("-U 1|a", "+U 1|a")}),
    Case(
        "3.2 row-deduplicate: an equal row is not told",
        DEDUPLICATED,
        (upsert("1|nan|null", "2|0.0|x"), upsert("1|nan|null", "2|-0.0|x"), upsert("2|-0.0|x")),
        changes={2: ("-U 2|0.0|x", "+U 2|-0.0|x"), 3: ()},
    ),
    Case(
        "3.2 row-deduplicate compares bytes and decimals",
        NESTED,
        (upsert("1|ab|1.10", "2|ab|1.10"), upsert("1|ab|1.1", "2|abc|1.10")),
        changes={2: ("-U 2|ab|1.10", "+U 2|abc|1.10")},
    ),
    Case(
        "3.2 ignored fields are stored all the same",
        IGNORING,
        (upsert("1|5|1"), upsert("1|5|2"), upsert("1|6|3")),
        expect=("1|6|3",),
        at={2: ("1|5|2",)},
        changes={2: (), 3: ("-U 1|5|2", "+U 1|6|3")},
    ),
    Case(
        "3.1 lookup: the sequence decides, not the arrival",
        LOOKUP_SEQ,
        (upsert("1|5|a"), upsert("1|7|b", "1|6|c"), delete("1|8", columns=("k", "s")), upsert("1|7|d")),
        expect=(),
        changes={2: ("-U 1|5|a", "+U 1|7|b"), 3: ("-D 1|7|b",), 4: ()},
    ),
    Case(
        "5.2 lookup: what comes behind an overwrite is told against its rows",
        LOOKUP,
        (upsert("1|a", "2|b"), overwrite("1|x"), upsert("1|y", "2|z")),
        changes={2: (), 3: ("-U 1|x", "+U 1|y", "+I 2|z")},
    ),
)

INPUT_CASES = (
    Case(
        "3.8 the vectors by input",
        INPUT_PT,
        (_FIRST, _SECOND),
        expect=("1|10|102", "1|20|200", "1|30|300"),
        changes={2: ("+I 1|10|101", "+I 1|10|102", "+I 1|30|300", "-D 1|40|0")},
        raw={2: ("+I 1|10|102", "+I 1|30|300", "-D 1|40|0")},
        ordered_changes=True,
    ),
    Case(
        "3.4 input: all kinds as written, nothing merged or checked",
        INPUT,
        (write("-U 1|a", "+U 1|b", "-D 2|x", "+I 3|c", "-D 3|c"),),
        expect=("1|b",),
        changes={1: ("-U 1|a", "+U 1|b", "-D 2|x", "+I 3|c", "-D 3|c")},
        ordered_changes=True,
    ),
    Case(
        "3.4 input: by key, then arrival, however many tasks and buffers there are",
        INPUT_BUFFERS,
        (write(*(f"{_KINDS[turn % 4]} {key}|{turn:060d}" for turn in range(12) for key in (9, 2, 7, 4))),),
        changes={1: tuple(f"{_KINDS[turn % 4]} {key}|{turn:060d}" for key in (2, 4, 7, 9) for turn in range(12))},
        ordered_changes=True,
    ),
    Case("3.4 input: overwrites add nothing", INPUT, (upsert("1|a"), overwrite("1|b")), changes={2: ()}),
)

FIRST_ROW_CASES = (
    Case(
        "2.4 the vector",
        FIRST,
        (upsert("1|1", "2|2"), upsert("1|3")),
        expect=("1|1", "2|2"),
        changes={1: ("+I 1|1", "+I 2|2"), 2: ()},
    ),
    Case(
        "2.4 the vector in one commit",
        FIRST,
        (upsert("1|1", "2|2", "1|3"),),
        expect=("1|1", "2|2"),
        changes={1: ("+I 1|1", "+I 2|2")},
    ),
    Case(
        "2.4 lookup: only what is new is told",
        FIRST_LOOKUP,
        (upsert("1|a", "2|b", "1|x"), write("+U 2|y", "+I 3|c"), upsert("3|z", "1|z", "4|d")),
        expect=("1|a", "2|b", "3|c", "4|d"),
        at={1: ("1|a", "2|b")},
        changes={1: ("+I 1|a", "+I 2|b"), 2: ("+I 3|c",), 3: ("+I 4|d",)},
    ),
    Case(
        "2.4 the first row stays, also with NULLs",
        FIRST,
        (upsert("1|null"), upsert("1|a")),
        expect=("1|null",),
        changes={2: ()},
    ),
    Case(
        "2.4 deletes are refused",
        FIRST,
        (
            upsert("1|a"),
            write("-D 1|a", error="kind -D cannot be written.*ignore-delete"),
            write("+I 2|b", "-U 1|a", error="kind -U cannot be written.*ignore-delete"),
            delete("1", columns=("k",), error="first-row"),
        ),
        expect=("1|a",),
    ),
    Case(
        "2.4 deletes are dropped with ignore-delete",
        FIRST_IGNORING,
        (upsert("1|a"), write("-D 1|a", "-U 1|a", "+I 1|b", "+I 2|c")),
        expect=("1|a", "2|c"),
        changes={2: ("+I 2|c",)},
    ),
    Case(
        "2.4 an overwrite begins anew",
        FIRST,
        (upsert("1|a", "2|b"), overwrite("1|x"), upsert("1|y", "2|z")),
        expect=("1|x", "2|z"),
        changes={2: (), 3: ("+I 2|z",)},
    ),
)

CASES = (*LOOKUP_CASES, *INPUT_CASES, *FIRST_ROW_CASES)
