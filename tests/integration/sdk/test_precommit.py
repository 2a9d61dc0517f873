"""Small files of a transaction merged before its commit (semantics 6.4), against a table that merges none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from lakelog.clock import SystemClock
from lakelog.errors import Unavailable
from lakelog.format.tables.plan import PlanRequest
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.storage.merging import deletion_vectors
from lakelog.storage.objects.stores import LocationStores
from lakelog.storage.rewrite.commit_merge import merge_commit_files
from lakelog.writes import table_write
from metastore.memory import MemoryStore
from metastore.store.transaction import Store
from metastore.testing import InProcessMetastore, in_process
from metastore.use_cases import UseCases
from tests.support.tables.data_files import data_files
from tests.support.tables.faulty import FaultyStores
from tests.support.tables.keyed import changelog_paths

SCHEMA = pa.schema(
    [
        pa.field("day", pa.int64(), nullable=False),
        pa.field("k", pa.int64(), nullable=False),
        ("seq", pa.int64()),
        ("v", pa.string()),
    ]
)
SMALL_BUFFER = {"write-buffer-size": "4 kb"}
KINDS = ("+I", "+I", "+U", "-U", "-D")


@pytest.fixture
def metastore(warehouse: Path) -> Iterator[InProcessMetastore]:
    """Whose store makes no difference: nothing of a merge reaches it."""

    async def open_store() -> Store:
        return MemoryStore(SystemClock())

    service = in_process(open_store, lambda store: UseCases(store, f"file://{warehouse}/"))
    yield service
    service.close()


def make_rows(random: Random, count: int, *, kinds: bool) -> pa.Table:
    columns: dict[str, list[Any]] = {
        "day": [random.randrange(2) for _ in range(count)],
        "k": [random.randrange(150) for _ in range(count)],
        "seq": [random.choice((None, *range(9))) for _ in range(count)],
        "v": [f"{random.random()}" for _ in range(count)],
    }
    if kinds:
        columns["_row_kind"] = [random.choice(KINDS) for _ in range(count)]
    return pa.table(columns, schema=pa.schema([*SCHEMA, ("_row_kind", pa.string())]) if kinds else SCHEMA)


def make_twins(catalog: Catalog, key: list[str], **more: str) -> tuple[Table, Table]:
    """A table whose commits merge, and one whose commits do not."""
    options = {**SMALL_BUFFER, **more}
    return tuple(  # type: ignore[return-value]
        catalog.create_table(
            f"shop.{name}", SCHEMA, primary_key=key, partition_by=["day"], options={**options, **given}
        )
        for name, given in (("merged", {"precommit-compact": "true"}), ("plain", {}))
    )


def write_both(catalog: Catalog, twins: tuple[Table, Table], parts: list[pa.Table]) -> None:
    """The same rows in several writes of one transaction."""
    for table in twins:
        with catalog.transaction() as tx:
            for part in parts:
                into = tx.table(table.name)
                (into.write if "_row_kind" in part.schema.names else into.append)(part)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"changelog-producer": "input", "bucket": "2"},
        {"changelog-producer": "lookup", "bucket": "2"},
        {"changelog-producer": "lookup", "lookup-wait": "false"},
        {"sequence.field": "seq"},
        {"sequence.field": "seq", "changelog-producer": "lookup", "sequence.field.sort-order": "desc"},
        {"merge-engine": "first-row", "ignore-delete": "true", "changelog-producer": "lookup"},
    ],
    ids=lambda options: ",".join(options.values()) or "plain",
)
def test_a_keyed_table_shows_the_same_by_fewer_files(catalog: Catalog, options: dict[str, str]) -> None:
    random = Random(str(options))
    twins = make_twins(catalog, ["day", "k"], **options)
    merged, plain = twins
    has_open = options.get("lookup-wait") == "false"
    for snapshot in range(1, 4):
        write_both(catalog, twins, [make_rows(random, 250, kinds=True) for _ in range(2)])
        assert states(merged) == states(plain)
        if not has_open:
            reported = [table.changes(snapshot - 1).to_arrow().sort_by(ORDER).to_pylist() for table in twins]
            assert reported[0] == reported[1]
        if options.get("merge-engine") != "first-row":
            raw = [table.changes(snapshot - 1, raw=True).to_arrow().sort_by(ORDER).to_pylist() for table in twins]
            assert raw[0] == raw[1]
    buckets = 2 * int(options.get("bucket", "1"))
    assert merged.files().num_rows == 3 * buckets, "one run a bucket and commit"
    assert plain.files().num_rows > 6 * buckets, "there was something to merge"
    assert merged.snapshots().column("kind").to_pylist() == ["APPEND"] * 3
    if options.get("changelog-producer") == "input":
        # Changelog files that share keys are merged in any case, to read by key, then arrival (semantics 3.4).
        assert [len(changelog_paths(table, catalog.metastore)) for table in twins] == [3 * buckets] * 2


ORDER = [("_snapshot_id", "ascending"), ("day", "ascending"), ("k", "ascending")]


def states(table: Table) -> list[list[dict[str, Any]]]:
    """The rows of each snapshot."""
    count = table.snapshots().num_rows
    found = [table.scan(snapshot_id=number).to_arrow() for number in range(1, count + 1)]
    return [rows.sort_by([("day", "ascending"), ("k", "ascending")]).to_pylist() for rows in found]


def test_deletion_vectors_are_of_the_merged_files(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """With committed positions readers merge nothing, so that wrong ones would show."""
    random = Random(1)
    twins = make_twins(catalog, ["day", "k"], **{"changelog-producer": "lookup"})
    for _ in range(3):
        write_both(catalog, twins, [make_rows(random, 300, kinds=True)])
    wanted = states(twins[1])
    files = catalog.metastore.plan(PlanRequest(twins[0].uuid)).files
    assert files.column("deletion_vector_path").null_count == 0

    def merge(*_: object, **__: object) -> None:
        raise AssertionError("the reader merged")

    monkeypatch.setattr(deletion_vectors, "find_deleted_rows", merge)
    assert states(twins[0]) == wanted


@pytest.mark.parametrize("buckets", [{}, {"bucket": "2", "bucket-key": "k"}])
def test_append_tables_keep_rows_and_order(catalog: Catalog, buckets: dict[str, str]) -> None:
    random = Random(2)
    # Files end early, so that there are small ones and full ones side by side.
    more = {"target-file-size": "8 kb"} if buckets else {}
    twins = make_twins(catalog, [], **buckets, **more)
    sizes = (1500, 40, 900)
    write_both(catalog, twins, [make_rows(random, size, kinds=False) for size in sizes])
    merged, plain = (table.scan().to_arrow() for table in twins)
    assert merged.num_rows == plain.num_rows == sum(sizes)
    if buckets:
        for rest in range(2):
            own, other = ([row for row in rows.to_pylist() if row["day"] == rest] for rows in (merged, plain))
            assert own == other, "in the order in which they were written"
    else:
        order = [(name, "ascending") for name in ("day", "k", "seq", "v")]
        assert merged.sort_by(order).to_pylist() == plain.sort_by(order).to_pylist()


def test_many_partitions_of_an_append_table_become_a_file_each(catalog: Catalog) -> None:
    """More partitions than files may be open: each comes back several times, and would have a file each time."""
    schema = pa.schema([("p", pa.int64()), ("v", pa.string())])
    tables = [
        catalog.create_table(f"shop.{name}", schema, partition_by=["p"], options={**SMALL_BUFFER, **given})
        for name, given in (("merged", {"precommit-compact": "true"}), ("plain", {}))
    ]
    rows = pa.table({"p": [n % 80 for n in range(1600)], "v": [f"value {n}" for n in range(1600)]}, schema=schema)
    for table in tables:
        table.append(rows)
    assert tables[0].files().num_rows == 80
    assert tables[1].files().num_rows > 160
    assert sorted(tables[0].scan().to_arrow().column("v").to_pylist()) == sorted(rows.column("v").to_pylist())


def test_only_what_was_committed_is_left_and_a_single_file_stays_as_it_is(catalog: Catalog, warehouse: Path) -> None:
    twins = make_twins(catalog, ["day", "k"], **{"changelog-producer": "input"})
    merged = twins[0]
    write_both(catalog, twins, [make_rows(Random(3), 400, kinds=True)])
    live = {*merged.files().column("path").to_pylist(), *changelog_paths(merged, catalog.metastore)}
    assert all("merged" in path for path in live)
    assert {path for path in data_files(warehouse) if path.split("/", 1)[0] == merged.uuid} == {
        f"{merged.uuid}/{path}" for path in live
    }
    merged.upsert(make_rows(Random(4), 5, kinds=False))
    newest = merged.files().filter(pa.compute.equal(merged.files().column("added_snapshot"), 2))
    assert newest.num_rows == 2
    assert not any("merged" in path for path in newest.column("path").to_pylist())


def test_overwrites_merge_too(catalog: Catalog) -> None:
    merged, plain = make_twins(catalog, ["day", "k"])
    for table in (merged, plain):
        table.upsert(make_rows(Random(5), 400, kinds=False))
        table.overwrite(make_rows(Random(6), 400, kinds=False), partition="dynamic")
    assert states(merged) == states(plain)
    assert merged.files().num_rows == 2


@pytest.mark.parametrize(("operation", "number"), [("open_input", 1), ("create", 1), ("commit", 2)])
def test_a_merge_that_fails_leaves_nothing(
    metastore: InProcessMetastore, warehouse: Path, operation: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = FaultyStores()
    with Catalog(metastore, stores) as catalog:
        catalog.create_database("shop")
        table = make_twins(catalog, ["day", "k"])[0]

        def fail(*arguments: Any) -> Any:
            stores.fail_at(operation, number)
            return merge_commit_files(*arguments)

        monkeypatch.setattr(table_write, "merge_commit_files", fail)
        with pytest.raises(Unavailable, match="told to fail"):
            table.upsert(make_rows(Random(7), 400, kinds=False))
        assert stores.failures
        stores.heal()
        assert data_files(warehouse) == []
        assert table.snapshots().num_rows == 0
        monkeypatch.undo()
        table.upsert(make_rows(Random(7), 400, kinds=False))
        assert table.files().num_rows == 2


def test_the_option_may_change_at_any_time(catalog: Catalog) -> None:
    merged, plain = make_twins(catalog, ["day", "k"])
    merged.alter(unset=["precommit-compact"])
    plain.alter(set={"precommit-compact": "true"})
    for table in (merged, plain):
        table.upsert(make_rows(Random(8), 400, kinds=False))
    assert merged.files().num_rows > 4
    assert plain.files().num_rows == 2
    with Catalog(catalog.metastore, LocationStores()) as other:
        assert states(other.table("shop.plain")) == states(merged)
