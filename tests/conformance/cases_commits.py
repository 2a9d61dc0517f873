"""Section 7: commits, overwrites and time travel."""

from __future__ import annotations

from tests.conformance.language import Case, TableSpec, append, delete, overwrite, upsert

KV = TableSpec("k INT NOT NULL, v STRING", key=("k",))
LOG = TableSpec("id INT, v STRING")
PARTS = TableSpec("dt STRING, hr INT, v INT", partition=("dt", "hr"))
KEYED_PARTS = TableSpec("dt STRING NOT NULL, k INT NOT NULL, v INT", key=("dt", "k"), partition=("dt",))
SEQ = TableSpec("k INT NOT NULL, s INT, v STRING", key=("k",), options={"sequence.field": "s"})

THREE = append("a|1|1", "a|2|2", "b|1|3")

CASES = (
    Case(
        "7.1 applied once",
        LOG,
        (
            append("1|a", writer="w", identifier=7, snapshot=1),
            append("1|a", writer="w", identifier=7, snapshot=1),
            append("2|b", writer="w", identifier=8, snapshot=2),
            append("9|z", writer="w", identifier=7, snapshot=1),
        ),
        ("1|a", "2|b"),
    ),
    Case(
        "7.1 the number belongs to the writer",
        LOG,
        (append("1|a", writer="w", identifier=1, snapshot=1), append("2|b", writer="x", identifier=1, snapshot=2)),
        ("1|a", "2|b"),
    ),
    Case(
        "7.1 numbers may leave gaps unless one asks",
        LOG,
        (append("1|a", writer="w", identifier=1, snapshot=1), append("2|b", writer="w", identifier=5, snapshot=2)),
        ("1|a", "2|b"),
    ),
    Case(
        "7.1 a gap is refused where the writer numbers densely",
        LOG,
        (
            append("1|a", writer="w", identifier=1),
            append("3|c", writer="w", identifier=3, previous_identifier=2, error=r"2"),
        ),
        ("1|a",),
    ),
    Case("7.1 an empty commit makes no snapshot", LOG, (append(snapshot=0), append("1|a", snapshot=1)), ("1|a",)),
    Case(
        "7.1 unless asked", LOG, (append(allow_empty=True, snapshot=1), append("1|a", snapshot=2)), ("1|a",), at={1: ()}
    ),
    Case(
        "7.1 its identifier counts",
        LOG,
        (
            append(writer="w", identifier=1, snapshot=0),
            append("1|a", writer="w", identifier=1, snapshot=0),
            append("2|b", writer="w", identifier=2, snapshot=1),
        ),
        ("2|b",),
    ),
    Case("7.2 the whole table", LOG, (append("1|a", "2|b"), overwrite("3|c")), ("3|c",), at={1: ("1|a", "2|b")}),
    Case("7.2 the whole table of a key", KV, (upsert("1|a", "2|b"), overwrite("2|x", "2|y")), ("2|y",)),
    Case("7.2 the whole table by nothing", LOG, (append("1|a"), overwrite()), ()),
    Case(
        "7.2 a partition",
        PARTS,
        (THREE, overwrite("a|2|20", partition={"dt": "a", "hr": 2})),
        ("a|1|1", "a|2|20", "b|1|3"),
    ),
    Case(
        "7.2 some of the partition columns",
        PARTS,
        (THREE, overwrite("a|9|90", partition={"dt": "a"})),
        ("a|9|90", "b|1|3"),
    ),
    Case(
        "7.2 not the first of the partition columns",
        PARTS,
        (THREE, overwrite("z|1|9", partition={"hr": 1})),
        ("a|2|2", "z|1|9"),
    ),
    Case(
        "7.2 rows outside the partition are refused",
        PARTS,
        (THREE, overwrite("b|2|20", partition={"dt": "a"}, error=r"(?s)dt.*b")),
        ("a|1|1", "a|2|2", "b|1|3"),
    ),
    Case("7.2 a partition by nothing", PARTS, (THREE, overwrite(partition={"dt": "a"})), ("b|1|3",)),
    Case(
        "7.2 a partition that is not there",
        PARTS,
        (THREE, overwrite("c|1|1", partition={"dt": "c"})),
        ("a|1|1", "a|2|2", "b|1|3", "c|1|1"),
    ),
    Case(
        "7.2 dynamic",
        PARTS,
        (THREE, overwrite("a|2|20", "c|1|30", partition="dynamic")),
        ("a|1|1", "a|2|20", "b|1|3", "c|1|30"),
    ),
    Case(
        "7.2 dynamic without rows deletes nothing",
        PARTS,
        (THREE, overwrite(partition="dynamic")),
        ("a|1|1", "a|2|2", "b|1|3"),
    ),
    Case(
        "7.2 by nothing, deletes that the sequence retains go, too",
        SEQ,
        (upsert("1|5|a"), delete("1|8", columns=("k", "s")), overwrite(), upsert("1|7|late")),
        ("1|7|late",),
    ),
    Case(
        "7.2 if_snapshot: nothing may have come since",
        LOG,
        (
            append("1|a", if_snapshot=0, snapshot=1),
            append("2|b", snapshot=2),
            overwrite("1|x", if_snapshot=1, error=r"changed since snapshot 1 \(if_snapshot=1\): '.*' wrote"),
            append("3|c", if_snapshot=2, snapshot=3),
        ),
        ("1|a", "2|b", "3|c"),
    ),
    Case(
        "7.2 if_unchanged: elsewhere something may have come",
        PARTS,
        (
            THREE,
            append("b|1|4"),
            overwrite("a|1|9", partition={"dt": "a"}, if_unchanged=1),
            overwrite("b|1|9", partition={"dt": "b"}, if_unchanged=1, error=r"wrote to partition dt=b"),
            append("b|2|5", if_unchanged=1),
            append("b|1|9", if_unchanged=1, error=r"changed since snapshot 1 \(if_unchanged=1\)"),
        ),
        ("a|1|9", "b|1|3", "b|1|4", "b|2|5"),
    ),
    Case("7.2 an unknown partition column", PARTS, (THREE, overwrite(partition={"day": "a"}, error=r"day")), None),
    Case(
        "7.2 a table without partitions has none",
        LOG,
        (append("1|a"), overwrite(partition={"id": 1}, error=r"no partitions")),
        ("1|a",),
    ),
    Case(
        "7.2 a partition with a key",
        KEYED_PARTS,
        (upsert("a|1|1", "a|2|2", "b|1|3"), overwrite("a|1|10", partition={"dt": "a"}), upsert("a|1|11")),
        ("a|1|11", "b|1|3"),
        at={2: ("a|1|10", "b|1|3")},
    ),
    Case(
        "7.2 the partition NULL",
        PARTS,
        (append("null|1|1", "a|1|2"), overwrite("null|2|9", partition={"dt": None})),
        ("null|2|9", "a|1|2"),
    ),
    Case(
        "7.5 by snapshot",
        KV,
        (upsert("1|a"), upsert("1|b", "2|c"), delete("1", columns=("k",)), overwrite("5|e")),
        ("5|e",),
        at={1: ("1|a",), 2: ("1|b", "2|c"), 3: ("2|c",), 4: ("5|e",)},
    ),
)
