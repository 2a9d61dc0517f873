"""Sentences of section 4 that are of topics, offsets, times and failures, each on a real broker."""

from __future__ import annotations

import datetime as dt
import json
import time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType

from lakelog.errors import InvalidArgument, LakelogError, PermissionDenied
from tests.conformance.language import TableSpec
from tests.conformance.log_stage import LogStage, to_key
from tests.conformance.stream_language import to_line

KV = TableSpec("k INT NOT NULL, v STRING", key=("k",))
APPEND = TableSpec("k INT, v STRING")
BUCKETS = TableSpec("k INT NOT NULL, v STRING", key=("k",), options={"bucket": "3"})


def make(stage: LogStage, table: TableSpec, **options: str) -> str:
    return stage.create(table, {key.replace("_", "."): value for key, value in options.items()})


def rows(table: TableSpec, *lines: str) -> pa.Table:
    return table.rows(lines)


def ask_topic(stage: LogStage, topic: str) -> dict[str, str]:
    """A topic's settings, as its broker tells anybody."""
    admin = AdminClient({"bootstrap.servers": stage.servers})
    resource = ConfigResource(ResourceType.TOPIC, topic)
    found = admin.describe_configs([resource])[resource].result(10)
    partitions = admin.list_topics(topic, timeout=10).topics[topic].partitions
    replicas = {len(each.replicas) for each in partitions.values()}
    return {name: str(entry.value) for name, entry in found.items()} | {
        "partitions": str(len(partitions)),
        "replicas": str(max(replicas)),
    }


def has_topic(stage: LogStage, topic: str) -> bool:
    return topic in AdminClient({"bootstrap.servers": stage.servers}).list_topics(timeout=10).topics


def read_rows(stage: LogStage, name: str, until: int, **options: str) -> list[tuple[int, str]]:
    """What a subscription shows up to a snapshot."""
    found: list[tuple[int, str]] = []
    end_s = time.monotonic() + 20
    with stage.table(name).subscribe(
        options={key.replace("_", "."): value for key, value in options.items()}
    ) as stream:
        while (stream.position or 0) < until:
            assert time.monotonic() < end_s
            batch = stream.read(0.05)
            if batch is not None:
                found += [(batch.snapshot_id or 0, to_line(row)) for row in batch.data.to_pylist()]
    return found


def test_4_1_the_log_is_refused_where_it_holds_rows_that_are_never_shown(log_stage: LogStage) -> None:
    first = {"merge-engine": "first-row"}
    with pytest.raises(LakelogError, match=r"first-row.*streams must read the files"):
        log_stage.create(TableSpec(KV.columns, KV.key, options={**first, "streaming-read-mode": "log"}), {})
    name = log_stage.create(TableSpec(KV.columns, KV.key, options=first), {})
    with pytest.raises(LakelogError, match="rows that come second to others"):
        log_stage.table(name).subscribe(options={"streaming-read-mode": "log"})


def test_4_2_transactional_records_are_seen_after_their_snapshot_and_once(log_stage: LogStage) -> None:
    name = make(log_stage, KV)
    table = log_stage.table(name)
    with log_stage.catalog.transaction() as tx:
        tx.table(name).upsert(rows(KV, "1|a"))
        assert log_stage.read(name) == []
    log_stage.publish(name)
    assert [record.snapshot for record in log_stage.read(name)] == [1]
    # Whoever publishes next begins by reading how far the log is.
    log_stage.forget_publisher(name)
    table.upsert(rows(KV, "2|b"))
    log_stage.publish(name)
    log_stage.forget_publisher(name)
    log_stage.publish(name)
    assert [record.snapshot for record in log_stage.read(name)] == [1, 2]


def test_4_2_eventual_records_are_seen_as_soon_as_written(log_stage: LogStage) -> None:
    name = make(log_stage, KV, log_consistency="eventual")
    table = log_stage.table(name)
    with log_stage.catalog.transaction() as tx:
        tx.table(name).upsert(rows(KV, "1|a"))
        end_s = time.monotonic() + 20
        while not (uncommitted := log_stage.read(name)):
            assert time.monotonic() < end_s
        assert table.scan().count() == 0
    (record,) = uncommitted
    assert set(record.headers) == {"kind", "idx", "attempt"}
    given_up = log_stage.catalog.transaction()
    given_up.table(name).upsert(rows(KV, "2|b"))
    while len(log_stage.read(name)) < 2:
        assert time.monotonic() < end_s
    given_up.abandon()
    log_stage.publish(name)
    # What was sent before its commit does not come again, and what was given up stays.
    assert [to_key(KV, {}, each) for each in log_stage.read(name)] == ["1", "2"]
    assert table.scan().count() == 1


def test_4_3_a_generated_topic_lives_with_its_table(log_stage: LogStage) -> None:
    name = make(log_stage, BUCKETS)
    topic = log_stage.topic(name)
    database, _, table = name.partition(".")
    assert topic.startswith(f"{database}_{table}_")
    assert log_stage.table(name).uuid in topic
    found = ask_topic(log_stage, topic)
    assert (found["partitions"], found["replicas"]) == ("3", "1"), "as many as buckets"
    assert found["message.timestamp.type"] == "LogAppendTime"
    assert "compact" in found["cleanup.policy"], "an upsert log keeps the last record of each key"
    log_stage.catalog.drop_table(name)
    end_s = time.monotonic() + 20
    while has_topic(log_stage, topic):
        assert time.monotonic() < end_s


def test_4_3_a_topic_that_the_user_names_is_never_dropped(log_stage: LogStage) -> None:
    options = {"kafka.topic": "{unique}", "log.retention": "2 h", "log.system.partitions": "2"}
    name = log_stage.create(APPEND, options)
    topic = log_stage.topic(name)
    found = ask_topic(log_stage, topic)
    assert (found["partitions"], found["cleanup.policy"], found["retention.ms"]) == ("2", "delete", "7200000")
    log_stage.table(name).append(rows(APPEND, "1|a"))
    log_stage.publish(name)
    log_stage.end(name)
    assert has_topic(log_stage, topic)
    assert len(log_stage.plain.read(topic)) == 1


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        ({"kafka.bootstrap.servers": "elsewhere:9092"}, PermissionDenied, "elsewhere:9092"),
        ({"kafka.plugin.library.paths": "/tmp/x.so"}, InvalidArgument, "kafka.plugin.library.paths"),
        ({"log.changelog-mode": "upsert"}, InvalidArgument, "no primary key"),
        ({"log.content": "changelog"}, InvalidArgument, "'changelog-producer' = 'lookup'"),
        ({"log.system": "none", "log.format": "json"}, InvalidArgument, "no effect"),
    ],
)
def test_4_3_what_is_not_allowed_is_refused(
    log_stage: LogStage, options: dict[str, str], kind: type[LakelogError], said: str
) -> None:
    with pytest.raises(kind, match=said):
        log_stage.create(APPEND, options)


def test_4_3_a_partition_is_a_bucket_for_all_partitions_of_the_table(log_stage: LogStage) -> None:
    table = TableSpec(
        "day INT NOT NULL, k INT NOT NULL, v STRING",
        ("day", "k"),
        ("day",),
        options={"bucket": "3", "log.format": "json"},
    )
    name = log_stage.create(table, {})
    log_stage.table(name).upsert(rows(table, *(f"{day}|{k}|x" for day in (1, 2, 3) for k in range(20))))
    log_stage.publish(name)
    places: dict[int, set[int]] = {}
    for record in log_stage.read(name):
        places.setdefault(json.loads(record.key or b"")["k"], set()).add(record.partition)
    assert len(places) == 20
    assert all(len(partitions) == 1 for partitions in places.values())
    assert {next(iter(partitions)) for partitions in places.values()} == {0, 1, 2}


def test_4_4_values_as_text(log_stage: LogStage) -> None:
    moment = dt.datetime(2026, 1, 2, 3, 4, 5, 60, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    data = pa.table(
        {
            "k": pa.array([1 << 60], pa.int64()),
            "price": pa.array([Decimal("12.50")], pa.decimal128(10, 2)),
            "at": pa.array([moment], pa.timestamp("us", "UTC")),
            "local": pa.array([dt.datetime.fromisoformat("2026-01-02T03:04:05")], pa.timestamp("us")),
            "day": pa.array([dt.date(2026, 1, 2)]),
            "raw": pa.array([b"\x00\xff"], pa.binary()),
            "nan": pa.array([float("nan")]),
            "low": pa.array([float("-inf")]),
            "yes": pa.array([True]),
            "list": pa.array([[1, None]], pa.list_(pa.int32())),
            "map": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32())),
            "none": pa.array([None], pa.string()),
        }
    )
    schema = data.schema.set(0, data.schema.field(0).with_nullable(False))
    found = {}
    for encoding, name in (("json", "conformance.texts"), ("debezium-json", "conformance.changes")):
        options = {"log.system": "kafka", "log.format": encoding}
        log_stage.catalog.create_table(name, schema, primary_key=["k"], options=options).upsert(data)
        log_stage.publish(name)
        (found[encoding],) = log_stage.read(name)
    row = (
        b'{"k":1152921504606846976,"price":"12.50","at":"2026-01-02T01:04:05.000060Z",'
        b'"local":"2026-01-02T03:04:05.000000","day":"2026-01-02","raw":"AP8=","nan":"NaN","low":"-Infinity",'
        b'"yes":true,"list":[1,null],"map":{"a":1},"none":null}'
    )
    assert found["json"].value == row
    assert found["json"].key == b'{"k":1152921504606846976}'
    change: dict[str, Any] = json.loads(found["debezium-json"].value or b"")
    ((_, committed_ms),) = log_stage.find_commits("conformance.changes").values()
    assert change == {
        "before": None,
        "after": json.loads(row),
        "source": {"db": "conformance", "table": "changes", "snapshot": 1, "bucket": 0},
        "op": "c",
        "ts_ms": committed_ms,
    }


def test_4_5_offsets_are_the_next_to_read_and_stay_where_nothing_came(log_stage: LogStage) -> None:
    name = make(log_stage, BUCKETS)
    table = log_stage.table(name)
    for keys in (range(12), range(1), range(4, 5), range(3)):
        table.upsert(rows(BUCKETS, *(f"{k}|x" for k in keys)))
        log_stage.publish(name)
    records = log_stage.read(name)
    ends = {each.snapshot_id: each.offsets for each in log_stage.metastore.list_log_offsets(table.uuid)}
    wanted = [0, 0, 0]
    for snapshot_id in (1, 2, 3, 4):
        for record in records:
            if record.snapshot == snapshot_id:
                wanted[record.partition] = record.offset + 1
        assert ends[snapshot_id] == tuple(wanted)
    assert any(a == b for a, b in zip(ends[1], ends[2], strict=True)), "a partition that was not touched"
    gaps = {record.partition: record.offset for record in records}
    assert any(gaps[p] + 1 > sum(each.partition == p for each in records) for p in gaps), "ends of transactions"


def test_4_5_what_brings_nothing_has_the_offsets_of_the_snapshot_before(log_stage: LogStage) -> None:
    name = make(log_stage, BUCKETS)
    table = log_stage.table(name)
    table.upsert(rows(BUCKETS, *(f"{k}|x" for k in range(12))))
    log_stage.publish(name)
    table.overwrite(rows(BUCKETS, "1|y"))
    # No publisher has come by yet.
    first, overwritten = table.snapshots().column("log_offsets").to_pylist()
    assert first == overwritten
    assert table.snapshots(limit=1).column("log_offsets").to_pylist() == [first]
    log_stage.publish(name)
    assert table.snapshots().column("log_offsets").to_pylist() == [first, first]
    table.upsert(rows(BUCKETS, *(f"{k}|z" for k in range(12))))
    assert table.snapshots().column("log_offsets").to_pylist() == [first, first, None]
    log_stage.publish(name)
    *_, last = table.snapshots().column("log_offsets").to_pylist()
    assert all(after > before for before, after in zip(first, last, strict=True))


def test_4_6_where_streams_begin_in_the_log(log_stage: LogStage) -> None:
    name = make(log_stage, KV)
    table = log_stage.table(name)
    for value in "abc":
        table.upsert(rows(KV, f"1|{value}"))
        if value != "b":
            log_stage.publish(name)
        time.sleep(0.002)
    # Snapshots 2 and 3 were appended together, after the commit of 3.
    times = {record.snapshot: record.time_ms for record in log_stage.read(name)}
    commits = {each: time_ms for each, (_, time_ms) in log_stage.find_commits(name).items()}
    assert commits[2] < commits[3] <= times[2] <= times[3]
    table.upsert(rows(KV, "2|d"))
    log: dict[str, str] = {"streaming-read-mode": "log"}
    since = {"scan_timestamp-millis": str(commits[3] + 1), **log}
    with table.subscribe(options=log) as full, table.subscribe("latest", options=log) as latest:
        time.sleep(0.2)
        log_stage.publish(name)
        found: dict[str, list[tuple[int, str]]] = {"full": [], "latest": []}
        for kind, stream in (("full", full), ("latest", latest)):
            while (stream.position or 0) < 4:
                batch = stream.read(0.05)
                if batch is not None:
                    found[kind] += [(batch.snapshot_id or 0, to_line(row)) for row in batch.data.to_pylist()]
    # The rows of the newest snapshot whose offsets are known, then the log: none twice, none missing.
    assert found["full"] == [(3, "+I 1|c"), (4, "+I 2|d")]
    assert found["latest"] == [(4, "+I 2|d")]
    if times[2] > commits[3]:
        assert read_rows(log_stage, name, 4, **since) == [
            (2, "-U 1|a"),
            (2, "+U 1|b"),
            (3, "-U 1|b"),
            (3, "+U 1|c"),
            (4, "+I 2|d"),
        ]
    by_snapshot = read_rows(log_stage, name, 4, **{"scan_snapshot-id": "3", **log})
    assert by_snapshot == [(3, "-U 1|b"), (3, "+U 1|c"), (4, "+I 2|d")]


def test_4_8_a_log_that_is_too_short_leaves_no_gap(log_stage: LogStage) -> None:
    name = make(log_stage, APPEND)
    table = log_stage.table(name)
    for value in range(4):
        table.append(rows(APPEND, f"{value}|x"))
        log_stage.publish(name)
    cut = log_stage.read(name)[2].offset
    topic = log_stage.topic(name)
    partition = TopicPartition(topic, 0, cut)
    admin = AdminClient({"bootstrap.servers": log_stage.servers})
    admin.delete_records([partition])[partition].result(10)
    assert [record.snapshot for record in log_stage.read(name)] == [3, 4]
    everything = [(value + 1, f"{value}|x") for value in range(4)]
    assert read_rows(log_stage, name, 4, **{"scan_snapshot-id": "1", "streaming-read-mode": "log"}) == everything
