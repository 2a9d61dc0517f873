"""Which records of a topic each batch takes: planned once, in order, and never past what the topic has lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import structlog

from lakelog.errors import DataCorrupted, HistoryDiverged, LakelogError, NotFound, SnapshotExpired
from writer.exit_status import ExitStatus, to_exit_status
from writer.kafka.offset_log import OFFSETS_PROPERTY, OffsetLog
from writer.kafka.source import TopicSource
from writer.kafka.topic import TopicOffsets, find_starts
from writer.pipeline.kafka_spec import KafkaSource, Start

from .topics import Topics, make_source, spans


def open_source(folder: Path, source: KafkaSource | None = None) -> TopicSource:
    no_task: Any = None
    return TopicSource(source or make_source(), OffsetLog(folder), no_task)


def plan(source: TopicSource, batches: int) -> int:
    """Plans the next batch after some; returns how many are planned then."""
    return batches + source.plan(batches)


def taken(folder: Path, batch_id: int) -> list[tuple[int, int, int]]:
    batch = OffsetLog(folder).read(batch_id)
    assert batch is not None
    return spans(batch.ranges)


def fails(source: TopicSource, batches: int) -> LakelogError:
    with pytest.raises(LakelogError) as caught:
        plan(source, batches)
    return caught.value


def test_batches_follow_each_other_without_gap(topics: Topics, tmp_path: Path) -> None:
    source = open_source(tmp_path)
    assert plan(source, 0) == 0
    topics.send(b"a", b"b")
    assert plan(source, 0) == 1
    topics.send(b"c")
    # Planned is planned, whoever asks.
    assert plan(source, 0) == plan(open_source(tmp_path), 0) == 1
    assert plan(source, 1) == 2
    assert plan(source, 2) == 2
    first, second = taken(tmp_path, 0), taken(tmp_path, 1)
    assert first[0][:2] == (0, 0)
    assert second[0][1] == first[0][2]
    (group,) = source.group(0, 4)
    assert [(part.batch_id, part.number, part.start) for part in group] == [(0, 0, 0)]


def test_what_is_not_committed_waits(topics: Topics, tmp_path: Path) -> None:
    topics.send(b"a")
    source = open_source(tmp_path)
    assert plan(source, 0) == 1
    topics.send(b"b", end="")
    assert plan(source, 1) == 1
    topics.cluster.expire_transactions()
    # Its end takes offsets, too, which are passed by a batch without records.
    assert plan(source, 1) == 2


def test_a_pipeline_that_begins_at_the_latest_does_not_restart(topics: Topics, tmp_path: Path) -> None:
    topics.send(b"old")
    source = make_source(starting=Start.LATEST)
    assert plan(open_source(tmp_path, source), 0) == 0
    topics.send(b"new")
    # Started again before its first batch: what came meanwhile is read.
    assert plan(open_source(tmp_path, source), 0) == 1
    assert taken(tmp_path, 0)[0][2] > taken(tmp_path, 0)[0][1] > 0


def test_a_batch_is_limited_and_its_snapshot_reports_where_it_ends(topics: Topics, tmp_path: Path) -> None:
    topics.send(*[b"x"] * 10)
    source = open_source(tmp_path, make_source(max_records_per_batch=4))
    assert plan(source, 0) == 1
    assert plan(source, 1) == 2
    assert taken(tmp_path, 1) == [(0, 4, 8)]
    batch = OffsetLog(tmp_path).read(1)
    assert batch is not None
    (reported,) = json.loads(batch.properties[OFFSETS_PROPERTY])
    assert (reported["topic"], reported["offsets"]) == ("orders", [8])
    assert (batch.before.taken, batch.after.taken, batch.before.lag - batch.after.lag) == (4, 8, 4)
    assert batch.after.position == "offsets 0:8"


def test_several_topics_are_read_by_one_pipeline(topics: Topics, tmp_path: Path) -> None:
    topics.make("returns", 2)
    topics.send(b"a", b"b")
    topics.send(b"c", name="returns", partition=1)
    source = make_source(topics=("orders", "returns"), max_records_per_batch=3)
    opened = open_source(tmp_path, source)
    assert plan(opened, 0) == 1
    assert plan(opened, 1) == 2
    # In another order in the file they are the same topics.
    other = make_source(topics=("returns", "orders"), max_records_per_batch=3)
    assert other.identity == source.identity
    assert plan(open_source(tmp_path, other), 2) == 2
    first, second = (OffsetLog(tmp_path).read(number) for number in (0, 1))
    assert first is not None
    assert second is not None
    reported = {each["topic"]: each for each in json.loads(second.properties[OFFSETS_PROPERTY])}
    assert {name: each["offsets"] for name, each in reported.items()} == {"orders": [3], "returns": [0, 2]}
    assert {each["topic_id"] for each in reported.values()} == {
        topics.log.open_admin().find_topic(name).topic_id  # type: ignore[union-attr]
        for name in reported
    }
    assert first.after.position == "offsets orders 0:1, returns 0:0, returns 1:1"
    lags = {(part.topic, part.partition): part.lag for part in first.after.partitions}
    assert lags == {("orders", 0): 2, ("returns", 0): 0, ("returns", 1): 1}
    assert first.after.lag == 3
    (taken_by_tasks,) = opened.group(0, 4)
    assert [(part.topic, part.number, part.start, part.end) for part in taken_by_tasks] == [
        ("orders", 0, 0, 1), ("returns", 1, 0, 1),
    ]  # fmt: skip


def test_each_of_several_topics_must_be_the_one_that_it_was(topics: Topics, tmp_path: Path) -> None:
    topics.make("returns")
    topics.send(b"a")
    topics.send(b"b", name="returns")
    source = make_source(topics=("orders", "returns"))
    assert plan(open_source(tmp_path, source), 0) == 1
    topics.remake("returns")
    topics.send(*[b"x"] * 9, name="returns")
    assert "Topic 'returns' was deleted and made anew" in fails(open_source(tmp_path, source), 1).message
    with pytest.raises(HistoryDiverged, match="'returns'"):
        TopicSource(source, OffsetLog(tmp_path), task=None).refresh(1, structlog.get_logger())  # type: ignore[arg-type]


def test_available_now_ends_where_the_topic_ended_when_it_began(topics: Topics, tmp_path: Path) -> None:
    topics.send(b"a")
    source = open_source(tmp_path)
    source.freeze()
    (end,) = topics.log.open_reader("orders").list_offsets()
    topics.send(b"b")
    assert plan(source, 0) == 1
    assert plan(source, 1) == 1
    assert taken(tmp_path, 0) == [(0, 0, end)]


def test_new_partitions_are_read_from_their_beginning(topics: Topics, tmp_path: Path) -> None:
    topics.send(b"a")
    source = open_source(tmp_path, make_source(starting=Start.LATEST))
    assert plan(source, 0) == 0
    topics.cluster.add_partitions("orders", 2)
    topics.send(b"b", partition=1)
    assert plan(source, 0) == 1
    first, second = taken(tmp_path, 0)
    assert first[1] == first[2]
    assert second[:2] == (1, 0)


def test_a_topic_that_was_recreated_stops_the_pipeline(topics: Topics, tmp_path: Path) -> None:
    topics.send(b"a")
    assert plan(open_source(tmp_path), 0) == 1
    topics.remake()
    topics.send(*[b"x"] * 50)
    error = fails(open_source(tmp_path), 1)
    assert isinstance(error, HistoryDiverged)
    assert "was deleted and made anew" in error.message
    assert to_exit_status(error) is ExitStatus.CHECKPOINT
    # It is told before Spark is started, too.
    source = TopicSource(make_source(), OffsetLog(tmp_path), task=None)  # type: ignore[arg-type]
    with pytest.raises(HistoryDiverged):
        source.refresh(1, structlog.get_logger())


def test_records_that_were_deleted_unread_stop_the_pipeline(topics: Topics, tmp_path: Path) -> None:
    topics.send(*[b"x"] * 10)
    assert plan(open_source(tmp_path, make_source(max_records_per_batch=4)), 0) == 1
    topics.cluster.cut("orders", {0: 7})
    error = fails(open_source(tmp_path), 1)
    assert isinstance(error, SnapshotExpired)
    assert "read up to offset 4, and the first record that it still keeps is 7" in error.message
    assert to_exit_status(error) is ExitStatus.CHECKPOINT


@pytest.mark.parametrize(
    ("ends", "what"),
    [((10, 4), "partition 1 was read up to offset 5 and ends at 4"), ((10,), "it has 1 partitions, of which 2 were")],
)
def test_a_topic_that_ends_before_what_was_read_stops_the_pipeline(ends: tuple[int, ...], what: str) -> None:
    offsets = TopicOffsets("id", (0,) * len(ends), ends)
    with pytest.raises(HistoryDiverged, match=what) as caught:
        find_starts("orders", (7, 5), offsets)
    assert to_exit_status(caught.value) is ExitStatus.CHECKPOINT
    assert find_starts("orders", (7, 5), TopicOffsets("id", (0, 5, 2), (10, 5, 9))) == (7, 5, 2)


def test_records_that_were_read_may_be_deleted(topics: Topics, tmp_path: Path) -> None:
    topics.send(*[b"x"] * 10)
    assert plan(open_source(tmp_path, make_source(max_records_per_batch=4)), 0) == 1
    topics.cluster.cut("orders", {0: 4})
    assert plan(open_source(tmp_path), 1) == 2


def test_no_topic(topics: Topics, tmp_path: Path) -> None:
    topics.cluster.delete_topic("orders")
    error = fails(open_source(tmp_path), 0)
    assert isinstance(error, NotFound)
    assert to_exit_status(error) is ExitStatus.MISSING


def test_a_checkpoint_that_was_changed_is_noticed(topics: Topics, tmp_path: Path) -> None:
    topics.send(b"a")
    source = open_source(tmp_path)
    assert plan(source, 0) == 1
    (tmp_path / "0000000000.json").write_text("{}")
    assert isinstance(fails(source, 0), DataCorrupted)
    (tmp_path / "0000000000.json").unlink()
    missing = fails(source, 1)
    assert isinstance(missing, DataCorrupted)
    assert missing.message == f"The checkpoint {tmp_path} has no log of batch 0: it was changed. Restore it."


def test_old_logs_go(topics: Topics, tmp_path: Path) -> None:
    source = open_source(tmp_path, make_source(max_records_per_batch=1))
    topics.send(*[b"x"] * 104)
    for batch_id in range(104):
        assert plan(source, batch_id) == batch_id + 1
    source.forget(104)
    assert sorted(tmp_path.glob("[0-9]*"))[0].name == "0000000004.json"
    # It goes on from the last one that is kept: the end of the transaction takes an offset, too. Then nothing waits.
    assert plan(source, 104) == 105
    assert taken(tmp_path, 104) == [(0, 104, 105)]
    assert plan(source, 105) == 105
