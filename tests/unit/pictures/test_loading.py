"""What pictures show of real tables, in a metastore in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.errors import InvalidArgument, NotFound
from lakelog.format.retention.lag import Lag
from lakelog.pictures import amplification
from lakelog.pictures.amplification import draw_amplification, load_amplification
from lakelog.pictures.bucket_runs import BucketRuns
from lakelog.pictures.buckets import Buckets
from lakelog.pictures.files import draw_files, load_files
from lakelog.pictures.freshness import draw_freshness, load_freshness
from lakelog.pictures.lag import draw_lag, load_lag
from lakelog.pictures.levels import draw_levels, load_levels
from lakelog.pictures.path import draw_path, load_path
from lakelog.pictures.timeline import draw_timeline, load_timeline
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from tests.unit.pictures.drawn import check_readable, draw_both, texts_of

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("item", pa.string())])
ALL = (
    (load_amplification, draw_amplification),
    (load_files, draw_files),
    (load_freshness, draw_freshness),
    (load_lag, draw_lag),
    (load_levels, draw_levels),
    (load_path, draw_path),
    (load_timeline, draw_timeline),
)


def upsert(table: Table, *ids: int, writer: str = "checkout") -> None:
    rows = pa.table({"id": ids, "item": [f"item {each}" for each in ids]}, schema=SCHEMA)
    table.upsert(rows, writer=writer, identifier=table.info.latest_snapshot_id + len(table.snapshots()) + 1)


@pytest.fixture
def orders(catalog: Catalog) -> Table:
    return catalog.create_table("shop.orders", SCHEMA, primary_key=["id"], options={"bucket": "1"})


def test_a_table_without_snapshots_has_all_pictures(orders: Table) -> None:
    for load, draw in ALL:
        for picture in draw_both(draw, load(orders)):
            check_readable(picture)


def test_a_table_with_one_file_has_all_pictures(orders: Table) -> None:
    upsert(orders, 1)
    for load, draw in ALL:
        for picture in draw_both(draw, load(orders)):
            check_readable(picture)
    assert (load_files(orders).files, load_files(orders).small) == (1, 0), "there is nothing to merge it with"
    assert "None is small" in draw_files(load_files(orders)).description
    upsert(orders, 2)
    assert (load_files(orders).files, load_files(orders).small) == (2, 2)


def test_each_run_of_a_bucket_is_a_row_the_newest_first(orders: Table, compact: Callable[[], None]) -> None:
    upsert(orders, *range(100))
    orders.compact(full=True, wait=False)
    compact()
    upsert(orders, *range(40, 60))
    upsert(orders, *range(90, 95))
    data = load_levels(orders)
    assert isinstance(data, BucketRuns)
    assert [(run.level > 0, run.files, run.rows) for run in data.runs] == [
        (False, 1, 5),
        (False, 1, 20),
        (True, 1, 100),
    ]
    places = [(run.boxes[0].start, run.boxes[0].end) for run in data.runs]
    assert places[2] == (0, 1)
    assert places[1][1] < places[0][0], "the keys 40 to 59 are before 90 to 94"
    assert (data.runs[0].boxes[0].first_key, data.runs[0].boxes[0].last_key) == ("90", "94")
    assert "a read merges 3 sorted runs" in draw_levels(data).description


def test_levels_show_an_earlier_state_one_bucket_or_all(catalog: Catalog) -> None:
    schema = pa.schema([pa.field("dt", pa.string(), nullable=False), *SCHEMA])
    table = catalog.create_table(
        "shop.days", schema, primary_key=["dt", "id"], partition_by=["dt"], options={"bucket": "2"}
    )
    for day in ("a", "b, c"):
        table.upsert(pa.table({"dt": [day] * 40, "id": range(40), "item": ["x"] * 40}, schema=schema))
    every = load_levels(table)
    assert isinstance(every, Buckets)
    assert {(each.partition, each.bucket) for each in every.buckets} == {
        (f"dt={day}", bucket) for day in ("a", "b, c") for bucket in (0, 1)
    }
    one = load_levels(table, {"dt": "b, c"}, 1)
    assert isinstance(one, BucketRuns)
    assert (one.partition, one.bucket) == ("dt=b, c", 1)
    before = load_levels(table, snapshot_id=1)
    assert isinstance(before, Buckets)
    assert before.total == 2
    with pytest.raises(NotFound, match="no files in partition dt=z, bucket 0"):
        load_levels(table, {"dt": "z"}, 0)
    with pytest.raises(InvalidArgument, match="no partition column"):
        load_levels(table, {"nonsense": "z"})
    plain = catalog.create_table("shop.plain", SCHEMA)
    with pytest.raises(InvalidArgument, match=r"shop.plain has no partitions\.$"):
        load_levels(plain, {"dt": "z"})


def test_small_files_are_counted_in_each_bucket_of_a_partition(catalog: Catalog) -> None:
    schema = pa.schema([pa.field("dt", pa.string(), nullable=False), *SCHEMA])
    table = catalog.create_table("shop.days", schema, partition_by=["dt"])
    for day in ("a", "a", "b"):
        table.append(pa.table({"dt": [day], "id": [1], "item": ["x"]}, schema=schema))
    data = load_files(table)
    assert [(each.name, each.files, each.small) for each in data.groups] == [("dt=a", 2, 2), ("dt=b", 1, 0)]
    assert (data.small, sum(each.small for each in data.bins)) == (2, 2)


def test_files_are_counted_against_the_target(catalog: Catalog) -> None:
    table = catalog.create_table("shop.visits", SCHEMA, options={"target-file-size": "2 kb"})
    for count in (1, 1, 20_000):
        table.append(pa.table({"id": range(count), "item": ["x"] * count}, schema=SCHEMA))
    data = load_files(table)
    sizes = table.files().column("bytes").to_pylist()
    assert data.files == len(sizes) == sum(each.files for each in data.bins)
    assert data.small == sum(size < 0.7 * 2048 for size in sizes) == sum(each.small for each in data.bins)
    for each in data.bins:
        assert each.files == sum(each.start <= size < each.end for size in sizes)
    assert 2048 in {each.start for each in data.bins}


def test_the_timeline_has_kinds_tags_rollbacks_and_readers(orders: Table, compact: Callable[[], None]) -> None:
    upsert(orders, 1, 2)
    orders.tags.create("release-1")
    upsert(orders, 3)
    orders.rollback_to("release-1")
    orders.compact(full=True, wait=False)
    compact()
    orders.context.metastore.open_consumer("etl", [orders.uuid], "reader")
    orders.consumers.reset("etl", 1)
    data = load_timeline(orders)
    assert [each.kind for each in data.commits] == ["APPEND", "APPEND", "OVERWRITE", "COMPACT"]
    assert [each.like for each in data.commits] == [0, 0, 1, 0]
    assert [(each.name, each.snapshot_id) for each in data.tags] == [("release-1", 1)]
    assert [(each.name, each.behind) for each in data.readers] == [("etl", 3)]
    texts = texts_of(draw_timeline(data))
    assert {"↩ 1", "release-1 (1)", "etl (at 1, 3 behind)"} <= {*texts}


def test_lag_counts_rows_that_changed_and_the_age_of_the_first(orders: Table, compact: Callable[[], None]) -> None:
    for count in (3, 4, 5):
        upsert(orders, *range(count))
    orders.context.metastore.open_consumer("late", [orders.uuid], "reader")
    orders.consumers.reset("late", 1)
    orders.context.metastore.open_consumer("new", [orders.uuid], "reader")
    orders.compact(full=True, wait=False)
    compact()
    late, new = load_lag(orders).readers
    assert late.lag is not None
    assert (late.name, late.lag.snapshots, late.lag.rows, late.lag.is_least) == ("late", 3, 9, False)
    assert late.lag.age_ms >= 0
    assert (new.name, new.lag) == ("new", None)
    orders.consumers.reset("late", 3)
    (late,) = (each for each in load_lag(orders).readers if each.name == "late")
    assert late.lag == Lag(1, 0, 0), "it will receive nothing"
    orders.consumers.reset("late", 1)
    words = load_path(orders).readers[0]
    assert words.lag is not None
    assert words.lag.rows == 9


def test_a_lag_is_as_old_as_the_clock_of_the_metastore_says(orders: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    upsert(orders, 1)
    orders.context.metastore.open_consumer("late", [orders.uuid], "reader")
    orders.consumers.reset("late", 0)
    monkeypatch.setattr(orders.context.clock, "now_ms", lambda: 10**15)
    (late,) = load_lag(orders).readers
    assert late.lag is not None
    assert late.lag.age_ms < 60_000, "this machine's clock is thousands of years ahead"


def test_amplification_is_what_was_written_to_the_store(
    orders: Table, compact: Callable[[], None], tmp_path: Path
) -> None:
    def stored() -> int:
        return sum(file.stat().st_size for file in tmp_path.glob("warehouse/*/data/*/*.parquet"))

    by_commits = by_compactions = 0
    for number in range(6):
        before = stored()
        upsert(orders, *range(number, number + 300))
        by_commits += stored() - before
        before = stored()
        # A run alone in its bucket only gets another level: that writes nothing.
        orders.compact(full=number > 3, wait=False)
        compact()
        by_compactions += stored() - before
    data = load_amplification(orders)
    assert by_compactions > 0
    assert (data.commit_bytes, data.compaction_bytes) == (by_commits, by_compactions)
    assert data.factor == pytest.approx(1 + by_compactions / by_commits)


def test_too_many_earlier_files_make_the_figures_of_compactions_bounds(
    orders: Table, compact: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    upsert(orders, 1)
    orders.compact(wait=False)
    compact()
    upsert(orders, 2)
    assert "at most" not in draw_amplification(load_amplification(orders)).description
    monkeypatch.setattr(amplification, "MOST_FILES", 0)
    monkeypatch.setattr(amplification, "pick_newest", lambda history, _: history.snapshots[1:])
    assert orders.snapshots()["kind"].to_pylist() == ["APPEND", "COMPACT", "APPEND"]
    data = load_amplification(orders)
    assert data.is_most
    words = draw_amplification(data).description
    assert words.count("at most") == 2, words


def test_a_table_without_a_log_says_so(orders: Table) -> None:
    upsert(orders, 1)
    data = load_freshness(orders)
    assert data.consistency is None
    assert draw_freshness(data).description.startswith("The table has no log.")


def test_writers_without_a_name_are_one(orders: Table) -> None:
    upsert(orders, 1, writer="nightly")
    for _ in range(3):
        orders.upsert(pa.table({"id": [1], "item": ["x"]}, schema=SCHEMA))
    assert [each.name for each in load_path(orders).writers] == ["without a name", "nightly"]
