"""Sections 2.1, 2.4 and 3: every permutation of row kinds a key over some commits, against a plain dict.

A table holds one key for each permutation, so that all of them take no longer than one. A commit gives a key no record,
one, or two, of any kind; their values are equal or differ.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
import pytest

from lakelog.embedded.stack import EmbeddedStack
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from tests.support.spark.driven_stream import STREAMED, DrivenStream, put

KINDS: Final = ("+I", "-U", "+U", "-D")
RECORDS: Final = ((), *((kind,) for kind in KINDS), *itertools.product(KINDS, repeat=2))
"""What a commit may give a key."""

Commit = tuple[tuple[str, str], ...]
"""Kinds and values of one key in one commit."""

Emitted = tuple[int, str, int, str]
"""Snapshot, kind, key, value."""


def permute(commits: int) -> dict[int, list[Commit]]:
    """The records of each key, commit by commit."""
    found = (
        [
            tuple((kind, "same" if equal else f"{number}.{place}") for place, kind in enumerate(each))
            for number, each in enumerate(kinds)
        ]
        for kinds in itertools.product(RECORDS, repeat=commits)
        for equal in (False, True)
    )
    return dict(enumerate(found))


class Model:
    """What a table is to hold and to tell; rules by their number.

    Args:
        first_row: Merge engine `first-row` with deletes ignored, else `deduplicate`.
        producer: Of the changelog.
        drops_equal: Updates that change nothing are not told.
    """

    def __init__(self, *, first_row: bool, producer: str, drops_equal: bool) -> None:
        self.first_row, self.producer, self.drops_equal = first_row, producer, drops_equal
        self.rows: dict[int, str] = {}

    def commit(self, snapshot_id: int, batch: Mapping[int, Commit]) -> Iterator[Emitted]:
        """Takes a commit; tells its changes."""
        for key, records in batch.items():
            if self.producer == "input":
                yield from ((snapshot_id, kind, key, value) for kind, value in records)
            old, new = self.rows.get(key), self._merge(key, records)
            if new is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = new
            if self.producer != "input":
                touched = bool(records) and not self.first_row
                yield from ((snapshot_id, kind, key, value) for kind, value in self._compare(old, new, touched))

    def _merge(self, key: int, records: Commit) -> str | None:
        if not self.first_row:
            kept = self.rows.get(key)
            # 2.1: the last one wins, and a delete or a retraction removes the row.
            return kept if not records else None if records[-1][0] in ("-D", "-U") else records[-1][1]
        # 2.4: what takes away is dropped, and of the rest the first stays.
        additions = [value for kind, value in records if kind in ("+I", "+U")]
        return self.rows.get(key) or (additions[0] if additions else None)

    def _compare(self, old: str | None, new: str | None, touched: bool) -> Iterator[tuple[str, str]]:
        # 3.1: one net change a key and snapshot; 3.2, 3.3: whether equal rows are told.
        if old is not None and new is not None:
            if old != new or (touched and not self.drops_equal):
                yield from (("-U", old), ("+U", new))
        elif new is not None:
            yield "+I", new
        elif old is not None:
            yield "-D", old


def to_data(batch: Mapping[int, Commit]) -> pa.Table:
    """A commit's records, the first of each key before all second ones."""
    found = [
        (kind, key, value)
        for place in (0, 1)
        for key, records in batch.items()
        for kind, value in records[place : place + 1]
    ]
    kinds = pa.array([kind for kind, _, _ in found], pa.string())
    return put(*((key, value) for _, key, value in found)).append_column("_row_kind", kinds)


def sort_changes(rows: Sequence[Mapping[str, object]]) -> list[tuple[object, ...]]:
    """Changes by snapshot, key and then as they came."""
    found = [(row["_snapshot_id"], row["_row_kind"], row["k"], row["v"]) for row in rows]
    return sorted(found, key=lambda each: (each[0], each[2]))


def write_all(catalog: Catalog, commits: int, options: Mapping[str, str], model: Model) -> tuple[Table, list[Emitted]]:
    """A table with all permutations, and what its changes are to be."""
    catalog.create_database("permuted", if_not_exists=True)
    name = f"permuted.t{len(catalog.tables('permuted'))}"
    table = catalog.create_table(name, schema=STREAMED, primary_key=["k"], options={"bucket": "3", **options})
    keys = permute(commits)
    wanted: list[Emitted] = []
    for number in range(commits):
        batch = {key: records[number] for key, records in keys.items()}
        snapshot = table.write(to_data(batch)).snapshot_id
        assert snapshot == number + 1
        wanted += model.commit(snapshot, batch)
        assert dict(zip(*table.scan().to_arrow().to_pydict().values(), strict=True)) == model.rows
    return table, wanted


FIRST_ROW: Final = {"merge-engine": "first-row", "ignore-delete": "true"}


DROPPING: Final = {"changelog-producer.row-deduplicate": "true"}


@pytest.mark.parametrize("commits", [2, 3])
@pytest.mark.parametrize(
    ("producer", "more"),
    [
        ("none", {}),
        ("lookup", {}),
        ("lookup", DROPPING),
        ("input", {}),
        ("none", FIRST_ROW),
        ("lookup", FIRST_ROW),
    ],
    ids=["none", "lookup", "lookup, equal rows left out", "input", "first-row", "first-row, lookup"],
)
def test_kinds(stack: EmbeddedStack, catalog: Catalog, commits: int, producer: str, more: Mapping[str, str]) -> None:
    first_row = more is FIRST_ROW
    options = {"changelog-producer": producer, **more}
    drops_equal = producer == "none" or more is DROPPING
    model = Model(first_row=first_row, producer=producer, drops_equal=drops_equal)
    table, wanted = write_all(catalog, commits, options, model)
    expected = sorted(wanted, key=lambda each: (each[0], each[2]))
    assert len(expected) > 500
    assert sort_changes(table.changes().to_arrow().to_pylist()) == expected
    stream = DrivenStream(stack.target, table.name, {"scan.snapshot-id": "1", "metadata-columns": "_snapshot_id"})
    assert sort_changes([row for batch in stream.run() for row in batch]) == expected


def test_what_was_written(catalog: Catalog) -> None:
    table, _ = write_all(catalog, 2, {}, Model(first_row=False, producer="none", drops_equal=True))
    found = sort_changes(table.changes(raw=True).to_arrow().to_pylist())
    # 3.3: the last record a key of each commit.
    last = [
        (number + 1, *records[number][-1][:1], key, records[number][-1][1])
        for key, records in permute(2).items()
        for number in range(2)
        if records[number]
    ]
    assert found == sorted(last, key=lambda each: (each[0], each[2]))
