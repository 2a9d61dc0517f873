"""Subscriptions over a table's log show what its files would, row for row, whatever becomes of it (semantics 4)."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from lakelog.errors import HistoryDiverged, InvalidArgument, PermissionDenied
from lakelog.log.columns import take_fetched
from lakelog.log.memory import Fault, MemoryCluster, Step
from lakelog.log.records import FetchedRecords, TopicSpec
from lakelog.reads.log import stall as log_stall
from lakelog.reads.streams.log import feed as log_feed
from lakelog.reads.streams.log import table as log_table
from lakelog.sdk.catalog import Catalog
from lakelog.storage.objects.stores import LocationStores
from metastore.testing import InProcessMetastore
from tests.support.log.logging_tables import HandPublisher, LogUses, open_metastore, read_all, to_rows, to_schemas
from tests.support.log.orders_with_log import SCHEMA, TABLES, fill, find_newest, make, random_rows


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster()


@pytest.fixture
def metastore(cluster: MemoryCluster, tmp_path: Path) -> Iterator[InProcessMetastore]:
    """Whose store makes no difference: what it says of logs has a contract of its own."""

    service = open_metastore(tmp_path / "warehouse", cluster)
    yield service
    service.close()


@pytest.fixture
def uses(cluster: MemoryCluster) -> LogUses:
    return LogUses(cluster)


@pytest.fixture
def catalog(metastore: InProcessMetastore, uses: LogUses) -> Catalog:
    catalog = Catalog(metastore, LocationStores(), open_log=uses)
    catalog.create_database("shop")
    return catalog


class NoFiles:
    """Stands in for reading files, which is not to happen."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("files were read")


VIEWS: dict[str, dict[str, Any]] = {
    "all": {},
    "some columns": {"columns": ["name", "k"]},
    "filter": {"columns": ["v"], "filter": "k > 4 AND price > 10"},
    "raw": {"options": {"scan.remove-normalize": "true"}},
    "overwrites": {"options": {"streaming-read-overwrite": "true"}},
}


@pytest.mark.parametrize(("keyed", "options"), TABLES.values(), ids=TABLES)
def test_a_log_shows_what_files_show(
    catalog: Catalog,
    metastore: InProcessMetastore,
    cluster: MemoryCluster,
    uses: LogUses,
    keyed: bool,
    options: Mapping[str, str],
) -> None:
    table = make(catalog, keyed, options)
    publisher = HandPublisher(metastore, cluster, table)
    newest = fill(table, keyed)
    publisher.publish()
    for name, view in VIEWS.items():
        wanted = view.get("options", {})
        rest = {key: value for key, value in view.items() if key != "options"}
        found = {}
        for mode in ("file", "log"):
            before = uses.count
            with table.subscribe(
                scan_mode="from-snapshot",
                options={**wanted, "scan.snapshot-id": "1", "streaming-read-mode": mode},
                **rest,
            ) as stream:
                found[mode] = read_all(stream, newest)
            # Of records that were left out of the log, and of those that commits have merged, files know.
            by_files = mode == "file" or options == TABLES["input upsert"][1] or (keyed and name == "raw")
            assert (uses.count == before) == by_files, name
        assert to_rows(found["log"]) == to_rows(found["file"]), name
        assert to_schemas(found["log"]) == to_schemas(found["file"]), name
        assert to_rows(found["log"])
    publisher.close()


def test_rows_come_as_they_are_published(
    catalog: Catalog, metastore: InProcessMetastore, cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(catalog, True, {"bucket": "2"})
    publisher = HandPublisher(metastore, cluster, table)
    table.upsert(random_rows(Random(1), 5, None))
    publisher.publish()
    with table.subscribe() as stream:
        assert stream.read(10) is not None
        monkeypatch.setattr("lakelog.reads.streams.table.plan_changes", NoFiles())
        for number in range(2, 6):
            table.upsert(
                pa.table({"day": [7], "k": [7], "v": [number], "name": [None], "price": [None]}, schema=SCHEMA)
            )
            # Committed, but not in the log.
            assert stream.read(0.3) is None
            publisher.publish()
            batch = stream.read(10)
            assert batch is not None
            assert batch.snapshot_id == number
            assert batch.data.column("v").to_pylist()[-1] == number
            assert batch.data.column("_row_kind").to_pylist() == (["+I"] if number == 2 else ["-U", "+U"])
    publisher.close()


def test_a_log_that_is_too_short_is_made_up_for_by_files(
    catalog: Catalog, metastore: InProcessMetastore, cluster: MemoryCluster, caplog: pytest.LogCaptureFixture
) -> None:
    table = make(catalog, False, {})
    publisher = HandPublisher(metastore, cluster, table)
    newest = fill(table, False)
    publisher.publish()
    topic = metastore.get_log(table.uuid).topic
    offsets = metastore.find_log_offsets(table.uuid, until=3)
    assert offsets is not None
    cluster.cut(topic, dict(enumerate(offsets.offsets)))
    options = {"scan.snapshot-id": "1", "streaming-read-mode": "log"}
    with (
        table.subscribe(scan_mode="from-snapshot", options=options) as stream,
        table.subscribe(scan_mode="from-snapshot", options={**options, "streaming-read-mode": "file"}) as files,
    ):
        assert to_rows(read_all(stream, newest)) == to_rows(read_all(files, newest))
        assert "files are read instead of its log" in caplog.text
        caplog.clear()
        # Behind it the log is long enough.
        table.append(random_rows(Random(2), 3, None))
        publisher.publish()
        assert to_rows(read_all(stream, newest + 1)) == to_rows(read_all(files, newest + 1))
        assert "instead of its log" not in caplog.text
    publisher.close()


@pytest.mark.parametrize("what", ["brokers away", "topic gone", "publisher stands still", "log begun anew"])
def test_what_the_log_does_not_hold_files_do(
    catalog: Catalog,
    metastore: InProcessMetastore,
    cluster: MemoryCluster,
    monkeypatch: pytest.MonkeyPatch,
    what: str,
) -> None:
    monkeypatch.setattr(log_stall, "STALL_S", 0.3)
    monkeypatch.setattr(log_table, "_REST_S", 0.5)
    table = make(catalog, True, {})
    publisher = HandPublisher(metastore, cluster, table)
    newest = fill(table, True)
    publisher.publish()
    options = {"scan.snapshot-id": "1", "streaming-read-mode": "log"}
    with (
        table.subscribe(scan_mode="from-snapshot", options=options) as stream,
        table.subscribe(scan_mode="from-snapshot", options={**options, "streaming-read-mode": "file"}) as files,
    ):
        assert to_rows(read_all(stream, newest)) == to_rows(read_all(files, newest))
        if what == "brokers away":
            cluster.script(Step.FETCH, Fault.REFUSED)
        elif what == "topic gone":
            cluster.delete_topic(metastore.get_log(table.uuid).topic)
        elif what == "log begun anew":
            table.upsert(random_rows(Random(3), 9, None))
            metastore.restart_log(table.uuid)
        table.upsert(random_rows(Random(2), 9, None))
        newest = find_newest(table)
        if what == "log begun anew":
            publisher.close()
            publisher.publish()
        assert to_rows(read_all(stream, newest)) == to_rows(read_all(files, newest))
    publisher.close()


def test_a_topic_recreated_with_fewer_partitions_is_made_up_for_by_files(
    catalog: Catalog, metastore: InProcessMetastore, cluster: MemoryCluster
) -> None:
    table = make(catalog, True, {"bucket": "3"})
    publisher = HandPublisher(metastore, cluster, table)
    newest = fill(table, True)
    publisher.publish()
    topic = metastore.get_log(table.uuid).topic
    cluster.delete_topic(topic)
    cluster.create_topic(TopicSpec(topic, 1, 1), {})
    options = {"scan.snapshot-id": "1", "streaming-read-mode": "log"}
    with (
        table.subscribe(scan_mode="from-snapshot", options=options) as stream,
        table.subscribe(scan_mode="from-snapshot", options={**options, "streaming-read-mode": "file"}) as files,
    ):
        assert to_rows(read_all(stream, newest)) == to_rows(read_all(files, newest))
    publisher.close()


def test_a_reader_goes_on_with_its_consumer(
    catalog: Catalog, metastore: InProcessMetastore, cluster: MemoryCluster
) -> None:
    table = make(catalog, True, {"bucket": "2"})
    publisher = HandPublisher(metastore, cluster, table)
    newest = fill(table, True)
    publisher.publish()
    options = {"scan.snapshot-id": "1"}
    with table.subscribe(scan_mode="from-snapshot", options={**options, "streaming-read-mode": "file"}) as stream:
        wanted = to_rows(read_all(stream, newest))
    found = []
    for mode in ("log", "file", "log", "log"):
        with table.subscribe(
            scan_mode="from-snapshot",
            consumer_id="c",
            auto_commit=False,
            options={**options, "streaming-read-mode": mode},
        ) as stream:
            done = stream.position or 0
            found += to_rows(read_all(stream, min(done + 3, newest)))
            stream.commit()
            done = stream.position or 0
            if done == newest:
                break
    assert found == wanted
    publisher.close()


def test_records_of_another_history_stop_the_reader(
    catalog: Catalog, metastore: InProcessMetastore, cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(catalog, False, {})
    publisher = HandPublisher(metastore, cluster, table)
    newest = fill(table, False)
    publisher.publish()
    real = take_fetched

    def forge(records: FetchedRecords, rows: Any) -> FetchedRecords:
        taken = real(records, rows)
        return FetchedRecords(**{**vars(taken), "uuids": pa.array([b"0" * 32] * len(taken), pa.binary())})

    monkeypatch.setattr(log_feed, "take_fetched", forge)
    with (
        table.subscribe(scan_mode="from-snapshot", options={"scan.snapshot-id": "1"}) as stream,
        pytest.raises(HistoryDiverged, match="another than the table's"),
    ):
        read_all(stream, newest)
    publisher.close()


@pytest.mark.parametrize("error", [PermissionDenied("No."), InvalidArgument("No secret.")])
def test_who_may_not_read_the_log_reads_files_unless_it_was_asked_for(
    catalog: Catalog, metastore: InProcessMetastore, cluster: MemoryCluster, uses: LogUses, error: Exception
) -> None:
    table = make(catalog, False, {})
    publisher = HandPublisher(metastore, cluster, table)
    newest = fill(table, False)
    publisher.publish()
    uses.refuses = error
    with table.subscribe(scan_mode="from-snapshot", options={"scan.snapshot-id": "1"}) as stream:
        assert read_all(stream, newest)
    options = {"scan.snapshot-id": "1", "streaming-read-mode": "log"}
    with (
        table.subscribe(scan_mode="from-snapshot", options=options) as stream,
        pytest.raises(type(error), match="No"),
    ):
        read_all(stream, newest)
    publisher.close()


def test_a_subscription_that_waits_for_its_log_ends_when_it_is_closed(
    catalog: Catalog, metastore: InProcessMetastore, cluster: MemoryCluster
) -> None:
    table = make(catalog, False, {})
    publisher = HandPublisher(metastore, cluster, table)
    fill(table, False)
    publisher.publish()
    stream = table.subscribe(scan_mode="latest")
    assert stream.read(0.2) is None
    table.append(random_rows(Random(1), 3, None))
    assert stream.read(0.3) is None
    stream.close()
    assert stream.position != find_newest(table)
    assert not [each for each in threading.enumerate() if each.name == "lakelog-subscribe"]
    publisher.close()
