"""The rows that a stream begins with: where batches are cut, restarts in between, what holds them (semantics 5.7)."""

from __future__ import annotations

import itertools
from random import Random

import pytest

from lakelog.embedded.stack import EmbeddedStack
from lakelog.errors import InvalidArgument, SnapshotExpired
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.spark.stream import first_rows
from tests.integration.spark.spark_tables import MakeTable
from tests.support.spark.driven_stream import STREAMED, DrivenStream, Row, flat, put, stream_of
from tests.support.tables.attaching import attach_all


@pytest.fixture
def appended(make_table: MakeTable) -> Table:
    """Five files of two rows each."""
    table = make_table(STREAMED)
    for number in range(5):
        table.append(put((number, "x"), (number, "y")))
    return table


def make_keyed(make_table: MakeTable, **options: str) -> Table:
    """Four buckets; each has files that follow each other by key, and a newer one above the first of them."""
    table = make_table(STREAMED, ("k",), options={"bucket": "4", **options})
    for first in range(0, 120, 40):
        table.upsert(put(*((k, "old") for k in range(first, first + 40))))
    table.upsert(put(*((k, "new") for k in range(5, 35))))
    return table


KEYED_ROWS = sorted((4, "+I", k, "new" if 5 <= k < 35 else "old") for k in range(120))


def compact(catalog: Catalog, table: Table) -> None:
    """Has a compactor compact it as a whole."""
    table.compact(full=True, wait=False)
    attach_all(catalog.metastore, find_tables=lambda: [table.uuid])


def sizes(batches: list[list[Row]]) -> list[int]:
    return [len(batch) for batch in batches]


@pytest.mark.parametrize(
    ("limits", "wanted"),
    [
        ({}, [10]),
        ({"maxFilesPerTrigger": "1"}, [2] * 5),
        ({"maxFilesPerTrigger": "2"}, [4, 4, 2]),
        ({"maxFilesPerTrigger": "99"}, [10]),
        ({"maxBytesPerTrigger": "1"}, [2] * 5),
        ({"maxRowsPerTrigger": "1"}, [2] * 5),
        ({"maxRowsPerTrigger": "5"}, [4, 4, 2]),
        ({"maxFilesPerTrigger": "4", "maxRowsPerTrigger": "6"}, [6, 4]),
    ],
)
def test_rows_are_cut_at_files_and_no_snapshot_after_them_is(
    stack: EmbeddedStack, appended: Table, limits: dict[str, str], wanted: list[int]
) -> None:
    stream = stream_of(stack, appended, **limits)
    batches = stream.run()
    assert sizes(batches) == wanted
    assert flat(batches) == sorted((5, n, v) for n in range(5) for v in "xy")
    appended.append(put(*((n, "later") for n in range(50))))
    assert sizes(stream.run()) == [50]
    assert stream.run() == []


def test_rows_of_keyed_tables_are_cut_where_files_share_no_keys(stack: EmbeddedStack, make_table: MakeTable) -> None:
    table = make_keyed(make_table)
    stream = stream_of(stack, table, maxFilesPerTrigger="1")
    batches = stream.run()
    # In each bucket the two files that share keys are one batch, the others one each.
    files, rows = table.files(), table.scan(columns=["k"]).to_arrow()
    assert (files.num_rows, rows.num_rows) == (16, 120)
    assert len(batches) == 12
    assert sorted(flat(batches)) == KEYED_ROWS
    # Those of a bucket follow each other, by key.
    ends = [(min(keys), max(keys)) for keys in ([row["k"] for row in batch] for batch in batches)]
    assert all(first[1] < second[0] for first, second in itertools.pairwise(ends) if second[0] >= 40)
    (whole,) = stream_of(stack, table, maxFilesPerTrigger="16").run()
    assert sorted(flat([whole])) == KEYED_ROWS
    assert len(stream_of(stack, table, maxFilesPerTrigger="15").run()) == 2


def restarted(stream: DrivenStream) -> DrivenStream:
    """Another query with the same checkpoint."""
    again = DrivenStream(stream.target, stream.table, dict(stream.options))
    again.offsets = list(stream.offsets)
    again.start()
    return again


@pytest.mark.parametrize("kind", ["appended", "keyed"])
def test_batches_are_the_same_again_whatever_became_of_the_table(
    stack: EmbeddedStack, catalog: Catalog, make_table: MakeTable, appended: Table, kind: str
) -> None:
    table = appended if kind == "appended" else make_keyed(make_table)
    first = stream_of(stack, table, maxRowsPerTrigger="1")
    first.start()
    assert first.reader is not None
    first.offsets.append(first.reader.initialOffset())
    shown = []
    for number in range(3):
        assert first.advance(first.reader.getDefaultReadLimit())
        shown.append(first.show(number))
    table.append(put((7, "meanwhile")))
    compact(catalog, table)
    again = restarted(first)
    assert [again.show(number) for number in range(3)] == shown
    # More or fewer at once from here on; what is done is not shown again.
    again.options["maxRowsPerTrigger"] = "1000"
    rest = again.run()
    assert len(rest) == 2, "the rest of the rows, then what came meanwhile"
    rows = flat([*shown, rest[0]])
    assert sorted(rows) == (KEYED_ROWS if kind == "keyed" else sorted((5, n, v) for n in range(5) for v in "xy"))
    assert {row["v"] for row in rest[1]} >= {"meanwhile"}


def advance_to(stream: DrivenStream, batches: int) -> DrivenStream:
    stream.start()
    assert stream.reader is not None
    stream.offsets.append(stream.reader.initialOffset())
    for _ in range(batches):
        assert stream.advance(stream.reader.getDefaultReadLimit())
    return stream


def expire(table: Table) -> int | None:
    """Has all but the newest snapshot expire that nobody holds; returns the earliest one that is kept."""
    return table.expire_snapshots(older_than=1 << 52, retain_last=1).first_kept


def test_the_snapshot_is_held_until_its_rows_are_read(stack: EmbeddedStack, appended: Table) -> None:
    stream = advance_to(stream_of(stack, appended, maxFilesPerTrigger="2"), 1)
    appended.overwrite(put((9, "new")))
    appended.append(put((10, "newer")))
    assert expire(appended) == 5, "the query reads it"
    assert sizes([stream.show(0)]) == [4]
    assert stream.reader is not None
    limit = stream.reader.getDefaultReadLimit()
    for number in (1, 2):
        assert stream.advance(limit)
        assert len(stream.show(number)) == (4, 2)[number - 1]
        assert expire(appended) == 5
    assert stream.advance(limit)
    assert [row["v"] for row in stream.show(3)] == ["newer"]
    assert expire(appended) == 7, "its rows are read"


@pytest.mark.parametrize("policy", ["fail", "full"])
def test_rows_that_expired_while_no_query_ran(stack: EmbeddedStack, appended: Table, policy: str) -> None:
    stream = advance_to(stream_of(stack, appended, maxFilesPerTrigger="2", scan__expired_position=policy), 1)
    assert stream.reader is not None
    stream.reader.stop()
    appended.append(put((10, "newer")))
    assert expire(appended) == 6, "who stopped holds nothing"
    again = restarted(stream)
    if policy == "fail":
        with pytest.raises(SnapshotExpired, match=r"The checkpoint is at snapshot 5 of .*, but snapshots 6 to 6 are"):
            again.run()
        return
    assert sizes(again.run()) == [0, 4, 4, 3], "the jump shows nothing; then all rows, cut as before"


def test_another_choice_of_rows_with_an_old_checkpoint_is_refused(
    stack: EmbeddedStack, catalog: Catalog, make_table: MakeTable
) -> None:
    table = make_table(STREAMED, ("k",), options={"changelog-producer": "full-compaction", "bucket": "1"})
    table.upsert(put((1, "a")))
    compact(catalog, table)
    for k in (2, 3, 4):
        table.upsert(put((k, "later")))
    stream = advance_to(stream_of(stack, table, maxFilesPerTrigger="1", scan__remove_normalize="true"), 2)
    again = restarted(stream)
    again.options["scan.remove-normalize"] = "false"
    with pytest.raises(InvalidArgument, match=r"counts 4 files of .* but with the options of this query they are 1"):
        again.run()


def test_a_checkpoint_of_before_shows_all_rows_at_once(stack: EmbeddedStack, appended: Table) -> None:
    stream = stream_of(stack, appended)
    stream.run()
    assert [set(offset) & {"files", "files-done"} for offset in stream.offsets] == [set()] * 2
    stream.options["maxRowsPerTrigger"] = "1"
    assert len(restarted(stream).show(0)) == 10


@pytest.mark.parametrize("seed", range(6))
def test_batches_of_any_size_are_the_rows_of_the_table(
    stack: EmbeddedStack, catalog: Catalog, make_table: MakeTable, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seed)
    monkeypatch.setattr(first_rows, "READ_BYTES", random.choice((1, 2000, 1 << 27)))
    has_key = bool(seed % 2)
    options = {"bucket": str(random.choice((1, 3)))} | ({} if has_key else {"bucket-key": "k"})
    table = make_table(STREAMED, ("k",) if has_key else (), options=options if has_key or seed % 4 else {})
    for turn in range(8):
        start = random.randrange(200)
        table.append(put(*((k, f"{turn}") for k in range(start, start + random.randrange(1, 60)))))
        if has_key and turn == 4:
            table.delete(put((start, None)).select(["k"]))
        if turn == 5:
            compact(catalog, table)
    condition = random.choice(("", "k > 90", "k < 40 OR v = '7'"))
    limit = random.choice(("maxRowsPerTrigger", "maxBytesPerTrigger", "maxFilesPerTrigger"))
    stream = stream_of(stack, table, filter=condition) if condition else stream_of(stack, table)
    stream.options[limit] = str(random.choice((1, 2, 50, 3000)))
    stream.start()
    batches: list[list[Row]] = []
    assert stream.reader is not None
    stream.offsets.append(stream.reader.initialOffset())
    while stream.advance(stream.reader.getDefaultReadLimit()):
        batches.append(stream.show(len(stream.offsets) - 2))
        if random.randrange(3) == 0:
            stream = restarted(stream)
            assert stream.reader is not None
    found = sorted((row["k"], row["v"]) for batch in batches for row in batch)
    wanted = table.scan(filter=condition or None).to_arrow().to_pylist()
    assert found == sorted((row["k"], row["v"]) for row in wanted)
