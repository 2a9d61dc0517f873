"""Section 5.1: where a stream begins, and that it goes on from there with each change."""

from __future__ import annotations

from collections.abc import Mapping

from tests.conformance.language import TableSpec, append, delete, upsert, write
from tests.conformance.stream_language import Compact, Forget, StreamCase, Wait

KV = TableSpec("k INT NOT NULL, v STRING", key=("k",), options={"bucket": "2"})
LOG = TableSpec("k INT, v STRING")
LOOKUP = TableSpec("k INT NOT NULL, v STRING", key=("k",), options={"changelog-producer": "lookup"})
INPUT = TableSpec("k INT NOT NULL, v STRING", key=("k",), options={"changelog-producer": "input"})
FIRST = TableSpec("k INT NOT NULL, v STRING", key=("k",), options={"merge-engine": "first-row"})

Shows = Mapping[int, tuple[str, ...]]

HISTORY = (upsert("1|a", "2|b"), upsert("2|B"), delete("1", columns=("k",)))
THEN = (upsert("2|c", "3|d"),)
ROWS: Shows = {3: ("+I 2|B",)}
FIRST_CHANGES: Shows = {1: ("+I 1|a", "+I 2|b")}
SECOND: Shows = {2: ("-U 2|b", "+U 2|B")}
THIRD: Shows = {3: ("-D 1|a",)}
FOURTH: Shows = {4: ("-U 2|B", "+U 2|c", "+I 3|d")}
CHANGES: Shows = {**FIRST_CHANGES, **SECOND, **THIRD, **FOURTH}


def begins(rule: str, options: Mapping[str, str], *shows: Shows) -> StreamCase:
    """A stream of the history above."""
    return StreamCase(
        f"5.1 {rule}", KV, HISTORY, THEN, options, shows={n: rows for each in shows for n, rows in each.items()}
    )


def empty(rule: str, options: Mapping[str, str]) -> StreamCase:
    """A stream of a table in which nothing is yet: it shows all that comes."""
    shows = {1: ("+I 1|a",), 2: ("-U 1|a", "+U 1|b")}
    return StreamCase(f"5.1 {rule} of an empty table", KV, (), (upsert("1|a"), upsert("1|b")), options, shows=shows)


def wrong(options: Mapping[str, str], error: str) -> StreamCase:
    """What is no place to begin."""
    named = " with ".join(f"{key} {value}" for key, value in options.items())
    return StreamCase(f"5.1 refused: {named}", KV, HISTORY, options=options, error=error)


BEGINNINGS = (
    begins("default", {}, ROWS, FOURTH),
    begins("default by name", {"scan.mode": "default"}, ROWS, FOURTH),
    begins("latest-full", {"scan.mode": "latest-full"}, ROWS, FOURTH),
    begins("full is latest-full", {"scan.mode": "full"}, ROWS, FOURTH),
    begins("latest", {"scan.mode": "latest"}, FOURTH),
    begins("compacted-full without a compaction", {"scan.mode": "compacted-full"}, ROWS, FOURTH),
    begins("from-snapshot", {"scan.mode": "from-snapshot", "scan.snapshot-id": "2"}, SECOND, THIRD, FOURTH),
    begins("default resolves to from-snapshot", {"scan.snapshot-id": "3"}, THIRD, FOURTH),
    begins("from-snapshot 0 is the beginning", {"scan.snapshot-id": "0"}, CHANGES),
    begins(
        "from-snapshot-full 0 is the beginning", {"scan.mode": "from-snapshot-full", "scan.snapshot-id": "0"}, CHANGES
    ),
    begins(
        "a start that is kept is no position that fails",
        {"scan.snapshot-id": "1", "scan.expired-position": "fail"},
        CHANGES,
    ),
    begins("from-snapshot of the next one", {"scan.snapshot-id": "4"}, FOURTH),
    begins("from-snapshot above the newest waits", {"scan.snapshot-id": "5"}),
    begins(
        "from-snapshot-full",
        {"scan.mode": "from-snapshot-full", "scan.snapshot-id": "2"},
        {2: ("+I 1|a", "+I 2|B")},
        THIRD,
        FOURTH,
    ),
    begins(
        "from-snapshot-full of the newest", {"scan.mode": "from-snapshot-full", "scan.snapshot-id": "3"}, ROWS, FOURTH
    ),
    begins(
        "from-timestamp", {"scan.mode": "from-timestamp", "scan.timestamp-millis": "time of 2"}, SECOND, THIRD, FOURTH
    ),
    begins("default resolves to from-timestamp", {"scan.timestamp-millis": "time of 3"}, THIRD, FOURTH),
    begins("from-timestamp between two snapshots", {"scan.timestamp-millis": "after 1"}, SECOND, THIRD, FOURTH),
    begins("from-timestamp before all", {"scan.timestamp-millis": "0"}, CHANGES),
    begins("from-timestamp behind all", {"scan.timestamp-millis": "after 3"}, FOURTH),
    begins(
        "from-file-creation-time",
        {"scan.mode": "from-file-creation-time", "scan.file-creation-time-millis": "time of 2"},
        ROWS,
        FOURTH,
    ),
    begins("from-file-creation-time before all", {"scan.file-creation-time-millis": "0"}, ROWS, FOURTH),
    begins("from-file-creation-time behind all", {"scan.file-creation-time-millis": "after 3"}, FOURTH),
)

EMPTY_TABLES = (
    empty("latest-full", {"scan.mode": "latest-full"}),
    empty("latest", {"scan.mode": "latest"}),
    empty("compacted-full", {"scan.mode": "compacted-full"}),
    empty("from-snapshot", {"scan.snapshot-id": "1"}),
    empty("from-snapshot 0", {"scan.snapshot-id": "0"}),
    empty("from-snapshot-full 0", {"scan.mode": "from-snapshot-full", "scan.snapshot-id": "0"}),
    empty("from-snapshot that is to fail", {"scan.snapshot-id": "0", "scan.expired-position": "fail"}),
    empty("from-timestamp", {"scan.timestamp-millis": "0"}),
    empty("from-file-creation-time", {"scan.file-creation-time-millis": "0"}),
    StreamCase(
        "5.1 from-snapshot above all of an empty table",
        KV,
        then=(upsert("1|a"), upsert("1|b"), upsert("1|c")),
        options={"scan.snapshot-id": "3"},
        shows={3: ("-U 1|b", "+U 1|c")},
    ),
    StreamCase(
        "5.1 from-snapshot-full of an empty table",
        KV,
        options={"scan.mode": "from-snapshot-full", "scan.snapshot-id": "1"},
        error="Snapshot 1 of .* does not exist: its newest snapshot is 0.*'from-snapshot' to wait for it",
    ),
)

OTHERS = (
    StreamCase(
        "5.1 from-snapshot-full above the newest",
        KV,
        HISTORY,
        options={"scan.mode": "from-snapshot-full", "scan.snapshot-id": "4"},
        error="Snapshot 4 of .* does not exist: its newest snapshot is 3.*'from-snapshot' to wait for it",
    ),
    StreamCase(
        "5.1 from-snapshot below the earliest is clamped",
        KV,
        (*HISTORY, Forget(3)),
        THEN,
        {"scan.snapshot-id": "1"},
        shows={**THIRD, **FOURTH},
    ),
    StreamCase(
        "5.1 from-snapshot-full below the earliest is clamped",
        KV,
        (*HISTORY, Forget(3)),
        THEN,
        {"scan.mode": "from-snapshot-full", "scan.snapshot-id": "1"},
        shows={**ROWS, **FOURTH},
    ),
    StreamCase(
        "5.1 from-timestamp before the earliest is clamped",
        KV,
        (*HISTORY, Forget(2)),
        THEN,
        {"scan.timestamp-millis": "0"},
        shows={**SECOND, **THIRD, **FOURTH},
    ),
    StreamCase(
        "5.1 from-timestamp in the future waits",
        KV,
        HISTORY,
        (upsert("1|early"), Wait(2.5), upsert("1|now")),
        {"scan.timestamp-millis": "in 2"},
        shows={5: ("-U 1|early", "+U 1|now")},
    ),
    StreamCase(
        "5.1 from-timestamp at a compaction",
        KV,
        (*HISTORY, Compact()),
        (upsert("2|c"),),
        {"scan.timestamp-millis": "time of 4"},
        shows={5: ("-U 2|B", "+U 2|c")},
    ),
    StreamCase(
        "5.1 an append table: latest-full",
        LOG,
        (append("1|a", "1|a"), append("2|b")),
        (append("1|a"),),
        shows={2: ("1|a", "1|a", "2|b"), 3: ("1|a",)},
    ),
    StreamCase(
        "5.1 an append table: from-file-creation-time",
        LOG,
        (append("1|a", "1|a"), append("2|b"), append("3|c")),
        (append("1|a"),),
        {"scan.file-creation-time-millis": "time of 2"},
        shows={3: ("2|b", "3|c"), 4: ("1|a",)},
    ),
    StreamCase(
        "5.1 lookup: the rows, then the changelog",
        LOOKUP,
        HISTORY,
        (*THEN, upsert("3|d")),
        shows={**ROWS, **FOURTH, 5: ("-U 3|d", "+U 3|d")},
    ),
    StreamCase(
        "5.1 input: the rows, then what is written",
        INPUT,
        HISTORY,
        (write("+I 2|c", "-D 9|x", "+I 2|d"),),
        shows={**ROWS, 4: ("+I 2|c", "-D 9|x", "+I 2|d")},
    ),
    StreamCase(
        "5.1 first-row: the rows, then what is new",
        FIRST,
        (upsert("1|a"), upsert("1|b", "2|b")),
        (upsert("1|c", "2|c", "3|c"), upsert("3|d")),
        shows={2: ("+I 1|a", "+I 2|b"), 3: ("+I 3|c",)},
    ),
)

_KEYS = {
    "from-snapshot": "scan.snapshot-id",
    "from-snapshot-full": "scan.snapshot-id",
    "from-timestamp": "scan.timestamp-millis",
    "from-file-creation-time": "scan.file-creation-time-millis",
}
_PAIRS = (
    ("scan.snapshot-id", "scan.timestamp-millis"),
    ("scan.snapshot-id", "scan.file-creation-time-millis"),
    ("scan.timestamp-millis", "scan.file-creation-time-millis"),
)

ERRORS = (
    *(
        wrong({one: "1", other: "1"}, f"'{one}' and '{other}' both say where to begin. Give one")
        for one, other in _PAIRS
    ),
    *(
        wrong({"scan.mode": mode, key: "1"}, f"'{mode}' and '{key}' contradict each other: that mode takes none. Leave")
        for mode in ("latest", "latest-full", "compacted-full")
        for key in ("scan.snapshot-id", "scan.timestamp-millis", "scan.file-creation-time-millis")
    ),
    *(
        wrong({"scan.mode": mode, other: "1"}, f"'{mode}' and '{other}' contradict each other: that mode takes '{key}'")
        for mode, key in _KEYS.items()
        for other in sorted(set(_KEYS.values()) - {key})
    ),
    *(
        wrong({"scan.mode": mode}, f"'scan.mode' = '{mode}' needs the option '{key}'. Give it, too")
        for mode, key in _KEYS.items()
    ),
    *(
        StreamCase(
            f"5.6 {what} below the earliest fails where that is asked for",
            KV,
            (*HISTORY, Forget(3)),
            options={**options, "scan.expired-position": "fail"},
            error="lies before snapshot 3, and snapshots 3 to 3 are all that is kept. Give a later one, or leave "
            "'scan.expired-position' = 'fail' out",
        )
        for what, options in (
            ("from-snapshot", {"scan.snapshot-id": "2"}),
            ("from-snapshot 0", {"scan.snapshot-id": "0"}),
            ("from-snapshot-full", {"scan.mode": "from-snapshot-full", "scan.snapshot-id": "1"}),
            ("from-timestamp", {"scan.timestamp-millis": "0"}),
        )
    ),
    StreamCase(
        "5.6 from-timestamp behind the earliest does not fail",
        KV,
        (*HISTORY, Forget(3)),
        THEN,
        {"scan.timestamp-millis": "after 1", "scan.expired-position": "fail"},
        shows=FOURTH,
    ),
    wrong({"scan.mode": "incremental"}, "'scan.mode' = 'incremental' .*it is a read with an end.*incremental-between"),
    wrong({"scan.mode": "oldest"}, "'scan.mode' = 'oldest' is not possible"),
    wrong({"scan.snapshot-id": "x"}, "'scan.snapshot-id' = 'x' is not possible"),
    wrong({"scan.timestamp-millis": "-1"}, "'scan.timestamp-millis' = '-1' is not possible"),
    wrong({"scan.file-creation-time-millis": "now"}, "'scan.file-creation-time-millis' = 'now' is not possible"),
)

CASES = (*BEGINNINGS, *EMPTY_TABLES, *OTHERS, *ERRORS)
