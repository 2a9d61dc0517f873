"""Rule 7.6, schema evolution: what reads return of rows that were written under other columns."""

from __future__ import annotations

from tests.conformance.language import (
    Case,
    TableSpec,
    alter,
    append,
    compact,
    delete,
    overwrite,
    rollback,
    tag,
    upsert,
    write,
)

_KV = "k INT NOT NULL, v STRING"
KV = TableSpec(_KV, key=("k",))
LOOKUP = TableSpec(_KV, key=("k",), options={"changelog-producer": "lookup"})
INPUT = TableSpec(_KV, key=("k",), options={"changelog-producer": "input"})
LOG = TableSpec("id INT, v STRING")
NUMBERS = TableSpec("k INT NOT NULL, a TINYINT, b INT, c FLOAT, d DECIMAL(6, 2)", key=("k",))
SEQ = TableSpec("k INT NOT NULL, s INT, v STRING", key=("k",), options={"sequence.field": "s"})
PT = TableSpec("pt INT NOT NULL, k INT NOT NULL, v STRING", key=("pt", "k"), partition=("pt",))

CASES = (
    Case(
        "7.6 an added column is null in the rows before it",
        KV,
        (upsert("1|a"), alter("ADD COLUMN n INT", columns=f"{_KV}, n INT"), upsert("2|b|5")),
        ("1|a|null", "2|b|5"),
        at={1: ("1|a",)},
    ),
    Case(
        "7.6 an added column shows its default in the rows before it",
        LOG,
        (
            append("1|a"),
            alter("ADD COLUMN n INT NOT NULL DEFAULT 7 FIRST", columns="n INT NOT NULL, id INT, v STRING"),
            append("8|2|b"),
            compact(),
        ),
        ("7|1|a", "8|2|b"),
        at={1: ("1|a",)},
    ),
    Case(
        "7.6 a write may leave out a column with a default",
        KV,
        (
            upsert("1|a"),
            alter("ADD COLUMN n INT DEFAULT 7", columns=f"{_KV}, n INT"),
            alter("ALTER COLUMN n SET DEFAULT 8"),
            upsert("2|b", columns=("k", "v")),
            compact(),
        ),
        ("1|a|7", "2|b|8"),
    ),
    Case(
        "7.6 a dropped column is gone, and stays in the snapshots before",
        KV,
        (upsert("1|a"), alter("DROP COLUMN v", columns="k INT NOT NULL"), upsert("2"), compact()),
        ("1", "2"),
        at={1: ("1|a",)},
    ),
    Case(
        "7.6 a dropped and added name is a new column",
        KV,
        (
            upsert("1|a"),
            alter("DROP COLUMN v", columns="k INT NOT NULL"),
            alter("ADD COLUMN v STRING", columns=_KV),
            upsert("2|b"),
        ),
        ("1|null", "2|b"),
        at={1: ("1|a",)},
    ),
    Case(
        "7.6 a renamed column keeps its values",
        KV,
        (
            upsert("1|a"),
            alter("RENAME COLUMN v TO w, RENAME COLUMN k TO v", columns="v INT NOT NULL, w STRING"),
            upsert("2|b", "1|c"),
            compact(),
        ),
        ("1|c", "2|b"),
        at={1: ("1|a",)},
    ),
    Case(
        "7.6 a renamed key finds its rows",
        KV,
        (
            upsert("1|a", "2|b"),
            alter("RENAME COLUMN k TO id", columns="id INT NOT NULL, v STRING"),
            delete("1", columns=("id",)),
        ),
        ("2|b",),
        changes={2: ("-D 1|a",)},
    ),
    Case(
        "7.6 a renamed partition column",
        PT,
        (
            upsert("1|1|a", "2|1|b"),
            alter("RENAME COLUMN pt TO part", columns="part INT NOT NULL, k INT NOT NULL, v STRING"),
            overwrite("1|5|c", partition={"part": 1}),
        ),
        ("1|5|c", "2|1|b"),
        at={1: ("1|1|a", "2|1|b")},
    ),
    Case(
        "7.6 columns change their places",
        KV,
        (
            upsert("1|a"),
            alter("ALTER COLUMN v FIRST", columns="v STRING, k INT NOT NULL"),
            upsert("b|2"),
        ),
        ("a|1", "b|2"),
        at={1: ("1|a",)},
    ),
    Case(
        "7.6 types become wider",
        NUMBERS,
        (
            upsert("1|-128|2147483647|1.5|9999.99"),
            alter(
                "ALTER COLUMN a TYPE DECIMAL(5, 1)",
                "ALTER COLUMN b TYPE BIGINT",
                "ALTER COLUMN c TYPE DOUBLE",
                "ALTER COLUMN d TYPE DECIMAL(12, 4)",
                columns="k INT NOT NULL, a DECIMAL(5, 1), b BIGINT, c DOUBLE, d DECIMAL(12, 4)",
            ),
            upsert("2|1000.5|9223372036854775807|1e300|0.0001"),
            compact(),
        ),
        (
            "1|-128|2147483647|1.5|9999.99",
            "2|1000.5|9223372036854775807|1e300|0.0001",
        ),
        at={1: ("1|-128|2147483647|1.5|9999.99",)},
    ),
    Case(
        "7.6 a date becomes the beginning of its day",
        TableSpec("k INT NOT NULL, day DATE", key=("k",)),
        (
            upsert("1|2024-02-29", "2|null", "3|0001-01-01"),
            alter("ALTER COLUMN day TYPE TIMESTAMP_NTZ", columns="k INT NOT NULL, day TIMESTAMP_NTZ"),
            delete("2", columns=("k",)),
        ),
        ("1|2024-02-29T00:00:00", "3|0001-01-01T00:00:00"),
        at={1: ("1|2024-02-29", "2|null", "3|0001-01-01")},
    ),
    Case(
        "7.6 a wider column without a compaction",
        LOG,
        (
            append("2147483647|a"),
            alter("ALTER COLUMN id TYPE BIGINT", columns="id BIGINT, v STRING"),
            append("2147483648|b"),
        ),
        ("2147483647|a", "2147483648|b"),
    ),
    Case(
        "7.6 a column may become nullable",
        TableSpec("k INT NOT NULL, v STRING NOT NULL", key=("k",)),
        (
            upsert("1|null", error="(?i)not null"),
            upsert("1|a"),
            alter("ALTER COLUMN v DROP NOT NULL", columns=_KV),
            upsert("2|null"),
        ),
        ("1|a", "2|null"),
    ),
    Case(
        "7.6 the sequence field under another name and type",
        SEQ,
        (
            upsert("1|5|a"),
            alter(
                "RENAME COLUMN s TO version",
                "ALTER COLUMN version TYPE DECIMAL(12, 1)",
                columns="k INT NOT NULL, version DECIMAL(12, 1), v STRING",
            ),
            upsert("1|4.5|late", "2|1|b"),
            upsert("1|5.5|new"),
            compact(),
        ),
        ("1|5.5|new", "2|1|b"),
        at={1: ("1|5|a",)},
    ),
    Case(
        "7.6 changes over an alteration show the columns of now",
        LOOKUP,
        (
            upsert("1|a"),
            alter("ADD COLUMN n INT DEFAULT 7", columns=f"{_KV}, n INT"),
            upsert("1|b|8", "2|c|9"),
        ),
        ("1|b|8", "2|c|9"),
        changes={1: ("+I 1|a|7",), 2: ("-U 1|a|7", "+U 1|b|8", "+I 2|c|9")},
    ),
    Case(
        "7.6 changes as they were written, over an alteration",
        INPUT,
        (
            write("+I 1|a"),
            alter("ADD COLUMN n INT", "RENAME COLUMN v TO w", columns="k INT NOT NULL, w STRING, n INT"),
            write("-U 1|a|null", "+U 1|b|8"),
        ),
        ("1|b|8",),
        changes={1: ("+I 1|a|null",), 2: ("-U 1|a|null", "+U 1|b|8")},
    ),
    Case(
        "7.6 changes that are normalized, over an alteration",
        KV,
        (
            upsert("1|a", "2|b"),
            alter("ADD COLUMN n INT DEFAULT 7", columns=f"{_KV}, n INT"),
            upsert("1|a|7", "2|b|8"),
        ),
        ("1|a|7", "2|b|8"),
        changes={2: ("-U 2|b|7", "+U 2|b|8")},
    ),
    Case(
        "7.6 a rollback keeps the columns of now",
        KV,
        (
            upsert("1|a"),
            tag("first"),
            alter("ADD COLUMN n INT DEFAULT 7", columns=f"{_KV}, n INT"),
            upsert("1|b|8"),
            rollback("first"),
            upsert("2|c|9"),
        ),
        ("1|a|7", "2|c|9"),
        at={"first": ("1|a",), 2: ("1|b|8",), 3: ("1|a|7",)},
    ),
    Case(
        "7.6 an overwrite after an alteration",
        LOG,
        (
            append("1|a", "2|b"),
            alter("ADD COLUMN n INT", "DROP COLUMN v", columns="id INT, n INT"),
            overwrite("3|4"),
        ),
        ("3|4",),
        at={1: ("1|a", "2|b")},
    ),
    Case(
        "7.6 what would lose something is refused",
        NUMBERS,
        (
            alter("DROP COLUMN k", error="primary key"),
            alter("ALTER COLUMN b TYPE SMALLINT", error="narrower"),
            alter("ALTER COLUMN b TYPE STRING", error="cannot become STRING"),
            alter("ALTER COLUMN k TYPE BIGINT", error="other buckets"),
            alter("ADD COLUMN B INT", error="case does not count"),
            alter("ADD COLUMN x INT NOT NULL", error="has no default"),
            alter("ADD COLUMN x INT", "DROP COLUMN k", error="primary key"),
            upsert("1|1|1|1|1"),
        ),
        ("1|1|1|1|1",),
    ),
    Case(
        "7.6 the sequence field is not dropped",
        SEQ,
        (upsert("1|5|a"), alter("DROP COLUMN s", error="sequence.field"), upsert("1|4|b")),
        ("1|5|a",),
    ),
)
