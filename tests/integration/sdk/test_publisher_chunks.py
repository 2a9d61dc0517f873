"""What records a snapshot's rows become does not depend on the pieces in which its files are read and encoded."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from random import Random

import pyarrow as pa
import pytest

from lakelog.reads.log.plan import plan_log
from lakelog.sdk.tables.table import Table
from lakelog.storage.objects.stores import LocationStores
from tests.support.log.log_world import SCHEMA, World, read_log
from writer.publishing.reading.file_logs import FileLogs
from writer.publishing.reading.snapshot_log import RecordChunk

_KEYS, _ROWS = 40, 900
_OF_COMMIT = re.compile(rb'"source":{[^}]*}|"ts_ms":[0-9]+')


def make(world: World, name: str, mode: str, log_format: str) -> Table:
    """A table with a commit of some files in a bucket, in which old rows stand before new ones, and some alone."""
    more = {"log.changelog-mode": mode, "log.format": log_format, "write-buffer-size": "4 kb", "bucket": "2"}
    table, publisher = world.make(f"shop.{name}", True, **more)
    draw = Random(7)
    keys = [draw.randrange(_KEYS) for _ in range(_ROWS // 2)]
    data = pa.table({"k": [k for k in keys for _ in range(2)], "v": list(range(_ROWS))}, schema=SCHEMA)
    kinds = [kind for _ in keys for kind in draw.choice([("-U", "+U"), ("+I", "-U"), ("-D", "+I")])]
    table.write(data.append_column("_row_kind", pa.array(kinds)))
    files = [len(chunk.files) for chunk in plan_log(world.metastore, table.uuid, 0, 1).chunks]
    assert len(files) == 2
    assert min(files) > 1, "the rows of a key stand in several files"
    publisher.publish()
    return table


def show(world: World, table: Table) -> list[tuple[object, ...]]:
    """Partition, index, kind, key and value of each record; without what its table and commit are called."""
    found = read_log(world, table)
    values = [each if each is None else _OF_COMMIT.sub(b"", each) for each in found.values.to_pylist()]
    columns = [found.partitions.tolist(), found.indexes.to_pylist(), found.kinds.to_pylist(), found.keys.to_pylist()]
    return list(zip(*columns, values, strict=True))


@pytest.mark.parametrize("mode", ["upsert", "all"])
@pytest.mark.parametrize("log_format", ["json", "debezium-json"])
def test_pieces_make_no_difference(world: World, monkeypatch: pytest.MonkeyPatch, mode: str, log_format: str) -> None:
    whole = show(world, make(world, "whole", mode, log_format))
    monkeypatch.setattr("lakelog.storage.parquet.reader.BATCH_ROWS", 3)
    assert show(world, make(world, "pieces", mode, log_format)) == whole


def test_a_tombstone_is_the_last_that_is_emitted_of_its_key_but_for_what_was_written_after_it(world: World) -> None:
    """semantics 4.4: of an old row that a later row of its key follows, in whichever file, nothing is sent."""
    by_key = defaultdict(list)
    for _, _, kind, key, value in show(world, make(world, "orders", "upsert", "json")):
        by_key[key].append((kind, value))
    assert len(by_key) == _KEYS
    for records in by_key.values():
        assert b"-U" not in [kind for kind, _ in records[:-1]]
        assert all((value is None) == (kind in (b"-U", b"-D")) for kind, value in records)
    assert any(records[-1][0] == b"-U" for records in by_key.values())


@pytest.mark.parametrize("mode", ["upsert", "all"])
def test_from_each_row_on_the_same_records_come(world: World, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    """A publisher goes on in the middle of a file, where the one before it has ended."""
    monkeypatch.setattr("lakelog.storage.parquet.reader.BATCH_ROWS", 7)
    table = make(world, "orders", mode, "debezium-json")
    metastore = world.metastore
    snapshots = metastore.list_snapshots(table.uuid).snapshots
    (log,) = FileLogs(metastore, LocationStores()).plan(metastore.get_log(table.uuid), snapshots, 2)
    chunks = list(log.read(0))
    assert chunks[-1].next_index == log.row_count
    for place in range(0, len(chunks), 5):
        assert _join(log.read(chunks[place].next_index)) == _join(chunks[place + 1 :])


def _join(chunks: Iterable[RecordChunk]) -> list[tuple[object, ...]]:
    return [
        (each.records.partition, *record)
        for each in chunks
        for record in zip(each.records.indexes.tolist(), each.records.values.to_pylist(), strict=True)
    ]
