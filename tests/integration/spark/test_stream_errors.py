"""What a stream reader refuses, and how it tells so (semantics 5.1, 5.6)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from lakelog.embedded.stack import EmbeddedStack
from lakelog.errors import HistoryDiverged, InvalidArgument, NotFound, SnapshotExpired
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from tests.integration.spark.expiring import expire
from tests.integration.spark.spark_tables import MakeTable
from tests.support.spark.driven_stream import STREAMED, DrivenStream, flat, put, stream_of


@pytest.fixture
def keyed(make_table: MakeTable) -> Table:
    """Snapshots: two rows, one changed, one deleted."""
    table = make_table(STREAMED, ("k",), options={"bucket": "2"})
    table.upsert(put((1, "a"), (2, "b")))
    table.upsert(put((2, "B")))
    table.delete(pa.table({"k": [1]}))
    return table


@pytest.fixture
def appended(make_table: MakeTable) -> Table:
    """Five snapshots of two rows each."""
    table = make_table(STREAMED)
    for number in range(5):
        table.append(put((number, "x"), (number, "y")))
    return table


def test_a_checkpoint_of_another_table(stack: EmbeddedStack, keyed: Table, appended: Table, catalog: Catalog) -> None:
    stream = stream_of(stack, keyed)
    stream.run()
    stream.table = appended.name
    with pytest.raises(HistoryDiverged, match=rf"The checkpoint is of the table {keyed.uuid}, but {appended.name} is"):
        stream.run()
    stream.table = keyed.name
    catalog.drop_table(keyed.name)
    with pytest.raises(NotFound, match=keyed.name):
        stream.run()
    again = catalog.create_table(keyed.name, schema=STREAMED, primary_key=["k"])
    again.upsert(put((1, "other")))
    with pytest.raises(HistoryDiverged, match=r"one that was made after the old one had been dropped.*new checkpoint"):
        stream.run()


def test_a_table_dropped_while_it_runs(stack: EmbeddedStack, keyed: Table, catalog: Catalog) -> None:
    stream = stream_of(stack, keyed)
    stream.run()
    catalog.drop_table(keyed.name)
    catalog.create_table(keyed.name, schema=STREAMED, primary_key=["k"])
    with pytest.raises(NotFound, match="was dropped, so no change will come any more"):
        stream.advance(ReadAllAvailable())


@pytest.mark.parametrize("change", [{"snapshot": 7}, {"uuid": "0" * 32}])
def test_another_history(stack: EmbeddedStack, keyed: Table, change: dict[str, Any]) -> None:
    stream = stream_of(stack, keyed)
    stream.run()
    stream.offsets[-1] |= change
    with pytest.raises(HistoryDiverged, match=r"The checkpoint knows snapshot \d of .* restored to an earlier"):
        stream.run()
    # So does a batch that was planned before the restart.
    stream.offsets.insert(-1, {"table": keyed.uuid, "snapshot": 2, "uuid": ""})
    with pytest.raises(HistoryDiverged, match="restored to an earlier state"):
        stream.show(len(stream.offsets) - 2)


def test_a_checkpoint_of_another_source(stack: EmbeddedStack, keyed: Table) -> None:
    stream = stream_of(stack, keyed)
    stream.offsets.append({"topic-0": {"0": 5}})
    with pytest.raises(InvalidArgument, match=r"The checkpoint is not one of a lakelog table: its offset is"):
        stream.run()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scan.mode": "oldest"}, r"'scan\.mode' = 'oldest' is not possible"),
        ({"scan.mode": "incremental"}, "it is a read with an end"),
        ({"scan.mode": "from-snapshot"}, r"needs the option 'scan\.snapshot-id'"),
        ({"scan.mode": "latest", "scan.snapshot-id": "1"}, "contradict each other: that mode takes none"),
        ({"scan.snapshot-id": "1", "scan.timestamp-millis": "1"}, "both say where to begin"),
        ({"scan.snapshot-idd": "1"}, r"Did you mean 'scan\.snapshot-id'"),
        ({"maxFilesPerTriger": "1"}, "Did you mean 'maxFilesPerTrigger'"),
        ({"colums": "k"}, "Did you mean 'columns'"),
        ({"zz": "1"}, "Known options are 'metadata-columns'.*'maxRowsPerTrigger'.*'scan.mode'.*'filter'"),
        ({"incremental-between": "1,2"}, "It is an option of reads"),
        ({"consumer-id": "etl"}, "whose checkpoint keeps its position"),
        ({"columns": "w"}, "has no column 'w'"),
        ({"filter": "w = 1"}, "w"),
        ({"filter": "k > "}, "filter"),
        ({"metadata-columns": "_rowkind"}, "names '_rowkind', which is none of the metadata columns"),
        ({"maxFilesPerTrigger": "0"}, "'maxFilesPerTrigger' = '0' is not possible"),
        ({"maxBytesPerTrigger": "much"}, "Give a size such as '128 mb'"),
    ],
)
def test_what_cannot_be_is_refused_when_it_is_loaded(
    stack: EmbeddedStack, keyed: Table, options: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        DrivenStream(stack.target, keyed.name, options).start()


def test_first_rows_are_not_read_as_they_were_written(stack: EmbeddedStack, make_table: MakeTable) -> None:
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
    table = make_table(schema, ("k",), options={"merge-engine": "first-row"})
    with pytest.raises(InvalidArgument, match=r"'scan\.remove-normalize' is not possible .* 'first-row'"):
        DrivenStream(stack.target, table.name, {"scan.remove-normalize": "true"}).start()


def test_a_snapshot_that_is_not_there_yet(stack: EmbeddedStack, keyed: Table) -> None:
    stream = stream_of(stack, keyed, scan__mode="from-snapshot-full", scan__snapshot_id="9")
    with pytest.raises(NotFound, match=r"Snapshot 9 of .* does not exist: its newest snapshot is 3"):
        stream.run()


def test_a_checkpoint_whose_next_change_is_no_longer_kept(stack: EmbeddedStack, appended: Table) -> None:
    first = stream_of(stack, appended, scan__snapshot_id="1", maxFilesPerTrigger="1")
    first.start()
    assert first.reader is not None
    first.offsets.append(first.reader.initialOffset())
    assert first.advance(first.reader.getDefaultReadLimit())
    expire(appended, 4)
    with pytest.raises(
        SnapshotExpired,
        match=rf"The checkpoint is at snapshot 1 of {appended.name}, but snapshots 4 to 5 are all that is kept\. "
        r"Begin with a new checkpoint, or give the option 'scan\.expired-position' = 'earliest' for the changes that "
        r"are kept, or 'full'",
    ):
        first.run()
    with pytest.raises(SnapshotExpired, match="The checkpoint is at snapshot 0 of"):
        first.show(0)
    for policy, wanted in {
        "earliest": [(4, 3, "x"), (4, 3, "y"), (5, 4, "x"), (5, 4, "y")],
        "full": sorted((5, n, v) for n in range(5) for v in "xy"),
    }.items():
        stream = stream_of(stack, appended, scan__expired_position=policy)
        stream.offsets = list(first.offsets)
        assert flat(stream.run()) == wanted
        assert stream.run() == []
        # The jump itself shows nothing, also when it is planned again.
        assert stream.offsets[2]["jump"] is True
        assert stream.show(1) == []
