"""`lakelog log verify` of a topic that keeps the last record of each key: what was replaced, and what is lost."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest

from lakelog.clock import SystemClock
from lakelog.log.columns import take_fetched
from lakelog.log.memory import MemoryLog
from lakelog.log.memory.reader import MemoryReader
from lakelog.log.records import FetchedRecords
from lakelog.log.tally import LogFindings
from lakelog.sdk.maintenance.log_verification import verify_log
from lakelog.sdk.maintenance.logged_rows import find_last
from lakelog.sdk.tables.table import Table
from tests.support.log.log_world import World, read_log, rows


def verify(world: World, table: Table) -> LogFindings:
    info = world.metastore.get_log(table.uuid)
    store = world.catalog.open_store(world.metastore.get_table_by_uuid(table.uuid))
    return verify_log(world.metastore, info, MemoryLog(world.cluster), store, SystemClock())


def test_the_last_row_of_each_key() -> None:
    found = find_last({1: np.array([7, 8, 7]), 3: np.array([], np.int64), 4: np.array([8, 9])})
    assert {each: mask.tolist() for each, mask in found.items()} == {1: [False, False, True], 3: [], 4: [True, True]}


def test_records_that_were_replaced_are_not_lost_and_the_last_ones_are(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, publisher = world.make(bucket="2")
    draw = Random(5)
    for number in range(8):
        data = rows(*((draw.randrange(20), number) for _ in range(30)))
        kinds = [draw.choice(["+I", "-U", "+U", "-D"]) for _ in range(30)]
        table.write(data.append_column("_row_kind", pa.array(kinds)))
    publisher.publish()
    before = verify(world, table)
    assert (before.is_fine, before.compacted) == (True, 0)
    world.cluster.compact(world.metastore.get_log(table.uuid).topic)
    kept = read_log(world, table)
    found = verify(world, table)
    assert found.is_fine
    # Lone -U may have a record, or none.
    assert found.compacted == found.rows - sum(kind != b"-U" for kind in kept.kinds.to_pylist()) > 0
    fetch = MemoryReader.fetch
    for place in range(len(kept)):
        left_out = kept.partitions[place], kept.offsets[place]

        def leave_out(
            reader: MemoryReader, max_records: int, timeout_s: float, at: object = left_out
        ) -> FetchedRecords:
            records = fetch(reader, max_records, timeout_s)
            is_it = [(p, o) == at for p, o in zip(records.partitions, records.offsets, strict=True)]
            return take_fetched(records, ~np.array(is_it, np.bool_))

        monkeypatch.setattr(MemoryReader, "fetch", leave_out)
        # Brokers may forget a tombstone, in time, and never a row.
        is_row = kept.values[place].is_valid
        assert verify(world, table).lost == (1 if is_row else 0)
