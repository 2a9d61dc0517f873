"""What reads say that they have read, and left out (semantics 5.4)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.storage.lookup.copy_cache import CopyCache

from .shop import make_orders, orders

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("dt", pa.string()), pa.field("v", pa.string())])
ROWS = 100_000


def make_log(catalog: Catalog) -> Table:
    """Three files of several row groups, one a day."""
    catalog.create_database("shop", if_not_exists=True)
    table = catalog.create_table("shop.log", SCHEMA, partition_by=["dt"])
    for day in range(3):
        keys = np.arange(ROWS) + day * ROWS
        table.append(pa.table([keys, pa.repeat(f"d{day}", ROWS), pa.array(keys).cast(pa.string())], schema=SCHEMA))
    return table


def test_a_scan_says_what_it_left_out(catalog: Catalog) -> None:
    table = make_log(catalog)
    everything = table.scan()
    assert everything.to_arrow().num_rows == 3 * ROWS
    whole = everything.metrics
    assert (whole.files, whole.files_opened, whole.row_groups_left_out) == (3, 3, 0)
    assert whole.row_groups_read > 6
    narrow = table.scan(["k"], f"dt = 'd1' AND k < {ROWS + 10}")
    assert narrow.metrics.files == 1, "the metastore has left out two files"
    assert narrow.to_arrow().num_rows == 10
    assert (narrow.metrics.files_opened, narrow.metrics.row_groups_read) == (1, 1)
    assert narrow.metrics.row_groups_left_out >= 2
    assert 0 < narrow.metrics.bytes_read < whole.bytes_read / 5


def test_lookups_say_where_they_found_old_rows(catalog: Catalog) -> None:
    catalog.create_database("shop", if_not_exists=True)
    options = {"changelog-producer": "lookup"}
    table = catalog.create_table("shop.t", SCHEMA, primary_key=["k"], options=options)
    for number in range(6):
        table.upsert(pa.table([np.arange(100), ["a"] * 100, [str(number)] * 100], schema=SCHEMA))
    metrics = table.lookup_metrics
    assert metrics.hits >= 4
    assert metrics.copies_made >= 4
    assert metrics.bytes_made > 0
    assert metrics.bytes_evicted == 0


def test_copies_of_what_a_commit_has_written_are_swept_once(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    swept: list[int] = []
    evict = CopyCache.evict

    def count(cache: CopyCache) -> None:
        swept.append(cache.statistics.copies_made)
        evict(cache)

    monkeypatch.setattr(CopyCache, "evict", count)
    catalog.create_database("shop", if_not_exists=True)
    options = {"changelog-producer": "lookup", "bucket": "8", "lookup.cache-max-disk-size": "20 kb"}
    table = catalog.create_table("shop.t", SCHEMA, primary_key=["k"], options=options)
    for number in range(3):
        table.upsert(pa.table([np.arange(1000), ["a"] * 1000, [str(number)] * 1000], schema=SCHEMA))
    # The first commit has nothing to look up in; the others have copied what they wrote to eight buckets.
    assert swept == [8, 16]
    metrics = table.lookup_metrics
    assert metrics.bytes_made - metrics.bytes_evicted <= 20 << 10, "what is too much has gone"
    assert metrics.copies_evicted > 0


def test_a_subscription_does_not_read_what_is_not_asked_for(catalog: Catalog) -> None:
    table = make_log(catalog)
    reads = []
    for columns, condition in ((None, None), (["k"], None), (["k"], f"k >= {2 * ROWS}")):
        rows = 0
        with table.subscribe(columns=columns, filter=condition, options={"scan.snapshot-id": 1}) as stream:
            while stream.position != 3:
                batch = stream.read(0.2)
                rows += 0 if batch is None else batch.data.num_rows
            reads.append((rows, stream.metrics))
    assert [rows for rows, _ in reads] == [3 * ROWS, 3 * ROWS, ROWS]
    assert [read.files_opened for _, read in reads] == [3, 3, 1]
    assert reads[0][1].bytes_read > reads[1][1].bytes_read > 2 * reads[2][1].bytes_read > 0


@pytest.mark.parametrize("producer", ["none", "lookup"])
def test_changes_of_a_keyed_table_say_what_was_read(catalog: Catalog, producer: str) -> None:
    table = make_orders(catalog, bucket="1", **{"changelog-producer": producer})
    for number in range(3):
        table.upsert(orders(*((n, f"name {number} {n}", None) for n in range(500))))
    reads = []
    for columns in (None, ["id"]):
        with table.subscribe(columns=columns, options={"scan.snapshot-id": 1}) as stream:
            while stream.position != 3:
                stream.read(0.2)
            reads.append(stream.metrics)
    for read in reads:
        assert (read.files, read.files_opened, read.row_groups_read) == (3, 3, 3)
    assert reads[0].bytes_read > 1.3 * reads[1].bytes_read > 0
