"""Section 3, the changelog, of tables whose producer is `none`: readers find the old rows (3.3)."""

from __future__ import annotations

from tests.conformance.language import Case, TableSpec, append, delete, overwrite, upsert, write

KV = TableSpec("k INT NOT NULL, v STRING", key=("k",))
KV4 = TableSpec("k INT NOT NULL, v STRING", key=("k",), options={"bucket": "4"})
PT = TableSpec("pt INT NOT NULL, k INT NOT NULL, v INT", key=("pt", "k"), partition=("pt",))
SEQ = TableSpec("k INT NOT NULL, s INT, v STRING", key=("k",), options={"sequence.field": "s"})
FLOATS = TableSpec("k INT NOT NULL, v DOUBLE", key=("k",))
TEXT = TableSpec("a STRING NOT NULL, b BIGINT NOT NULL, v INT", key=("a", "b"), options={"bucket": "2"})
LOG = TableSpec("id INT, v STRING")
IGNORE = TableSpec("k INT NOT NULL, v STRING", key=("k",), options={"ignore-delete": "true"})

_FIRST = upsert("1|10|100", "1|20|200", "1|40|400")
_SECOND = write("+I 1|10|101", "+I 1|30|300", "+I 1|10|102", "-D 1|40|0")

CASES = (
    Case(
        "3.8 the vectors, normalized and raw",
        PT,
        (_FIRST, _SECOND),
        ("1|10|102", "1|20|200", "1|30|300"),
        changes={
            1: ("+I 1|10|100", "+I 1|20|200", "+I 1|40|400"),
            2: ("-U 1|10|100", "+U 1|10|102", "+I 1|30|300", "-D 1|40|400"),
        },
        raw={2: ("+I 1|10|102", "+I 1|30|300", "-D 1|40|0")},
    ),
    Case("3.1 absent to present", KV, (upsert("1|a"),), changes={1: ("+I 1|a",)}),
    Case(
        "3.1 present to absent tells the old values",
        KV,
        (upsert("1|a"), delete("1", columns=("k",))),
        changes={2: ("-D 1|a",)},
    ),
    Case("3.1 absent to absent", KV, (upsert("1|a"), delete("2", columns=("k",))), changes={2: ()}),
    Case(
        "3.1 insert and delete of a new key in one commit",
        KV,
        (write("+I 1|a", "-D 1|a", "+I 2|b"),),
        changes={1: ("+I 2|b",)},
    ),
    Case(
        "3.1 delete and insert of a key in one commit is an update",
        KV,
        (upsert("1|a"), write("-D 1|a", "+I 1|b")),
        changes={2: ("-U 1|a", "+U 1|b")},
    ),
    Case(
        "3.1 one net change a key and snapshot",
        KV,
        (upsert("1|a"), upsert("1|b", "1|c", "1|d")),
        changes={2: ("-U 1|a", "+U 1|d")},
    ),
    Case(
        "3.1 a key that comes back",
        KV,
        (upsert("1|a"), delete("1", columns=("k",)), upsert("1|a")),
        changes={2: ("-D 1|a",), 3: ("+I 1|a",)},
    ),
    Case(
        "3.3 equal rows tell nothing",
        KV,
        (upsert("1|a", "2|b"), upsert("1|a", "2|c")),
        changes={2: ("-U 2|b", "+U 2|c")},
    ),
    Case("3.3 NULL equals NULL", KV, (upsert("1|null"), upsert("1|null")), changes={2: ()}),
    Case(
        "3.2 NaN equals NaN, zeros of two signs differ",
        FLOATS,
        (upsert("1|nan", "2|0.0"), upsert("1|nan", "2|-0.0")),
        changes={2: ("-U 2|0.0", "+U 2|-0.0")},
    ),
    Case(
        "3.3 a record that loses by its sequence changes nothing",
        SEQ,
        (upsert("1|5|a"), upsert("1|4|b"), upsert("1|5|c")),
        changes={2: (), 3: ("-U 1|5|a", "+U 1|5|c")},
        raw={2: ("+I 1|4|b",)},
    ),
    Case(
        "3.3 a late record below a delete's sequence stays out",
        SEQ,
        (upsert("1|5|a"), delete("1|7", columns=("k", "s")), upsert("1|6|b"), upsert("1|8|c")),
        changes={2: ("-D 1|5|a",), 3: (), 4: ("+I 1|8|c",)},
    ),
    Case(
        "3.3 updates and deletes in many buckets",
        KV4,
        (
            upsert(*(f"{i}|a" for i in range(12))),
            write(*(f"+U {i}|b" for i in range(0, 12, 3)), *(f"-D {i}|x" for i in range(1, 12, 3))),
        ),
        changes={
            2: (
                *(line for i in range(0, 12, 3) for line in (f"-U {i}|a", f"+U {i}|b")),
                *(f"-D {i}|a" for i in range(1, 12, 3)),
            )
        },
    ),
    Case(
        "3.3 keys of several columns, texts among them",
        TEXT,
        (upsert("x|1|1", "x|2|2", "|1|3"), upsert("x|1|10", "y|1|4"), delete("|1", columns=("a", "b"))),
        changes={2: ("-U x|1|1", "+U x|1|10", "+I y|1|4"), 3: ("-D |1|3",)},
    ),
    Case(
        "3.3 the same key in other partitions",
        PT,
        (upsert("1|10|100", "2|10|200"), upsert("2|10|201")),
        changes={2: ("-U 2|10|200", "+U 2|10|201")},
    ),
    Case(
        "3.3 ignored deletes are no changes",
        IGNORE,
        (upsert("1|a"), write("-D 1|a", "+I 2|b")),
        changes={2: ("+I 2|b",)},
    ),
    Case("5.2 an overwrite shows nothing", KV, (upsert("1|a"), overwrite("2|b")), changes={2: ()}),
    Case(
        "5.2 an overwrite is a difference when asked for",
        TableSpec("k INT NOT NULL, v STRING", key=("k",), options={"streaming-read-overwrite": "true"}),
        (upsert("1|a", "2|b", "3|c"), overwrite("2|B", "3|c", "4|d")),
        changes={2: ("-D 1|a", "-U 2|b", "+U 2|B", "+I 4|d")},
    ),
    Case(
        "5.2 what comes behind an overwrite is told against its rows",
        KV,
        (upsert("1|a"), overwrite("1|b"), upsert("1|c")),
        changes={3: ("-U 1|b", "+U 1|c")},
    ),
    Case(
        "5.2 the new rows of an append table",
        LOG,
        (append("1|a", "1|a"), append("1|a")),
        changes={1: ("+I 1|a", "+I 1|a"), 2: ("+I 1|a",)},
    ),
)
