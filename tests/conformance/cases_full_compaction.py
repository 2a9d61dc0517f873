"""Sections 3.2, 3.6 and 5: changelogs that full compactions tell, and what streams show of such tables.

The tables are write-only: nothing is compacted but by the steps.
"""

from __future__ import annotations

from tests.conformance.language import Case, TableSpec, compact, delete, overwrite, upsert, write
from tests.conformance.stream_language import Alter, StreamCase

PRODUCER = {"changelog-producer": "full-compaction", "write-only": "true"}
PT = TableSpec("pt INT NOT NULL, k INT NOT NULL, v INT", key=("pt", "k"), partition=("pt",), options=PRODUCER)
KV = TableSpec("k INT NOT NULL, v STRING", key=("k",), options=PRODUCER)
SEQ = TableSpec("k INT NOT NULL, s INT, v STRING", key=("k",), options={**PRODUCER, "sequence.field": "s"})
IGNORING = TableSpec(
    "k INT NOT NULL, v STRING, seen INT",
    key=("k",),
    options={
        **PRODUCER,
        "changelog-producer.row-deduplicate": "true",
        "changelog-producer.row-deduplicate-ignore-fields": "seen",
    },
)
PLAIN = TableSpec("k INT NOT NULL, v STRING", key=("k",), options={"write-only": "true"})

CASES = (
    Case(
        "3.8 the vectors by full-compaction",
        PT,
        (
            upsert("1|10|100", "1|20|200", "1|40|400"),
            write("+I 1|10|101", "+I 1|30|300", "+I 1|10|102", "-D 1|40|0"),
            compact(),
        ),
        expect=("1|10|102", "1|20|200", "1|30|300"),
        changes={1: (), 2: (), 3: ("+I 1|10|102", "+I 1|20|200", "+I 1|30|300")},
        raw={2: ("+I 1|10|102", "+I 1|30|300", "-D 1|40|0")},
    ),
    Case(
        "3.6 the difference between two full compactions",
        KV,
        (
            upsert("1|a", "2|b", "3|c"),
            compact(),
            upsert("1|x"),
            write("+U 1|y", "-D 2|?", "+I 4|d"),
            write("-D 4|d", "-D 9|?", "+I 5|e"),
            compact(),
        ),
        expect=("1|y", "3|c", "5|e"),
        at={2: ("1|a", "2|b", "3|c"), 5: ("1|y", "3|c", "5|e")},
        changes={3: (), 4: (), 5: (), 6: ("-U 1|a", "+U 1|y", "-D 2|b", "+I 5|e")},
    ),
    Case(
        "3.2 full-compaction: an equal row is told",
        KV,
        (upsert("1|a", "2|b"), compact(), upsert("1|a"), compact()),
        changes={4: ("-U 1|a", "+U 1|a")},
    ),
    Case(
        "3.2 full-compaction: row-deduplicate and fields that are ignored",
        IGNORING,
        (upsert("1|a|1", "2|b|1"), compact(), upsert("1|a|2", "2|c|2"), compact()),
        expect=("1|a|2", "2|c|2"),
        changes={4: ("-U 2|b|1", "+U 2|c|2")},
    ),
    Case(
        "3.6 the sequence decides, not the arrival",
        SEQ,
        (upsert("1|5|a"), compact(), upsert("1|7|b"), upsert("1|6|c"), delete("2|9", columns=("k", "s")), compact()),
        changes={6: ("-U 1|5|a", "+U 1|7|b")},
    ),
    Case(
        "5.2 an overwrite is told with the next full compaction",
        PT,
        (
            upsert("1|1|1", "1|2|2"),
            compact(),
            overwrite("1|2|3", "1|3|3", partition={"pt": 1}),
            upsert("1|4|4"),
            compact(),
        ),
        expect=("1|2|3", "1|3|3", "1|4|4"),
        changes={3: (), 5: ("-D 1|1|1", "-U 1|2|2", "+U 1|2|3", "+I 1|3|3", "+I 1|4|4")},
    ),
    Case(
        "5.2 an overwrite that leaves nothing is told with the next full compaction",
        PT,
        (upsert("1|1|1"), compact(), overwrite(partition={"pt": 1}), compact()),
        expect=(),
        changes={3: (), 4: ("-D 1|1|1",)},
    ),
)

_HISTORY = (upsert("1|a", "2|b"), compact(), upsert("2|B", "3|c"))
_THEN = (delete("1", columns=("k",)), compact(), upsert("3|d"), compact())
_CHANGES = {5: ("-D 1|a", "-U 2|b", "+U 2|B", "+I 3|c"), 7: ("-U 3|c", "+U 3|d")}


def begins(mode: str, **shows: tuple[str, ...]) -> StreamCase:
    """A stream of the history above."""
    own = {int(number[1:]): rows for number, rows in shows.items()}
    options = {"scan.mode": mode} if mode else {}
    return StreamCase(
        f"3.6 {mode or 'default'}: changes come with full compactions",
        KV,
        _HISTORY,
        _THEN,
        options,
        shows={**own, **_CHANGES},
    )


STREAMS = (
    begins("", _3=("+I 1|a", "+I 2|b")),
    begins("latest-full", _3=("+I 1|a", "+I 2|b")),
    begins("compacted-full", _3=("+I 1|a", "+I 2|b")),
    begins("latest"),
    StreamCase(
        "3.6 from-snapshot: changes come with full compactions",
        KV,
        _HISTORY,
        _THEN,
        {"scan.snapshot-id": "1"},
        shows={2: ("+I 1|a", "+I 2|b"), **_CHANGES},
    ),
    StreamCase(
        "3.6 as they were written rows come at once",
        KV,
        _HISTORY,
        _THEN,
        {"scan.remove-normalize": "true"},
        columns=("k", "v"),
        shows={3: ("+I 1|a", "+I 2|B", "+I 3|c"), 4: ("-D 1|null",), 6: ("+I 3|d",)},
    ),
    StreamCase(
        "3.6 an altered table tells what has changed since",
        PLAIN,
        (upsert("1|a", "2|b"),),
        (
            Alter({"changelog-producer": "full-compaction"}),
            upsert("2|c"),
            compact(),
            Alter({"changelog-producer": "lookup"}),
            compact(),
        ),
        shows={1: ("+I 1|a", "+I 2|b"), 3: ("-U 2|b", "+U 2|c")},
    ),
    StreamCase(
        "5.1 compacted-full: the state of the newest full compaction",
        PLAIN,
        (upsert("1|a", "2|b"), upsert("2|B"), compact(), upsert("1|x")),
        (upsert("3|c"),),
        {"scan.mode": "compacted-full"},
        shows={3: ("+I 1|a", "+I 2|B"), 4: ("-U 1|a", "+U 1|x"), 5: ("+I 3|c",)},
    ),
)
