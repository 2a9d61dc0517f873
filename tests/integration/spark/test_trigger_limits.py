"""Limits a trigger of tables with changelogs: what a batch reads is what counts (semantics 5.7)."""

from __future__ import annotations

import pytest

from lakelog.embedded.stack import EmbeddedStack
from lakelog.errors import SnapshotExpired
from lakelog.sdk.tables.table import Table
from lakelog.spark.stream import sizes
from lakelog.spark.stream.limits import ReadSize
from tests.integration.spark.expiring import expire
from tests.integration.spark.spark_tables import MakeTable
from tests.support.spark.driven_stream import STREAMED, flat, put, stream_of

BURST = put(*((1, str(n)) for n in range(100)))
"""As data it is one row of one file; as the producer `input` keeps it, a hundred."""


@pytest.fixture
def kept(make_table: MakeTable) -> Table:
    """Five snapshots of one row each in data files, of which the second and third have 100 rows of changelog."""
    table = make_table(STREAMED, ("k",), options={"changelog-producer": "input"})
    for data in (put((1, "a")), BURST, BURST, put((1, "b")), put((2, "c"))):
        table.upsert(data)
    return table


def batches(stack: EmbeddedStack, table: Table, **options: str) -> list[list[int]]:
    """The snapshots of each batch."""
    stream = stream_of(stack, table, scan__snapshot_id="1", **options)
    return [sorted({row["_snapshot_id"] for row in batch}) for batch in stream.run()]


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        (1, [[1], [2], [3], [4], [5]]),
        (101, [[1, 2], [3, 4], [5]]),
        (102, [[1, 2], [3, 4, 5]]),
        (203, [[1, 2, 3, 4, 5]]),
    ],
)
def test_rows_of_changelog_files(stack: EmbeddedStack, kept: Table, rows: int, wanted: list[list[int]]) -> None:
    assert batches(stack, kept, maxRowsPerTrigger=str(rows)) == wanted
    # As they were written they are one row each.
    raw = batches(stack, kept, maxRowsPerTrigger=str(rows), scan__remove_normalize="true")
    assert raw == ([[n] for n in range(1, 6)] if rows == 1 else [[1, 2, 3, 4, 5]])


def test_sizes_are_asked_for_bit_by_bit(stack: EmbeddedStack, kept: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "_FIRST_REQUESTED", 1)
    monkeypatch.setattr(sizes, "_MOST_REQUESTED", 2)
    assert batches(stack, kept, maxRowsPerTrigger="102") == [[1, 2], [3, 4, 5]]


def test_bytes_and_files_of_changelogs(stack: EmbeddedStack, kept: Table) -> None:
    total = sum(kept.files(snapshot_id=n).column("bytes")[-1].as_py() for n in range(1, 6))
    # Changelog files have other sizes than data files, and together they are all.
    assert batches(stack, kept, maxBytesPerTrigger=str(4 * total)) == [[1, 2, 3, 4, 5]]
    assert batches(stack, kept, maxBytesPerTrigger="1") == [[n] for n in range(1, 6)]
    assert batches(stack, kept, maxFilesPerTrigger="2") == [[1, 2], [3, 4], [5]]


def test_changes_without_a_changelog_among_those_that_have_one(stack: EmbeddedStack, kept: Table) -> None:
    kept.alter(set={"changelog-producer": "none"})
    kept.upsert(put((3, "d"), (4, "e")))
    kept.alter(set={"changelog-producer": "lookup"})
    kept.upsert(put((3, "D")))
    # An update by `lookup` is two rows of a changelog.
    assert batches(stack, kept, maxRowsPerTrigger="4") == [[1], [2], [3], [4, 5, 6], [7]]
    assert batches(stack, kept, maxRowsPerTrigger="6")[-1] == [4, 5, 6, 7]


def test_what_expires_while_it_is_measured(stack: EmbeddedStack, kept: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the question for snapshots and that for their changelog files."""
    measure = sizes.ChangelogSizes.measure

    def expire_first(self: sizes.ChangelogSizes, snapshot_id: int) -> ReadSize:
        if snapshot_id == 1:
            expire(kept, 4)
        return measure(self, snapshot_id)

    monkeypatch.setattr(sizes.ChangelogSizes, "measure", expire_first)
    stream = stream_of(stack, kept, scan__snapshot_id="1", maxRowsPerTrigger="1")
    with pytest.raises(SnapshotExpired, match=r"The checkpoint is at snapshot 0 of .* snapshots 4 to 5 are all"):
        stream.run()
    stream.options["scan.expired-position"] = "earliest"
    assert flat(stream.run()) == [(4, "+I", 1, "b"), (5, "+I", 2, "c")]
