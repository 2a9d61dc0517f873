"""Batches of a stream reader out of a table's log hold what those out of its files do, whatever becomes of it."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any, cast

import pytest

from lakelog.reads.log import stall as log_stall
from lakelog.sdk.catalog import Catalog
from lakelog.spark.executor import log_span
from lakelog.spark.stream import splits
from lakelog.spark.stream.log_splits import LogSplit
from tests.integration.spark.log.driven_log import by_bucket, flat, of_files, stream_of
from tests.support.log.logging_tables import LogUses
from tests.support.log.orders_with_log import TABLES, fill, make, random_rows
from tests.support.spark.driven_stream import DrivenStream


def describe(stream: DrivenStream) -> list[tuple[Any, ...]]:
    """What the tasks of the first batch are told, but for the table as it is now."""
    assert stream.reader is not None
    tasks = [cast(LogSplit, each) for each in stream.reader.partitions(*stream.offsets[:2])]
    return [(each.starts, each.ends, each.snapshots, each.states, each.source, each.files.parts) for each in tasks]


VIEWS: dict[str, dict[str, str]] = {
    "all": {},
    "some columns": {"columns": "name,k", "metadata_columns": "_snapshot_id"},
    "filter": {"columns": "v", "filter": "k > 4 AND price > 10"},
    "key filter": {"filter": "k = 4"},
    "raw": {"scan__remove_normalize": "true"},
}


@pytest.mark.parametrize(("keyed", "options"), TABLES.values(), ids=TABLES)
def test_a_log_shows_what_files_show(
    catalog: Catalog, publisher: Any, uses: LogUses, keyed: bool, options: Mapping[str, str]
) -> None:
    table = make(catalog, keyed, options)
    draw = Random(1)
    for _ in range(6):
        table.write(random_rows(draw, 30, "+I +I +U -D" if keyed else "+I"))
    publisher(table).publish()
    for name, view in VIEWS.items():
        before = uses.count
        found = flat(stream_of(table, **view).run())
        # Of records that were left out of the log, and of those that commits have merged, files know.
        by_files = options == TABLES["input upsert"][1] or (keyed and name == "raw")
        assert (uses.count == before) == by_files, name
        wanted = of_files(table, **view)
        assert wanted
        if keyed and name in ("all", "key filter"):
            assert by_bucket(found) == by_bucket(wanted), name
        assert sorted(map(repr, found)) == sorted(map(repr, wanted)), name


@pytest.mark.parametrize("name", ["append", "append in buckets", "keyed", "lookup"])
def test_batches_take_log_and_files_in_turn(
    catalog: Catalog, publisher: Any, uses: LogUses, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    # A task for each partition of the topic, which hands records out in small pieces.
    monkeypatch.setattr(splits, "READ_BYTES", 1)
    monkeypatch.setattr(log_span, "EMITTED_ROWS", 20)
    monkeypatch.setattr(log_span, "_FETCHED", 7)
    keyed, options = TABLES[name]
    table = make(catalog, keyed, options)
    fill(table, keyed)
    publisher(table).publish()
    for limits in ({}, {"maxRowsPerTrigger": "1"}, {"maxRowsPerTrigger": "70"}):
        for view in ({}, {"streaming-read-overwrite": "true"}):
            before = uses.count
            stream = stream_of(table, **limits, **view)
            batches = stream.run()
            found, wanted = flat(batches), of_files(table, **view)
            assert (
                by_bucket(found) == by_bucket(wanted)
                if keyed
                else sorted(map(repr, found)) == sorted(map(repr, wanted))
            )
            # The whole batch with the overwrite comes from files.
            assert (uses.count > before) == bool(limits)
            stream.start()
            again = [stream.show(number) for number in range(len(stream.offsets) - 1)]
            assert [rows for rows in again if rows] == batches


def test_the_tasks_of_a_batch_are_the_same_whenever_they_are_planned(
    catalog: Catalog, publisher: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splits, "READ_BYTES", 1)
    table = make(catalog, True, {"bucket": "3"})
    by_hand = publisher(table)
    for seed in range(3):
        table.upsert(random_rows(Random(seed), 40, None))
        by_hand.publish()
    stream = stream_of(table)
    stream.run()
    assert stream.reader is not None
    planned = describe(stream)
    assert len(planned) == 3
    table.upsert(random_rows(Random(3), 40, None))
    by_hand.publish()
    stream.start()
    assert describe(stream) == planned


def test_what_is_not_published_is_waited_for_unless_the_publisher_stands_still(
    catalog: Catalog, publisher: Any, uses: LogUses, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(catalog, False, {})
    by_hand = publisher(table)
    table.append(random_rows(Random(1), 5, None))
    by_hand.publish()
    monkeypatch.setattr("lakelog.spark.stream.reader._WAIT_S", 0.3)
    stream = stream_of(table)
    stream.start()
    assert stream.reader is not None
    stream.offsets.append(stream.reader.initialOffset())
    limit = stream.reader.getDefaultReadLimit()
    assert stream.advance(limit)
    table.append(random_rows(Random(2), 5, None))
    assert not stream.advance(limit)
    by_hand.publish()
    assert stream.advance(limit)
    assert stream.offsets[-1]["snapshot"] == 2
    # Behind nothing for long, and then behind: that is no standing still.
    monkeypatch.setattr(log_stall, "STALL_S", 1.0)
    assert not stream.advance(limit)
    table.append(random_rows(Random(3), 5, None))
    assert not stream.advance(limit)
    before = uses.count
    while not stream.advance(limit):
        pass
    assert stream.offsets[-1]["snapshot"] == 3
    assert len(stream.show(2)) == 5
    assert uses.count == before
    # With AvailableNow the end of the table is the end.
    table.append(random_rows(Random(4), 5, None))
    assert len(flat(stream.run())) == 5
    # Once it goes on, the log is read again.
    by_hand.publish()
    table.append(random_rows(Random(5), 5, None))
    by_hand.publish()
    assert len(flat(stream.run())) == 5
    assert uses.count > before
