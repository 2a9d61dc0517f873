"""Section 7: rollbacks, and time travel by tags."""

from __future__ import annotations

from tests.conformance.language import Case, TableSpec, append, delete, overwrite, rollback, tag, upsert, write

KV = TableSpec("k INT NOT NULL, v STRING", key=("k",))
LOG = TableSpec("id INT, v STRING")
ORDERED = TableSpec("id INT, v STRING", options={"bucket": "1", "bucket-key": "v"})
SHOWN = TableSpec("k INT NOT NULL, v STRING", key=("k",), options={"streaming-read-overwrite": "true"})
LOOKUP = TableSpec(
    "k INT NOT NULL, v STRING",
    key=("k",),
    options={"changelog-producer": "lookup", "streaming-read-overwrite": "true"},
)

CASES = (
    Case(
        "7.3 what came since goes",
        KV,
        (upsert("1|a", "2|b"), upsert("1|c", "3|d"), rollback(1, snapshot=3), upsert("3|e")),
        ("1|a", "2|b", "3|e"),
        at={2: ("1|c", "2|b", "3|d"), 3: ("1|a", "2|b")},
    ),
    Case(
        "7.3 what went since is back",
        KV,
        (upsert("1|a"), upsert("1|b", "2|c"), overwrite("9|z"), rollback(2), delete("2", columns=("k",))),
        ("1|b",),
        at={4: ("1|b", "2|c"), 3: ("9|z",)},
    ),
    Case(
        "7.3 it can be rolled back too",
        LOG,
        (append("1|a"), append("2|b"), rollback(1), rollback(2, snapshot=4), rollback(3, snapshot=5)),
        ("1|a",),
        at={4: ("1|a", "2|b")},
    ),
    Case(
        "7.3 rows keep their order",
        ORDERED,
        (append("1|x", "2|x"), append("3|x"), overwrite("9|x"), rollback(2), append("0|x")),
        ("1|x", "2|x", "3|x", "0|x"),
        ordered=True,
    ),
    Case("7.3 to a tag", KV, (upsert("1|a"), tag("v1"), upsert("1|b"), rollback("v1", snapshot=3)), ("1|a",)),
    Case("7.3 to the state there is", KV, (upsert("1|a"), rollback(1, snapshot=0), upsert("1|b", snapshot=2)), None),
    Case("7.3 to what never was", KV, (upsert("1|a"), rollback(2, error=r"no snapshot 2; it has .* 1 to 1")), ("1|a",)),
    Case(
        "7.3 and 7.1: applied once",
        LOG,
        (
            append("1|a"),
            append("2|b"),
            rollback(1, writer="w", identifier=1, snapshot=3),
            append("3|c"),
            rollback(1, writer="w", identifier=1, snapshot=3),
        ),
        ("1|a", "3|c"),
    ),
    Case(
        "7.3 and 5.2: a rollback is an overwrite",
        SHOWN,
        (upsert("1|a", "2|b"), write("+I 1|c", "-D 2|b", "+I 3|d"), rollback(1), upsert("2|e")),
        ("1|a", "2|e"),
        changes={3: ("-U 1|c", "+U 1|a", "+I 2|b", "-D 3|d"), 4: ("-U 2|b", "+U 2|e")},
    ),
    Case(
        "7.3 and 3.5: later changelogs are of the state that is back",
        LOOKUP,
        (upsert("1|a", "2|b"), write("+I 1|c", "-D 2|b"), rollback(1), write("+I 1|e", "-D 2|null"), rollback(2)),
        ("1|c",),
        changes={3: ("-U 1|c", "+U 1|a", "+I 2|b"), 4: ("-U 1|a", "+U 1|e", "-D 2|b"), 5: ("-U 1|e", "+U 1|c")},
    ),
    Case(
        "7.5 by tag",
        KV,
        (upsert("1|a"), tag("first"), upsert("1|b"), tag("again", 1), upsert("1|c")),
        ("1|c",),
        at={"first": ("1|a",), "again": ("1|a",)},
    ),
    Case("7.5 no numbers", KV, (upsert("1|a"), tag("7", error=r"A number means a snapshot")), ("1|a",)),
)
