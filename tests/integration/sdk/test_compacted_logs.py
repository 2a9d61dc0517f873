"""Of a topic that is compacted, a reader takes only what is too young for it: else it would miss changes unnoticed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakelog.log.columns import take_fetched
from lakelog.log.memory.reader import MemoryReader
from lakelog.log.records import FetchedRecords
from tests.support.log.log_world import World, rows
from tests.support.log.logging_tables import read_all, to_rows


@pytest.mark.parametrize("minutes", [50, 56])
@pytest.mark.parametrize("gone", [2, 3])
def test_what_may_have_been_compacted_away_comes_from_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: int, minutes: int
) -> None:
    world = World(tmp_path)
    table, publisher = world.make()
    for value in (1, 2, 3):
        table.upsert(rows((1, value)))
    publisher.publish()
    fetch = MemoryReader.fetch

    def compact(self: MemoryReader, *args: Any) -> FetchedRecords:
        records = fetch(self, *args)
        return take_fetched(records, records.snapshot_ids.to_numpy(zero_copy_only=False) != gone)

    monkeypatch.setattr(MemoryReader, "fetch", compact)
    world.commits.time_ms += minutes * 60_000
    with table.subscribe(scan_mode="from-snapshot", options={"scan.snapshot-id": 1}) as stream:
        reported = to_rows(read_all(stream, 3 if minutes == 56 or gone == 2 else 2))
    whole = [
        (1, 1, 1, "+I"),
        (2, 1, 1, "-U"), (2, 1, 2, "+U"),
        (3, 1, 2, "-U"), (3, 1, 3, "+U"),
    ]  # fmt: skip
    # The control: what is young was not compacted; here it was, and is missing.
    assert (reported == whole) is (minutes == 56)
    world.close()
