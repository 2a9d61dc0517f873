"""Section 1, tables, and 2.1, `deduplicate`."""

from __future__ import annotations

from tests.conformance.language import Case, TableSpec, append, compact, delete, upsert, write

KV = TableSpec("k INT NOT NULL, v STRING", key=("k",))
KV4 = TableSpec("k INT NOT NULL, v STRING", key=("k",), options={"bucket": "4"})
PT = TableSpec("pt INT NOT NULL, k INT NOT NULL, v INT", key=("pt", "k"), partition=("pt",))
LOG = TableSpec("id INT, v STRING")
ORDERED_LOG = TableSpec("id INT, v INT", options={"bucket": "1", "bucket-key": "id"})
SEQ = TableSpec("k INT NOT NULL, s INT, v STRING", key=("k",), options={"sequence.field": "s"})
SEQ_DESC = TableSpec(
    "k INT NOT NULL, s INT, v STRING",
    key=("k",),
    options={"sequence.field": "s", "sequence.field.sort-order": "desc"},
)
SEQ2 = TableSpec("k INT NOT NULL, a INT, b INT, v STRING", key=("k",), options={"sequence.field": "a,b"})
KIND = TableSpec("k INT NOT NULL, op STRING, v STRING", key=("k",), options={"rowkind.field": "op"})
IGNORE = TableSpec("k INT NOT NULL, v STRING", key=("k",), options={"ignore-delete": "true"})
IGNORE_BEFORE = TableSpec("k INT NOT NULL, v STRING", key=("k",), options={"ignore-update-before": "true"})

CASES = (
    Case("1.1 one row a key", KV, (upsert("1|a", "2|b"), upsert("1|c", "3|d")), ("1|c", "2|b", "3|d")),
    Case(
        "1.1 several buckets",
        KV4,
        (upsert(*(f"{i}|a" for i in range(20))), upsert(*(f"{i}|b" for i in range(0, 20, 3)))),
        tuple(f"{i}|{'b' if i % 3 == 0 else 'a'}" for i in range(20)),
    ),
    Case(
        "1.1 the key may repeat in other partitions",
        PT,
        (upsert("1|10|100", "2|10|200"), upsert("2|10|201")),
        ("1|10|100", "2|10|201"),
    ),
    Case("1.1 key columns are not null", KV, (upsert("null|a", error=r"(?s)k.*(null|NULL)"),), ()),
    Case(
        "1.1 a composite key",
        TableSpec("a STRING NOT NULL, b BIGINT NOT NULL, v INT", key=("a", "b")),
        (upsert("x|1|1", "x|2|2", "y|1|3"), upsert("x|1|10", "|1|4")),
        ("x|1|10", "x|2|2", "y|1|3", "|1|4"),
    ),
    Case("1.2 nothing is de-duplicated", LOG, (append("1|a", "1|a"), append("1|a")), ("1|a", "1|a", "1|a")),
    Case("1.2 only inserts", LOG, (write("+I 1|a", "-D 1|a", error=r"-D"),), ()),
    Case("1.2 no update either", LOG, (write("-U 1|a", "+U 1|b", error=r"[-+]U"),), ()),
    Case(
        "1.2 an append table takes no delete",
        LOG,
        (append("1|a"), delete("1", columns=("id",), error=r"(?i)primary key|append")),
        ("1|a",),
    ),
    Case(
        "1.2 order in a bucket",
        ORDERED_LOG,
        (append("7|3", "7|1", "7|2"), append("7|0", "7|9"), append("7|5")),
        ("7|3", "7|1", "7|2", "7|0", "7|9", "7|5"),
        ordered=True,
    ),
    Case("1.3 inside a commit the later row wins", KV, (upsert("1|a", "2|x", "1|b", "1|c"),), ("1|c", "2|x")),
    Case(
        "1.3 the greatest sequence wins",
        SEQ,
        (upsert("1|5|a"), upsert("1|3|b"), upsert("1|6|c"), upsert("1|4|d")),
        ("1|6|c",),
    ),
    Case("1.3 ties: the later arrival", SEQ, (upsert("1|5|a"), upsert("1|5|b")), ("1|5|b",)),
    Case("1.3 ties inside a commit", SEQ, (upsert("1|5|a", "1|5|b", "1|4|c"),), ("1|5|b",)),
    Case("1.3 NULL is lowest", SEQ, (upsert("1|-100|a"), upsert("1|null|b")), ("1|-100|a",)),
    Case("1.3 NULL against NULL", SEQ, (upsert("1|null|a"), upsert("1|null|b")), ("1|null|b",)),
    Case("1.3 descending", SEQ_DESC, (upsert("1|5|a"), upsert("1|3|b"), upsert("1|6|c")), ("1|3|b",)),
    Case("1.3 descending: NULL loses too", SEQ_DESC, (upsert("1|5|a"), upsert("1|null|b")), ("1|5|a",)),
    Case(
        "1.3 several sequence fields", SEQ2, (upsert("1|1|9|a"), upsert("1|2|0|b"), upsert("1|2|null|c")), ("1|2|0|b",)
    ),
    Case(
        "1.3 a delete beats late records of lower sequence",
        SEQ,
        (upsert("1|5|a"), write("-D 1|8|x"), upsert("1|7|late")),
        (),
    ),
    Case("1.3 a delete of lower sequence deletes nothing", SEQ, (upsert("1|5|a"), write("-D 1|4|x")), ("1|5|a",)),
    Case("1.3 a row of higher sequence comes after a delete", SEQ, (write("-D 1|8|x"), upsert("1|9|a")), ("1|9|a",)),
    Case(
        "1.3 without retention a delete beats nothing late",
        TableSpec(
            "k INT NOT NULL, s INT, v STRING",
            key=("k",),
            options={"sequence.field": "s", "sequence.delete-retention": "0 s"},
        ),
        (upsert("1|5|a"), write("-D 1|8|x"), upsert("1|7|late")),
        ("1|7|late",),
    ),
    Case(
        "1.3 a delete beats late records behind a compaction, too",
        SEQ,
        (upsert("1|5|a"), write("-D 1|8|x"), compact(), upsert("1|7|late")),
        (),
    ),
    Case(
        "1.3 a delete by key needs a value of the sequence",
        SEQ,
        (
            upsert("1|5|a"),
            delete("1", columns=("k",), error=r"no (value for|column) 's', .* 'sequence\.field'.*latest"),
        ),
        ("1|5|a",),
    ),
    Case(
        "1.3 a delete by key beats what is up to its value",
        SEQ,
        (upsert("1|5|a", "2|6|b"), delete("1|5", "2|5", columns=("k", "s"))),
        ("2|6|b",),
    ),
    Case(
        "1.4 the kind from a column",
        KIND,
        (upsert("1|+I|a", "2|+I|b"), upsert("1|-D|a", "2|-U|b", "2|+U|c")),
        ("2|+U|c",),
    ),
    Case("1.4 an unknown kind", KIND, (upsert("1|*|a", error=r"(?s)\*"),), ()),
    Case(
        "1.4 ignore-delete", IGNORE, (upsert("1|a", "2|b"), write("-D 1|a", "-U 2|b", "+I 3|c")), ("1|a", "2|b", "3|c")
    ),
    Case("1.4 ignore-update-before", IGNORE_BEFORE, (upsert("1|a", "2|b"), write("-U 1|a", "-D 2|b")), ("1|a",)),
    Case(
        "1.5 columns that a write leaves out are an error",
        KV,
        (upsert("1|a"), upsert("1", columns=("k",), error="v: expected string, got nothing")),
        ("1|a",),
    ),
    Case("1.5 without a key, too", LOG, (append("1", columns=("id",), error="v: expected string, got nothing"),), ()),
    Case(
        "1.5 unless they are to be NULL",
        KV,
        (upsert("1|a"), upsert("1", columns=("k",), fill_missing=True)),
        ("1|null",),
    ),
    Case(
        "1.5 a delete needs the key alone",
        TableSpec("k INT NOT NULL, v STRING NOT NULL", key=("k",)),
        (upsert("1|a", "2|b"), delete("1", columns=("k",))),
        ("2|b",),
    ),
    Case(
        "1.5 NULL in a partition column",
        TableSpec("dt STRING, v INT", partition=("dt",)),
        (append("null|1", "a|2", "|3"), append("null|4")),
        ("null|1", "a|2", "|3", "null|4"),
    ),
    Case("1.5 an empty string is not NULL", KV, (upsert("1|", "2|null"),), ("1|", "2|null")),
    Case(
        "2.1 the last row wins",
        KV,
        (upsert("1|a"), upsert("1|b"), upsert("1|c")),
        ("1|c",),
        at={1: ("1|a",), 2: ("1|b",)},
    ),
    Case("2.1 a delete removes", KV, (upsert("1|a", "2|b"), write("-D 1|zzz")), ("2|b",), at={1: ("1|a", "2|b")}),
    Case("2.1 an update-before removes", KV, (upsert("1|a", "2|b"), write("-U 1|a")), ("2|b",)),
    Case("2.1 update-before then update-after", KV, (upsert("1|a"), write("-U 1|a", "+U 1|b")), ("1|b",)),
    Case("2.1 delete and insert in one commit", KV, (upsert("1|a"), write("-D 1|a", "+I 1|b")), ("1|b",)),
    Case("2.1 insert and delete in one commit", KV, (upsert("9|z"), write("+I 1|a", "-D 1|a")), ("9|z",)),
    Case("2.1 a delete of what is not there", KV, (write("-D 1|a"), upsert("2|b")), ("2|b",)),
    Case(
        "2.1 back after a delete", KV, (upsert("1|a"), delete("1", columns=("k",)), upsert("1|c")), ("1|c",), at={2: ()}
    ),
)
