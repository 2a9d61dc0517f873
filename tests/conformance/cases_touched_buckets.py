"""Sections 3.4 and 3.5 once more, where a commit touches several buckets and partitions, or leaves some out."""

from __future__ import annotations

from tests.conformance.language import Case, TableSpec, delete, overwrite, upsert, write


def _with_producer(producer: str, ddl: str, *key: str, **options: str) -> TableSpec:
    partition = ("pt",) if "pt" in key else ()
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    return TableSpec(ddl, key=key, partition=partition, options={"changelog-producer": producer} | named)


_PT = "pt INT NOT NULL, k INT NOT NULL, v INT"
_KV = "k INT NOT NULL, v STRING"
_FIRST = upsert("1|10|100", "1|20|200", "1|40|400")
_SECOND = write("+I 1|10|101", "+I 1|30|300", "+I 1|10|102", "-D 1|40|0")
_VECTORS = {
    "input": ("+I 1|10|101", "+I 1|10|102", "+I 1|30|300", "-D 1|40|0"),
    "lookup": ("-U 1|10|100", "+U 1|10|102", "+I 1|30|300", "-D 1|40|400"),
}
_ROW_DEDUPLICATE = {"changelog_producer__row_deduplicate": "true"}

CASES = (
    *(
        Case(
            f"3.8 the vectors, by {producer} in {buckets} buckets",
            _with_producer(producer, _PT, "pt", "k", bucket=buckets),
            (_FIRST, _SECOND),
            ("1|10|102", "1|20|200", "1|30|300"),
            changes={1: ("+I 1|10|100", "+I 1|20|200", "+I 1|40|400"), 2: reported},
            raw={2: ("+I 1|10|102", "+I 1|30|300", "-D 1|40|0")},
        )
        for producer, reported in _VECTORS.items()
        for buckets in ("1", "3")
    ),
    Case(
        "3.4 deletes by key carry nothing else",
        _with_producer("input", _KV, "k"),
        (upsert("1|a"), delete("1", columns=("k",))),
        (),
        changes={2: ("-D 1|null",)},
    ),
    Case(
        "3.4 ignore-delete leaves them out of the changelog, too",
        _with_producer("input", _KV, "k", ignore_delete="true"),
        (write("+I 1|a", "-D 1|a"),),
        ("1|a",),
        changes={1: ("+I 1|a",)},
    ),
    Case(
        "3.4 an overwrite adds nothing",
        _with_producer("input", _PT, "pt", "k"),
        (upsert("1|1|1", "2|2|2"), overwrite("1|5|5", partition={"pt": 1}), overwrite("2|6|6", partition="dynamic")),
        ("1|5|5", "2|6|6"),
        changes={2: (), 3: ()},
    ),
    Case(
        "3.5 an overwrite adds nothing, what follows is told against it",
        _with_producer("lookup", _PT, "pt", "k"),
        (upsert("1|1|1", "2|2|2"), overwrite("1|5|5"), upsert("1|5|6", "2|2|3")),
        ("1|5|6", "2|2|3"),
        changes={2: (), 3: ("-U 1|5|5", "+U 1|5|6", "+I 2|2|3")},
    ),
    Case(
        "3.5 new and gone in one commit, and what never was",
        _with_producer("lookup", _KV, "k"),
        (upsert("1|a"), write("+I 2|b", "-D 2|b", "-D 3|c", "-D 1|wrong", "+I 1|d")),
        ("1|d",),
        changes={2: ("-U 1|a", "+U 1|d")},
    ),
    Case(
        "3.5 a record that loses by its sequence leaves the row as it is",
        _with_producer("lookup", "k INT NOT NULL, s INT, v STRING", "k", sequence__field="s", **_ROW_DEDUPLICATE),
        (upsert("1|5|a", "2|5|a"), upsert("1|4|late", "2|5|b")),
        ("1|5|a", "2|5|b"),
        changes={2: ("-U 2|5|a", "+U 2|5|b")},
    ),
    Case(
        "3.5 one commit touches some partitions",
        _with_producer("lookup", _PT, "pt", "k", bucket="2"),
        (upsert("1|1|1", "2|1|1", "3|1|1"), upsert("1|1|2", "3|2|2", "4|1|2")),
        ("1|1|2", "2|1|1", "3|1|1", "3|2|2", "4|1|2"),
        changes={2: ("-U 1|1|1", "+U 1|1|2", "+I 3|2|2", "+I 4|1|2")},
    ),
)
