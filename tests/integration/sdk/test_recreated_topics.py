"""A topic that is deleted or made anew while its publisher runs (R10): it stops, says so, and readers miss nothing.

Each with the protection and, as its control, without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.errors import HistoryDiverged, InvalidArgument
from lakelog.log.memory import Fault, MemoryCluster, MemoryLog, Step
from lakelog.reads.log import stall as log_stall
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.storage.objects.stores import LocationStores
from metastore.testing import InProcessMetastore
from tests.integration.sdk.moved_clock import MovedClock
from tests.support.log.logging_tables import HandPublisher, Row, make_rows, open_metastore, read_all, to_rows
from writer.publishing.topics.monitor import POLL_EVERY_S
from writer.publishing.topics.watch import TopicWatch
from writer.publishing.wiring import check_matches

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster()


@pytest.fixture
def metastore(cluster: MemoryCluster, tmp_path: Path) -> Iterator[InProcessMetastore]:
    service = open_metastore(tmp_path / "warehouse", cluster)
    yield service
    service.close()


@pytest.fixture
def table(metastore: InProcessMetastore, cluster: MemoryCluster) -> Table:
    catalog = Catalog(metastore, LocationStores(), open_log=lambda options: MemoryLog(cluster))
    catalog.create_database("shop")
    return catalog.create_table("shop.orders", SCHEMA, options={"log.system": "kafka"})


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
def publisher(
    metastore: InProcessMetastore, cluster: MemoryCluster, table: Table, clock: MovedClock
) -> Iterator[HandPublisher]:
    publisher = HandPublisher(metastore, cluster, table, clock)
    yield publisher
    publisher.close()


def rows(number: int) -> list[Row]:
    return [(row, f"{number}.{row}") for row in range(3)]


def append(table: Table, number: int) -> None:
    table.append(make_rows(SCHEMA, rows(number)))


def recreate(cluster: MemoryCluster, topic: str) -> None:
    before = cluster.get_topic(topic)
    cluster.delete_topic(topic)
    cluster.create_topic(before.spec, before.settings)


@pytest.mark.parametrize("protected", [True, False], ids=["protected", "control"])
def test_rows_that_another_topic_took_are_not_emitted(
    metastore: InProcessMetastore,
    cluster: MemoryCluster,
    table: Table,
    publisher: HandPublisher,
    monkeypatch: pytest.MonkeyPatch,
    protected: bool,
) -> None:
    monkeypatch.setattr(log_stall, "STALL_S", 0.3)
    if not protected:
        monkeypatch.setattr("writer.publishing.publisher.check_appended", lambda info, ends, appended: None)
    topic = metastore.get_log(table.uuid).topic
    with table.subscribe(scan_mode="from-snapshot", options={"scan.snapshot-id": "1"}) as stream:
        for number in (1, 2):
            append(table, number)
        publisher.publish()
        seen = to_rows(read_all(stream, 2))
        recreate(cluster, topic)
        append(table, 3)
        if not protected:
            publisher.publish()
            ends = MemoryLog(cluster).open_reader(topic).list_offsets()
            reported = metastore.get_publish_state(table.uuid)
            assert (reported.snapshot_id, reported.problem) == (3, "")
            assert ends < reported.offsets, "readers are told of offsets that no record has, in silence"
            return
        with pytest.raises(HistoryDiverged, match=r"the topic was cut or made anew.*lakelog log restart shop\.orders"):
            publisher.publish()
        with pytest.raises(HistoryDiverged, match="was made anew: its id was"):
            publisher.publish()
        assert metastore.get_publish_state(table.uuid).snapshot_id == 2
        seen += to_rows(read_all(stream, 3))
        metastore.restart_log(table.uuid)
        append(table, 4)
        publisher.publish()
        seen += to_rows(read_all(stream, 4))
    assert seen == [(number, row, value) for number in (1, 2, 3, 4) for row, value in rows(number)]
    assert metastore.get_publish_state(table.uuid).snapshot_id == 4


@pytest.mark.parametrize("protected", [True, False], ids=["protected", "control"])
@pytest.mark.parametrize("what", ["deleted", "made anew"])
def test_a_publisher_without_work_notices_too(
    metastore: InProcessMetastore,
    cluster: MemoryCluster,
    table: Table,
    publisher: HandPublisher,
    clock: MovedClock,
    monkeypatch: pytest.MonkeyPatch,
    what: str,
    protected: bool,
) -> None:
    if not protected:
        monkeypatch.setattr(TopicWatch, "poll", lambda self: None)
    append(table, 1)
    publisher.publish()
    topic = metastore.get_log(table.uuid).topic
    if what == "deleted":
        cluster.delete_topic(topic)
    else:
        recreate(cluster, topic)
    publisher.step()
    clock.ahead_s += POLL_EVERY_S
    if not protected:
        publisher.step()
        return
    said = "does not exist any more" if what == "deleted" else "was made anew"
    for _ in range(2):
        # While it runs, and when it starts.
        with pytest.raises(HistoryDiverged, match=rf"{said}.*lakelog log restart shop\.orders"):
            publisher.step()


@pytest.mark.parametrize("protected", [True, False], ids=["protected", "control"])
def test_a_topic_that_does_not_fit_is_not_published_to(
    metastore: InProcessMetastore, cluster: MemoryCluster, table: Table, publisher: HandPublisher, protected: bool
) -> None:
    topic = metastore.get_log(table.uuid).topic
    cluster.get_topic(topic).settings["cleanup.policy"] = "compact"
    append(table, 1)
    if not protected:
        publisher.publish()
        return
    publisher.check = partial(check_matches, metastore)
    with pytest.raises(InvalidArgument, match=r"cleanup.policy is compact.*kafka-configs\.sh") as caught:
        publisher.publish()
    assert caught.value.reason == "TOPIC_MISFIT"
    assert metastore.get_publish_state(table.uuid).snapshot_id == 0
    cluster.get_topic(topic).settings["cleanup.policy"] = "delete"
    publisher.publish()


def test_brokers_that_do_not_answer_end_nothing(
    cluster: MemoryCluster, table: Table, publisher: HandPublisher, clock: MovedClock
) -> None:
    append(table, 1)
    publisher.publish()
    cluster.script(Step.ADMIN, Fault.REFUSED)
    clock.ahead_s += POLL_EVERY_S
    append(table, 2)
    publisher.publish()
    assert publisher.publisher.published.producer_reinits == 1


def test_a_topic_that_somebody_has_altered_is_reported_while_it_runs(
    metastore: InProcessMetastore, cluster: MemoryCluster, table: Table, publisher: HandPublisher, clock: MovedClock
) -> None:
    publisher.check = partial(check_matches, metastore)
    append(table, 1)
    publisher.publish()
    cluster.get_topic(metastore.get_log(table.uuid).topic).settings["cleanup.policy"] = "compact"
    clock.ahead_s += POLL_EVERY_S
    for _ in range(2):
        # While it runs, and when it starts.
        with pytest.raises(InvalidArgument, match="compact"):
            publisher.step()
