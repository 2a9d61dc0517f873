"""What writes bring to the external log: each record once, of each key in the order of arrival (semantics 4.1)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakelog.clock import SystemClock
from lakelog.errors import InvalidArgument
from lakelog.format.log.state import PublishReport, SnapshotOffsets, to_publisher_lease
from lakelog.format.tables.snapshot import LogContent
from lakelog.format.types.rowkind import ROW_KIND_COLUMN, RowKind
from lakelog.options.values import TableOptions
from lakelog.reads.log.plan import LogChunk, plan_log
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.storage.write.input_copies import InputCopies
from lakelog.storage.write.routing import route_rows, to_routing
from lakelog.writes import table_write
from metastore.memory import MemoryStore
from metastore.store.transaction import Store
from metastore.testing import InProcessMetastore, in_process
from metastore.use_cases import UseCases
from tests.support.log.log_brokers import FakeBrokers
from tests.support.tables.data_files import data_files

SCHEMA = pa.schema(
    [pa.field("day", pa.int64(), nullable=False), pa.field("k", pa.int64(), nullable=False), ("v", pa.int64())]
)
KINDS = ("+I", "+I", "+U", "-U", "-D")
LOGGED = {"log.system": "kafka", "bucket": "2"}
PRECOMMIT = {"precommit-compact": "true"}


@pytest.fixture
def metastore(warehouse: Path) -> Iterator[InProcessMetastore]:
    """Whose store makes no difference: the contract of what is committed has tests of its own."""

    async def open_store() -> Store:
        return MemoryStore(SystemClock())

    service = in_process(
        open_store, lambda store: UseCases(store, f"file://{warehouse}/", brokers=FakeBrokers().make())
    )
    yield service
    service.close()


def make(catalog: Catalog, options: Mapping[str, str], *, keyed: bool = True) -> Table:
    return catalog.create_table(
        "shop.orders",
        schema=SCHEMA,
        primary_key=["day", "k"] if keyed else [],
        partition_by=["day"],
        options=dict(options),
    )


def make_rows(random: Random, count: int, keys: int = 40, kinds: Sequence[str] = KINDS) -> pa.Table:
    columns: dict[str, list[Any]] = {
        "day": [random.randrange(2) for _ in range(count)],
        "k": [random.randrange(keys) for _ in range(count)],
        "v": [random.randrange(10**9) for _ in range(count)],
        ROW_KIND_COLUMN: [random.choice(kinds) for _ in range(count)],
    }
    return pa.table(columns)


def read_chunk(table: Table, warehouse: Path, chunk: LogChunk) -> list[dict[str, Any]]:
    """The rows of a piece in its order, each with its kind."""
    found: list[dict[str, Any]] = []
    for file in chunk.files:
        rows = pq.read_table(warehouse / table.uuid / file.path, partitioning=None).to_pylist()
        assert len(rows) == file.row_count
        for row in rows:
            code = row.pop(ROW_KIND_COLUMN, None)
            found.append({**row, ROW_KIND_COLUMN: RowKind(code or 0).text})
    assert len(found) == chunk.row_count
    return found


def read_log(catalog: Catalog, table: Table, warehouse: Path, snapshot_id: int) -> list[dict[str, Any]]:
    """The log of a snapshot; each row is of its piece's bucket."""
    plan = plan_log(catalog.metastore, table.uuid, snapshot_id - 1, snapshot_id)
    found: list[dict[str, Any]] = []
    for chunk in plan.chunks:
        assert chunk.first_index == len(found)
        rows = read_chunk(table, warehouse, chunk)
        routed = route_rows(
            pa.Table.from_pylist(rows).select(SCHEMA.names), to_routing(plan.schema, TableOptions(table.options))
        )
        assert {each.bucket for each in routed} == {chunk.bucket}
        found += rows
    return found


def by_key(rows: list[dict[str, Any]]) -> dict[tuple[int, int], list[tuple[str, int | None]]]:
    """What came of each key, in its order."""
    found = defaultdict(list)
    for row in rows:
        found[row["day"], row["k"]].append((row[ROW_KIND_COLUMN], row["v"]))
    return dict(found)


@pytest.mark.parametrize("producer", ["none", "input", "lookup", "full-compaction"])
@pytest.mark.parametrize("more", [{}, {"write-buffer-size": "4 kb"}, {"write-buffer-size": "4 kb", **PRECOMMIT}])
def test_each_record_is_in_the_log_once(catalog: Catalog, warehouse: Path, producer: str, more: dict[str, str]) -> None:
    random = Random(f"{producer}{more}")
    table = make(catalog, {**LOGGED, "changelog-producer": producer, **more})
    for number, count in enumerate((300, 1, 900), 1):
        rows = make_rows(random, count)
        table.write(rows)
        assert by_key(read_log(catalog, table, warehouse, number)) == by_key(rows.to_pylist())
    wanted = LogContent.CHANGELOG if producer == "input" else LogContent.SEGMENTS
    assert {each.log for each in catalog.metastore.list_snapshots(table.uuid).snapshots} == {wanted}


@pytest.mark.parametrize("kinds", [("+I",), ("+I", "+U", "-D"), KINDS])
@pytest.mark.parametrize("more", [{}, {"sequence.field": "v"}, {"merge-engine": "first-row"}])
def test_rows_of_a_key_stay_in_their_order(
    catalog: Catalog, warehouse: Path, kinds: tuple[str, ...], more: dict[str, str]
) -> None:
    """Where only what merging leaves out is copied, and where that would change the order."""
    if "merge-engine" in more:
        more = {**more, "ignore-delete": "true"}
    random = Random(f"{kinds}{more}")
    table = make(catalog, {**LOGGED, "write-buffer-size": "8 kb", **more})
    rows = make_rows(random, 900, kinds=kinds)
    table.write(rows)
    came = rows.to_pylist()
    if "ignore-delete" in more:
        came = [row for row in came if row[ROW_KIND_COLUMN] in ("+I", "+U")]
    assert by_key(read_log(catalog, table, warehouse, 1)) == by_key(came)
    logged = sum(chunk.row_count for chunk in plan_log(catalog.metastore, table.uuid, 0, 1).chunks)
    written = sum(pq.read_metadata(warehouse / name).num_rows for name in data_files(warehouse))
    writes_all = bool(more) or "-U" in kinds
    kept = table.files(1).column("rows").to_pylist()
    assert written == logged + (sum(kept) if writes_all else 0), "nothing is written twice without need"


def test_rows_of_a_bucket_stand_by_key_then_arrival(catalog: Catalog, warehouse: Path) -> None:
    table = make(catalog, LOGGED)
    rows = make_rows(Random(1), 500)
    table.write(rows)
    plan = plan_log(catalog.metastore, table.uuid, 0, 1)
    for chunk in plan.chunks:
        keys = [(row["day"], row["k"]) for row in read_chunk(table, warehouse, chunk)]
        assert keys == sorted(keys)


def test_where_each_key_came_once_nothing_is_written_twice(catalog: Catalog, warehouse: Path) -> None:
    table = make(catalog, LOGGED)
    table.upsert(pa.table({"day": [1, 1, 2, 2], "k": [3, 1, 2, 9], "v": [1, 2, 3, 4]}))
    table.delete(pa.table({"day": [1, 2], "k": [3, 2]}))
    data = set(table.files(2).column("path").to_pylist())
    assert {name.split("/", 1)[1] for name in data_files(warehouse)} == data
    assert by_key(read_log(catalog, table, warehouse, 1)) == {
        (1, 1): [("+I", 2)],
        (1, 3): [("+I", 1)],
        (2, 2): [("+I", 3)],
        (2, 9): [("+I", 4)],
    }
    assert by_key(read_log(catalog, table, warehouse, 2)) == {(1, 3): [("-D", None)], (2, 2): [("-D", None)]}


def test_only_buckets_with_a_key_that_came_twice_are_written_twice(catalog: Catalog, warehouse: Path) -> None:
    table = make(catalog, LOGGED)
    table.upsert(pa.table({"day": [1, 1, 2], "k": [3, 3, 2], "v": [1, 2, 3]}))
    assert len(data_files(warehouse)) == 3
    assert len(table.files(1)) == 2
    assert by_key(read_log(catalog, table, warehouse, 1)) == {(1, 3): [("+I", 1), ("+I", 2)], (2, 2): [("+I", 3)]}


def test_what_is_ignored_is_in_no_log(catalog: Catalog, warehouse: Path) -> None:
    table = make(catalog, {**LOGGED, "ignore-delete": "true"})
    rows = make_rows(Random(2), 300)
    table.write(rows)
    kept = [row for row in rows.to_pylist() if row[ROW_KIND_COLUMN] in ("+I", "+U")]
    assert by_key(read_log(catalog, table, warehouse, 1)) == by_key(kept)


def test_append_tables_bring_their_data_files(catalog: Catalog, warehouse: Path) -> None:
    table = make(catalog, {"log.system": "kafka"}, keyed=False)
    rows = make_rows(Random(3), 300).drop_columns([ROW_KIND_COLUMN])
    table.append(rows)
    assert {name.split("/", 1)[1] for name in data_files(warehouse)} == set(table.files(1).column("path").to_pylist())
    found = [{**row, ROW_KIND_COLUMN: "+I"} for row in rows.to_pylist()]
    assert sorted(map(str, read_log(catalog, table, warehouse, 1))) == sorted(map(str, found))


def test_an_overwrite_brings_nothing(catalog: Catalog, warehouse: Path) -> None:
    table = make(catalog, LOGGED)
    table.write(make_rows(Random(4), 100))
    table.overwrite(make_rows(Random(5), 100).drop_columns([ROW_KIND_COLUMN]))
    table.overwrite(make_rows(Random(6), 100).drop_columns([ROW_KIND_COLUMN]), partition="dynamic")
    shown = [each.log for each in catalog.metastore.list_snapshots(table.uuid).snapshots]
    assert shown == [LogContent.SEGMENTS, LogContent.NONE, LogContent.NONE]
    assert read_log(catalog, table, warehouse, 2) == read_log(catalog, table, warehouse, 3) == []


def test_a_changelog_is_the_log_where_that_is_asked_for(catalog: Catalog, warehouse: Path) -> None:
    table = make(catalog, {**LOGGED, "changelog-producer": "lookup", "log.content": "changelog"})
    table.upsert(pa.table({"day": [1], "k": [1], "v": [4]}))
    table.upsert(pa.table({"day": [1], "k": [1], "v": [5]}))
    assert by_key(read_log(catalog, table, warehouse, 2)) == {(1, 1): [("-U", 4), ("+U", 5)]}
    # Late ones are the log once they are there.
    table = table.alter(set={"lookup-wait": "false"})
    table.upsert(pa.table({"day": [1], "k": [1], "v": [6]}))
    assert [each.snapshot_id for each in plan_log(catalog.metastore, table.uuid, 0, 3).snapshots] == [1, 2]


def test_a_commit_to_several_tables_brings_each_its_own(catalog: Catalog, warehouse: Path) -> None:
    first = make(catalog, LOGGED)
    plain = catalog.create_table("shop.plain", schema=SCHEMA, primary_key=["k"], options={})
    with catalog.transaction() as tx:
        tx.table("shop.orders").upsert(pa.table({"day": [1], "k": [1], "v": [4]}))
        tx.table("shop.plain").upsert(pa.table({"day": [1], "k": [1], "v": [4]}))
        tx.table("shop.orders").delete(pa.table({"day": [1], "k": [1]}))
    assert by_key(read_log(catalog, first, warehouse, 1)) == {(1, 1): [("+I", 4), ("-D", None)]}
    assert [each.log for each in catalog.metastore.list_snapshots(plain.uuid).snapshots] == [LogContent.NONE]


def test_control_runs_that_are_merged_hold_no_record_for_the_log(
    catalog: Catalog, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Why `precommit-compact` has copies of all records: a run that was named as a segment may be gone behind it."""
    # Two buffers: of the second one the run is small, and is merged with that of the first, but not its copy.
    table = make(
        catalog, {**LOGGED, "bucket": "1", "write-buffer-size": "60 kb", "target-file-size": "28 kb", **PRECOMMIT}
    )
    random, count = Random(7), 2560
    added = ["+I"] * count
    unique = pa.table({"day": [1] * count, "k": range(count), "v": [0] * count, ROW_KIND_COLUMN: added})
    keys = [random.randrange(10_000, 10_010) for _ in range(count)]
    merged = pa.table({"day": [1] * count, "k": keys, "v": [random.getrandbits(60) for _ in range(count)]})
    # Of rows that may be one half of an update all are copied.
    merged = merged.append_column(ROW_KIND_COLUMN, pa.array(["-U", *added[1:]]))
    table.write([unique, merged])
    assert len(read_log(catalog, table, warehouse, 1)) == 2 * count
    monkeypatch.setattr(table_write, "plan_input_copies", lambda *_: InputCopies.MERGED)
    table.write([unique, merged])
    with pytest.raises(FileNotFoundError):
        read_log(catalog, table, warehouse, 2)


@pytest.mark.parametrize("keyed", [False, True])
def test_a_row_that_the_log_cannot_take_is_refused_when_it_is_written(
    catalog: Catalog, warehouse: Path, keyed: bool
) -> None:
    columns = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
    options = {"log.system": "kafka", "log.max-record-size": "2 kb"}
    table = catalog.create_table("shop.notes", columns, primary_key=["k"] if keyed else [], options=options)
    rows = pa.table({"k": [1, 2, 3], "v": ["a", "b" * 3000, "c"]})
    with pytest.raises(InvalidArgument, match=r"Row 1 for table shop\.notes would make a record of .* bytes"):
        table.append(rows)
    assert data_files(warehouse) == []
    # What goes to no log may be of any size.
    table.overwrite(rows)
    table.append(rows.slice(2))
    assert table.scan().count() == (3 if keyed else 4)


def test_snapshots_show_where_they_end_in_the_log(catalog: Catalog) -> None:
    table = make(catalog, LOGGED)
    for _ in range(3):
        table.upsert(pa.table({"day": [1], "k": [1], "v": [4]}))
    assert table.snapshots().column("log_offsets").to_pylist() == [None, None, None]
    metastore = catalog.metastore
    epoch = metastore.acquire_lease(to_publisher_lease(table.uuid), "p", 60_000).epoch
    ends = [
        SnapshotOffsets(each.snapshot_id, each.snapshot_uuid, (each.snapshot_id, 7))
        for each in metastore.list_snapshots(table.uuid).snapshots
    ]
    metastore.report_published(PublishReport(table.uuid, 1, epoch, tuple(ends[:2])))
    assert table.snapshots().column("log_offsets").to_pylist() == [[1, 7], [2, 7], None]
    table.overwrite(pa.table({"day": [1], "k": [9], "v": [4]}))
    assert table.snapshots().column("log_offsets").to_pylist() == [[1, 7], [2, 7], None, None]
    unpublished = catalog.sql("SELECT id FROM shop.orders$snapshots WHERE log_offsets IS NULL").rows
    assert unpublished is not None
    assert unpublished.column("id").to_pylist() == [3, 4]
    metastore.report_published(PublishReport(table.uuid, 1, epoch, tuple(ends[2:])))
    assert table.snapshots().column("log_offsets").to_pylist() == [[1, 7], [2, 7], [3, 7], [3, 7]]
    # Not one of those listed brings rows.
    assert table.snapshots(limit=1).column("log_offsets").to_pylist() == [[3, 7]]


def test_a_table_without_a_log_shows_no_ends(catalog: Catalog) -> None:
    table = make(catalog, {})
    table.upsert(pa.table({"day": [1], "k": [1], "v": [4]}))
    assert table.snapshots().column("log_offsets").to_pylist() == [None]
